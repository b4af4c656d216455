//! Rules for paths that tools must not write, and for files that they must not read.
//!
//! The rules apply to canonical paths below the project's root and below the run's folder. Neither
//! `project_dir` nor a symbolic link changes what they protect.

use std::fs;
use std::path::{Component, Path, PathBuf};

use ignore::overrides::{Override, OverrideBuilder};
use slipform_types::{PROTECTED_FOLDERS, ProjectDir, protected_folder};

use super::ProjectPath;
use crate::Error;

/// The project's settings, which name backends, commands and key variables.
pub(super) const SETTINGS_FILE: &str = "slipform.toml";

/// The number of entries of each protected folder that are inspected for links. Projects have dozens of
/// agents; links beyond the bound are not protected.
const LINK_ENTRIES_MAX: usize = 10_000;

/// File name endings of private keys.
const KEY_ENDINGS: [&str; 7] = [".pem", ".key", ".p12", ".pfx", ".jks", ".keystore", ".ppk"];

/// Names of files that hold private keys or passwords.
const SECRET_NAMES: [&str; 9] = [
    "id_rsa",
    "id_dsa",
    "id_ecdsa",
    "id_ecdsa_sk",
    "id_ed25519",
    "id_ed25519_sk",
    ".netrc",
    ".pgpass",
    ".git-credentials",
];

/// Project settings that extend the built-in rules.
#[derive(Debug, Clone, Default)]
pub struct ProjectPolicy {
    /// The project's root, if the run works in another folder.
    pub root: Option<PathBuf>,
    /// Ignore-file patterns, relative to the root, of files that may be read although they may hold keys.
    pub readable: Vec<String>,
    /// Programs that agents and backends start. Tools refuse to write to them.
    pub programs: Vec<PathBuf>,
    /// Whether programs that agents start may use all files of the user.
    pub has_free_programs: bool,
}

impl ProjectPolicy {
    /// Validates the patterns.
    ///
    /// # Errors
    /// Returns an error when a pattern does not compile or is negated.
    pub fn check(&self) -> Result<(), Error> {
        compile(&self.readable).map(drop)
    }
}

/// Resolves the folder of a run: the project's root, or the folder that its `project_dir` names.
///
/// Accepts paths outside the root, because the coordinator accepts those from administrators only. Refuses a
/// path inside the root that leads outside through a link, because its author named a folder inside.
///
/// # Errors
/// Returns an error when the folder does not exist, is protected, or lies outside the project through a link.
pub fn resolve_folder(root: &Path, project_dir: Option<&str>) -> Result<PathBuf, Error> {
    let shown = project_dir.unwrap_or(".");
    let refused = |reason: String| Error::Path { path: shown.to_owned(), reason };
    let real = |path: &Path| {
        path.canonicalize().map_err(|error| refused(format!("cannot be opened as project_dir: {error}")))
    };
    let root = real(root)?;
    let folder = match ProjectDir::read(project_dir.unwrap_or_default()) {
        ProjectDir::Protected(folder) => return Err(refused(protected_reason(folder))),
        ProjectDir::Outside => real(&root.join(shown))?,
        ProjectDir::Inside(path) => {
            let folder = real(&root.join(path))?;
            if !folder.starts_with(&root) {
                return Err(refused(
                    "leads outside the project through a link; name a folder inside it".to_owned(),
                ));
            }
            folder
        }
    };
    if !folder.is_dir() {
        return Err(refused("is not a folder; project_dir names a folder of the project".to_owned()));
    }
    let relative = folder.strip_prefix(&root).ok().and_then(|path| protected_folder(&parts(path)));
    let linked = link_targets(&root).into_iter().find(|(path, _)| folder.starts_with(path));
    match relative.or(linked.map(|(_, folder)| folder)) {
        Some(protected) => Err(refused(protected_reason(protected))),
        None => Ok(folder),
    }
}

fn protected_reason(folder: &str) -> String {
    format!("is or lies in '{folder}', where no run may work; name another folder as project_dir")
}

/// The compiled rules of one run.
#[derive(Debug)]
pub(crate) struct Policy {
    /// The project's root and the run's folder. Protected paths are relative to either.
    bases: Vec<PathBuf>,
    /// Targets of links that are, or lie in, protected folders of the root.
    link_targets: Vec<(PathBuf, &'static str)>,
    programs: Vec<PathBuf>,
    readable: Override,
}

impl Policy {
    /// Compiles the rules for a folder, given by its canonical path.
    pub(crate) fn new(folder: &Path, given: &ProjectPolicy) -> Result<Policy, Error> {
        let root = match &given.root {
            Some(root) => root.canonicalize().map_err(|error| Error::Path {
                path: root.display().to_string(),
                reason: format!("cannot be opened as the project's root: {error}"),
            })?,
            None => folder.to_owned(),
        };
        let programs = given.programs.iter().flat_map(|program| real_paths(&root.join(program))).collect();
        let link_targets = link_targets(&root);
        let mut bases = vec![root, folder.to_owned()];
        bases.dedup();
        Ok(Policy { bases, link_targets, programs, readable: compile(&given.readable)? })
    }

    /// Refuses a path that tools must not write. `real` is its canonical path.
    pub(crate) fn check_write(&self, path: &ProjectPath, real: &Path) -> Result<(), Error> {
        let protected = self.relative(real).find_map(|parts| match parts.as_slice() {
            [name] if name.eq_ignore_ascii_case(SETTINGS_FILE) => Some(SETTINGS_FILE),
            parts => protected_folder(parts),
        });
        let linked = self.link_targets.iter().find(|(linked, _)| real.starts_with(linked));
        if let Some(protected) = protected.or(linked.map(|(_, folder)| *folder)) {
            return Err(path.refused(format!(
                "belongs to '{protected}', which says which programs and keys agents may use; tools do not write to it, \
                 a person has to"
            )));
        }
        if self.programs.iter().any(|program| program == real) {
            return Err(path.refused(
                "is a program that an agent or a backend starts; tools do not write to it, a person has to",
            ));
        }
        Ok(())
    }

    /// Refuses a file that may hold keys by its name. `real` is where it leads.
    pub(crate) fn check_read(&self, path: &ProjectPath, real: &Path) -> Result<(), Error> {
        let is_secret = path.parts().any(is_secret_name)
            || self.relative(real).any(|parts| parts.into_iter().any(is_secret_name));
        if is_secret { self.check_readable(path, real) } else { Ok(()) }
    }

    /// Refuses a file that contains a private key, whatever its name.
    pub(crate) fn check_content(&self, path: &ProjectPath, real: &Path, content: &[u8]) -> Result<(), Error> {
        if contains_private_key(content) { self.check_readable(path, real) } else { Ok(()) }
    }

    /// Returns whether a file may hold keys by its name and the settings do not allow to read it.
    pub(super) fn is_secret_file(&self, real: &Path) -> bool {
        real.file_name().and_then(|name| name.to_str()).is_some_and(is_secret_name) && !self.is_readable(real)
    }

    /// Yields the targets of links that are, or lie in, protected folders.
    pub(super) fn link_targets(&self) -> impl Iterator<Item = &Path> {
        self.link_targets.iter().map(|(path, _)| path.as_path())
    }

    fn is_readable(&self, real: &Path) -> bool {
        let is_allowed = |parts: Vec<&str>| self.readable.matched(parts.join("/"), false).is_whitelist();
        !self.readable.is_empty() && self.relative(real).any(is_allowed)
    }

    fn check_readable(&self, path: &ProjectPath, real: &Path) -> Result<(), Error> {
        if self.is_readable(real) {
            return Ok(());
        }
        let shown = path.as_str();
        Err(path.refused(format!(
            "may hold keys and is not read; a person can allow it in {SETTINGS_FILE}: [tools] readable = [\"{shown}\"]"
        )))
    }

    /// Yields the path relative to each base that contains it.
    fn relative<'a>(&'a self, real: &'a Path) -> impl Iterator<Item = Vec<&'a str>> {
        self.bases.iter().filter_map(|base| Some(parts(real.strip_prefix(base).ok()?)))
    }
}

/// Where a program is, and where it would be: a file that does not exist yet can be written and then run.
pub(super) fn real_paths(program: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = program.canonicalize().into_iter().collect();
    let mut lexical = PathBuf::new();
    for component in program.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => drop(lexical.pop()),
            other => lexical.push(other),
        }
    }
    let parent = lexical.parent().and_then(|parent| parent.canonicalize().ok());
    if let (Some(parent), Some(name)) = (parent, lexical.file_name()) {
        paths.push(parent.join(name));
    }
    paths.push(lexical);
    paths
}

fn parts(path: &Path) -> Vec<&str> {
    path.components()
        .filter_map(|component| match component {
            Component::Normal(part) => part.to_str(),
            _ => None,
        })
        .collect()
}

fn compile(readable: &[String]) -> Result<Override, Error> {
    let mut builder = OverrideBuilder::new(".");
    for pattern in readable {
        let refused =
            |error: ignore::Error| Error::Pattern { pattern: pattern.clone(), reason: error.to_string() };
        if pattern.trim().is_empty() || pattern.starts_with('!') {
            let reason = "readable names files that may be read, such as \".env.example\"".to_owned();
            return Err(Error::Pattern { pattern: pattern.clone(), reason });
        }
        builder.add(pattern.strip_prefix("./").unwrap_or(pattern)).map_err(refused)?;
    }
    builder
        .build()
        .map_err(|error| Error::Pattern { pattern: readable.join(", "), reason: error.to_string() })
}

/// Returns the targets of links that are protected folders of the root, or lie in them. Writing to a target
/// would change protected content.
fn link_targets(root: &Path) -> Vec<(PathBuf, &'static str)> {
    let mut targets = Vec::new();
    for folder in PROTECTED_FOLDERS.into_iter().chain([SETTINGS_FILE]) {
        let path = root.join(folder);
        // Nothing reads files of `.git` and `.slipform` through links, and the folders may be large.
        let depth = if folder.starts_with('.') && folder != ".kb" { 0 } else { 2 };
        let mut visited = 0;
        collect_links(&path, depth, &mut visited, &mut |target| targets.push((target, folder)));
    }
    targets
}

fn collect_links(path: &Path, depth: usize, visited: &mut usize, found: &mut dyn FnMut(PathBuf)) {
    let Ok(metadata) = fs::symlink_metadata(path) else { return };
    if metadata.is_symlink()
        && let Ok(target) = path.canonicalize()
    {
        found(target);
    }
    if depth == 0 {
        return;
    }
    for entry in fs::read_dir(path).into_iter().flatten().flatten() {
        *visited += 1;
        if *visited > LINK_ENTRIES_MAX {
            return;
        }
        collect_links(&entry.path(), depth - 1, visited, found);
    }
}

/// Returns whether a file with this name may hold keys.
fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name == SETTINGS_FILE
        || name.starts_with(".env")
        || SECRET_NAMES.contains(&name.as_str())
        || KEY_ENDINGS.iter().any(|ending| name.ends_with(ending))
}

/// The longest rest of a marker behind the words `PRIVATE KEY`.
const HEADER_BYTES_MAX: usize = 40;

/// The fewest characters of a key that follow its first line, for it to be one. Text about keys has fewer.
const KEY_CHARACTERS_MIN: usize = 24;

/// Whether a file holds a private key: a line begins one, or its marker is followed by the key in the same line, as in
/// JSON. A program that only looks for keys has the marker inside a line, and no key behind it.
fn contains_private_key(content: &[u8]) -> bool {
    memchr::memmem::find_iter(content, b"PRIVATE KEY").any(|found| {
        let start = memchr::memrchr(b'\n', &content[..found]).map_or(0, |end| end + 1);
        let end = memchr::memchr(b'\n', &content[found..]).map_or(content.len(), |end| found + end);
        let line = content[start..end].trim_ascii();
        let begins = line.starts_with(b"-----BEGIN ") && line.ends_with(b"-----");
        begins || is_followed_by_key(&content[found..])
    })
}

/// Returns whether a key follows the marker in whose middle the text begins. Line ends, escapes, quotes and marks of
/// quotation between the lines of the key are passed over, as JSON, source code and messages have them.
fn is_followed_by_key(text: &[u8]) -> bool {
    let head = &text[..text.len().min(HEADER_BYTES_MAX)];
    let Some(marker_end) = memchr::memmem::find(head, b"-----") else { return false };
    let mut rest = &text[marker_end + 5..];
    let mut characters = 0;
    while characters < KEY_CHARACTERS_MIN {
        rest = match rest {
            [b'P', b'r', b'o', b'c', b'-', b'T', b'y', b'p', b'e', ..] => return true,
            [b'\\', b'u', b'0', b'0', b'0', _, after @ ..] => after,
            [b'\\', b'n' | b'r' | b't', after @ ..] | [b'\\', after @ ..] => after,
            [byte, after @ ..] if byte.is_ascii_whitespace() || b"\"'>,+#*".contains(byte) => after,
            [byte, after @ ..] if byte.is_ascii_alphanumeric() || b"/=".contains(byte) => {
                characters += 1;
                after
            }
            _ => return false,
        };
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_key_files_are_secret() {
        for name in [".env", ".ENV.local", ".envrc", "slipform.toml", "id_rsa", "tls.key", "a.PEM", ".netrc"]
        {
            assert!(is_secret_name(name), "{name}");
        }
        for name in ["environment", "env.rs", "id_rsa.pub", "keys.rs", "README.md", "monkey", ".gitignore"] {
            assert!(!is_secret_name(name), "{name}");
        }
    }

    #[test]
    fn private_key_is_recognised_at_the_beginning_of_a_line_only() {
        assert!(contains_private_key(b"notes\n  -----BEGIN RSA PRIVATE KEY-----\r\nabc\n"));
        assert!(contains_private_key(b"-----BEGIN PGP PRIVATE KEY BLOCK-----"));
        let account = br#"{"private_key": "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQ\n"}"#;
        assert!(contains_private_key(account));
        let nested =
            br#"{"json": "{\"key\": \"-----BEGIN PRIVATE KEY-----\\nMIIEvQIBADANBgkqhkiG9w0BAQ\"}"}"#;
        assert!(contains_private_key(nested));
        assert!(contains_private_key(b"> -----BEGIN PRIVATE KEY-----\n> MIIEvQIBADANBgkqhkiG9w0BAQ\n"));
        assert!(!contains_private_key(b"let marker = \"-----BEGIN PRIVATE KEY-----\";\n"));
        assert!(!contains_private_key(b"the line -----BEGIN PRIVATE KEY----- begins a key\n"));
        assert!(!contains_private_key(b"-----BEGIN PUBLIC KEY-----\n"));
    }
}
