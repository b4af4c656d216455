//! Confines a program to parts of the file system, with Landlock where the kernel has it.
//!
//! A Landlock ruleset only allows. What a program must not reach is left out: the folders around it are allowed
//! entry by entry. A folder that is allowed in this way cannot receive new entries.

use std::fs;
use std::path::{Path, PathBuf};

/// The number of paths that one ruleset allows. What lies beyond is not allowed; a program then misses files.
const RULES_MAX: usize = 20_000;

/// The files that a program may use. It may read everything that is not hidden.
///
/// All paths are canonical.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileAccess {
    /// Files and folders that the program may write, with everything below them.
    pub writable: Vec<PathBuf>,
    /// Paths that it must not write although they lie below a writable one. They need not exist.
    pub read_only: Vec<PathBuf>,
    /// Paths that it must not read.
    pub hidden: Vec<PathBuf>,
}

impl FileAccess {
    /// Returns the paths to allow for reading.
    fn readable_paths(&self) -> Vec<PathBuf> {
        let mut paths = Vec::new();
        add_allowed(Path::new("/"), &self.hidden, &mut paths);
        paths
    }

    /// Returns the paths to allow for writing.
    fn writable_paths(&self) -> Vec<PathBuf> {
        let mut paths: Vec<PathBuf> = DEVICES.iter().map(PathBuf::from).collect();
        for path in &self.writable {
            add_allowed(path, &self.read_only, &mut paths);
        }
        paths
    }
}

/// Devices that programs write to without effect on other programs.
const DEVICES: [&str; 9] = [
    "/dev/null",
    "/dev/zero",
    "/dev/full",
    "/dev/random",
    "/dev/urandom",
    "/dev/tty",
    "/dev/ptmx",
    "/dev/pts",
    "/dev/shm",
];

/// Adds a path that is to be allowed without the excluded ones: itself, or those of its entries that lead to none.
fn add_allowed(path: &Path, excluded: &[PathBuf], allowed: &mut Vec<PathBuf>) {
    if allowed.len() >= RULES_MAX || excluded.iter().any(|excluded| path.starts_with(excluded)) {
        return;
    }
    if !excluded.iter().any(|excluded| excluded.starts_with(path)) {
        allowed.push(path.to_owned());
        return;
    }
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        // A rule for a link would allow its target, which may lie anywhere.
        if entry.file_type().is_ok_and(|kind| !kind.is_symlink()) {
            add_allowed(&entry.path(), excluded, allowed);
        }
    }
}

/// Returns whether the kernel can confine programs.
pub fn is_confinement_available() -> bool {
    #[cfg(target_os = "linux")]
    return kernel::is_available();
    #[cfg(not(target_os = "linux"))]
    false
}

/// Confines the calling thread and all processes that it starts. Does nothing where the kernel has no Landlock.
#[cfg_attr(not(target_os = "linux"), allow(clippy::unnecessary_wraps, reason = "only Landlock can fail"))]
pub(crate) fn confine_thread(access: &FileAccess) -> Result<(), String> {
    #[cfg(target_os = "linux")]
    return kernel::confine_thread(access).map_err(|error| error.to_string());
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (access.readable_paths(), access.writable_paths());
        Ok(())
    }
}

#[cfg(target_os = "linux")]
mod kernel {
    use landlock::{
        ABI, Access as _, AccessFs, CompatLevel, Compatible as _, Ruleset, RulesetAttr as _,
        RulesetCreatedAttr as _, RulesetError, Scope, path_beneath_rules,
    };

    use rustix::thread::{CapabilitySet, remove_capability_from_bounding_set};

    use super::FileAccess;

    /// The kernel interface whose file rights are used. It has renaming and truncation; older kernels use fewer.
    const FILES: ABI = ABI::V3;

    pub(super) fn is_available() -> bool {
        let ruleset = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
        ruleset.handle_access(AccessFs::from_all(ABI::V1)).and_then(Ruleset::create).is_ok()
    }

    /// Capabilities that lead around Landlock: they read the memory of other processes, or reach devices and the kernel.
    const CAPABILITIES: [CapabilitySet; 7] = [
        CapabilitySet::SYS_ADMIN,
        CapabilitySet::SYS_PTRACE,
        CapabilitySet::PERFMON,
        CapabilitySet::BPF,
        CapabilitySet::SYS_MODULE,
        CapabilitySet::SYS_RAWIO,
        CapabilitySet::MKNOD,
    ];

    pub(super) fn confine_thread(access: &FileAccess) -> Result<(), RulesetError> {
        for capability in CAPABILITIES {
            // The call fails for users who have no capabilities to lose.
            let _ = remove_capability_from_bounding_set(capability);
        }
        // A device that a privileged program makes would lead around all rules.
        let writing = AccessFs::from_write(FILES) & !(AccessFs::MakeChar | AccessFs::MakeBlock);
        Ruleset::default()
            .handle_access(AccessFs::from_all(FILES))?
            .scope(Scope::Signal)?
            .create()?
            .add_rules(path_beneath_rules(["/"], AccessFs::ReadDir))?
            .add_rules(path_beneath_rules(access.readable_paths(), AccessFs::from_read(FILES)))?
            .add_rules(path_beneath_rules(access.writable_paths(), writing))?
            .restrict_self()
            .map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folder_with_an_excluded_path_is_allowed_entry_by_entry() {
        let folder = std::env::temp_dir().join(format!("slipform-allowed-{}", std::process::id()));
        for name in ["a/secret", "a/open", "b/c"] {
            fs::create_dir_all(folder.join(name)).unwrap();
        }
        let _ = std::os::unix::fs::symlink("/etc", folder.join("link"));
        let mut allowed = Vec::new();
        add_allowed(&folder, &[folder.join("a/secret"), folder.join("new")], &mut allowed);
        allowed.sort();
        assert_eq!(allowed, [folder.join("a/open"), folder.join("b")]);
        fs::remove_dir_all(folder).unwrap();
    }
}
