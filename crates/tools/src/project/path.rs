//! Normalizes project paths. The check is lexical; the directory handle prevents escapes through links.

use std::path::{Component, Path};

use crate::Error;

/// Folders that tools never touch: the git history and Slipform's own state.
const PROTECTED: [&str; 2] = [".git", ".slipform"];

/// Name prefix of temporary files that a write in progress has created.
pub(super) const TEMPORARY_PREFIX: &str = ".slipform-";

/// Returns whether tools refuse to write, list or search this name. The comparison ignores case because some
/// file systems do.
pub(crate) fn is_protected(name: &str) -> bool {
    let is_temporary = name.starts_with(TEMPORARY_PREFIX) && name.ends_with(".tmp");
    is_temporary || PROTECTED.iter().any(|protected| protected.eq_ignore_ascii_case(name))
}

/// A normalized path inside the project: relative, separated by `/`, without `.` and `..`. The project itself
/// is the empty path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProjectPath(String);

impl ProjectPath {
    /// Parses a path as a model wrote it.
    pub(super) fn parse(given: &str, root: &Path) -> Result<ProjectPath, Error> {
        let refused = |reason: &str| Error::Path { path: given.to_owned(), reason: reason.to_owned() };
        if given.contains('\0') {
            return Err(refused("contains a NUL character; no path does"));
        }
        let path = Path::new(given);
        let relative = match path.strip_prefix(root) {
            Ok(relative) => relative,
            Err(_) if path.has_root() => {
                return Err(refused(
                    "is outside the project; give a path relative to the project's folder, such as 'src/main.rs'",
                ));
            }
            Err(_) => path,
        };
        let mut parts: Vec<&str> = Vec::new();
        for component in relative.components() {
            match component {
                Component::Normal(part) => parts.extend(part.to_str()),
                Component::CurDir => {}
                Component::ParentDir if parts.pop().is_some() => {}
                Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                    return Err(refused(
                        "leads outside the project; give a path relative to the project's folder, without '..'",
                    ));
                }
            }
        }
        Ok(ProjectPath(parts.join("/")))
    }

    /// Wraps a path that is already normalized, such as one that a walk found.
    pub(crate) fn trusted(path: String) -> ProjectPath {
        ProjectPath(path)
    }

    /// Returns the path for use with the directory handle.
    pub(crate) fn as_path(&self) -> &Path {
        Path::new(self.as_str())
    }

    /// Returns the path as results and messages show it: `.` for the project itself.
    pub(crate) fn as_str(&self) -> &str {
        if self.0.is_empty() { "." } else { &self.0 }
    }

    /// Returns the path's components, starting at the project's folder.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &str> {
        self.0.split('/').filter(|part| !part.is_empty())
    }

    /// Returns the prefix of the paths of a folder's entries: empty, or the path with a trailing `/`.
    pub(crate) fn prefix(&self) -> String {
        if self.0.is_empty() { String::new() } else { format!("{}/", self.0) }
    }

    /// Returns whether a component of the path is protected.
    pub(crate) fn is_protected(&self) -> bool {
        self.parts().any(is_protected)
    }

    /// Returns an error for this path. `reason` completes a sentence that begins with the path.
    pub(crate) fn refused(&self, reason: impl Into<String>) -> Error {
        Error::Path { path: self.as_str().to_owned(), reason: reason.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_normalized_or_refused() {
        let root = Path::new("/project");
        let check = |given: &str| ProjectPath::parse(given, root).map(|path| path.as_str().to_owned()).ok();
        for (given, expected) in [
            ("src/main.rs", Some("src/main.rs")),
            ("./src//a/../main.rs/", Some("src/main.rs")),
            ("", Some(".")),
            ("a/..", Some(".")),
            ("/project/src", Some("src")),
            ("/project", Some(".")),
            ("/project/../etc", None),
            ("/projects", None),
            ("/etc/passwd", None),
            ("..", None),
            ("a/../../b", None),
            ("a\0b", None),
        ] {
            assert_eq!(check(given).as_deref(), expected, "{given}");
        }
    }
}
