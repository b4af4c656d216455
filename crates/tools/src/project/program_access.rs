//! The files that programs of a run may use: what tools may write, and nothing that tools may not read.

use std::fs;
use std::path::{Path, PathBuf};

use slipform_process::{FileAccess, program_positions};
use slipform_types::{PROTECTED_FOLDERS, protected_folder};

use super::policy::{Policy, ProjectPolicy, SETTINGS_FILE, real_paths};

/// The number of entries of a project that are inspected for nested repositories and secret files. Those beyond are
/// not protected from programs.
const ENTRIES_MAX: usize = 20_000;

/// The depth below the project at which entries are inspected.
const DEPTH_MAX: usize = 6;

/// Folders of installed and built files, which may be large. They are not inspected.
const UNINSPECTED: [&str; 5] = ["node_modules", "target", ".venv", "venv", "__pycache__"];

/// Files and folders of the user's home that hold keys.
const HOME_SECRETS: [&str; 16] = [
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".kube",
    ".docker",
    ".config/gcloud",
    ".config/gh",
    ".netrc",
    ".pgpass",
    ".git-credentials",
    ".pypirc",
    ".password-store",
    ".vault-token",
    ".cargo/credentials",
    ".cargo/credentials.toml",
];

/// Folders of the user's home where package managers keep what they install.
const HOME_CACHES: [&str; 5] = [".cache", ".npm", ".cargo/registry", ".cargo/git", ".local/share/uv"];

impl ProjectPolicy {
    /// Returns the files that a program may use which a run starts in `folder`; `None` if it is not confined.
    ///
    /// The program may write to the folder and to the temporary folder, but not to protected paths, to programs, and
    /// to the folder's own list of entries. It may read everything but files that hold keys, and `.slipform`.
    pub fn program_access(&self, folder: &Path, command: &[String]) -> Option<FileAccess> {
        if self.has_free_programs {
            return None;
        }
        let folder = folder.canonicalize().unwrap_or_else(|_| folder.to_owned());
        let root = self.root.as_ref().and_then(|root| root.canonicalize().ok());
        let root = root.unwrap_or_else(|| folder.clone());
        let mut access = FileAccess { writable: vec![folder.clone()], ..FileAccess::default() };
        access.writable.extend(std::env::temp_dir().canonicalize());
        for base in [&root, &folder] {
            access.read_only.extend(PROTECTED_FOLDERS.iter().map(|name| base.join(name)));
            access.read_only.push(base.join(SETTINGS_FILE));
            access.hidden.push(base.join(".slipform"));
        }
        let programs =
            program_positions(command).into_iter().map(|position| PathBuf::from(&command[position]));
        let programs = self.programs.iter().cloned().chain(programs);
        access.read_only.extend(programs.flat_map(|program| real_paths(&root.join(program))));
        if let Some(home) = std::env::home_dir().and_then(|home| home.canonicalize().ok()) {
            access.hidden.extend(HOME_SECRETS.iter().map(|name| home.join(name)));
        }
        // A policy whose patterns do not compile lets tools read no secret file either.
        let policy = Policy::new(&folder, self).ok();
        let mut survey = Survey { policy: policy.as_ref(), access: &mut access, entries: 0 };
        for base in if folder.starts_with(&root) { vec![&root] } else { vec![&root, &folder] } {
            survey.inspect(base, base, DEPTH_MAX);
        }
        if let Some(policy) = &policy {
            access.read_only.extend(policy.link_targets().map(Path::to_owned));
        }
        Some(access)
    }
}

/// Returns the folders where package managers keep what they install, for programs that such managers start.
pub(crate) fn package_caches() -> Vec<PathBuf> {
    let home = std::env::home_dir().and_then(|home| home.canonicalize().ok());
    home.into_iter().flat_map(|home| HOME_CACHES.map(|name| home.join(name))).collect()
}

/// Looks for nested protected folders and secret files.
struct Survey<'p> {
    policy: Option<&'p Policy>,
    access: &'p mut FileAccess,
    entries: usize,
}

impl Survey<'_> {
    fn inspect(&mut self, base: &Path, folder: &Path, depth: usize) {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            self.entries += 1;
            if self.entries > ENTRIES_MAX {
                return;
            }
            let (path, name) = (entry.path(), entry.file_name());
            let Some(name) = name.to_str() else { continue };
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() {
                let relative = path.strip_prefix(base).unwrap_or(&path);
                let parts: Vec<&str> = relative.iter().filter_map(|part| part.to_str()).collect();
                if protected_folder(&parts).is_some() {
                    self.access.read_only.push(path);
                } else if depth > 1 && !UNINSPECTED.contains(&name) {
                    self.inspect(base, &path, depth - 1);
                }
            } else if kind.is_file() && self.policy.is_none_or(|policy| policy.is_secret_file(&path)) {
                self.access.hidden.push(path);
            }
        }
    }
}
