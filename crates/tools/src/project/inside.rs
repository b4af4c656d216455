//! Paths that stay inside the project, at least in what they say. The handle sees to the rest.

use std::path::{Component, Path};

use crate::Error;

/// Folders that belong to others: the history of the project, and our own records of it.
const PROTECTED: [&str; 2] = [".git", ".slipform"];

/// How the names of files begin that are being written.
pub(super) const DRAFT: &str = ".slipform-";

/// Whether a name is one that tools neither write, list nor search. File systems that ignore case exist.
pub(crate) fn is_protected(name: &str) -> bool {
    let is_draft = name.starts_with(DRAFT) && name.ends_with(".tmp");
    is_draft || PROTECTED.iter().any(|protected| protected.eq_ignore_ascii_case(name))
}

/// A path inside the project: relative, parts separated by `/`, none of them `.` or `..`. The project itself is empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Inside(String);

impl Inside {
    /// Takes a path as it was given.
    pub(super) fn parse(given: &str, root: &Path) -> Result<Inside, Error> {
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
        Ok(Inside(parts.join("/")))
    }

    /// A path that was found inside.
    pub(crate) fn found(path: String) -> Inside {
        Inside(path)
    }

    /// As the handle takes it.
    pub(crate) fn as_path(&self) -> &Path {
        Path::new(self.shown())
    }

    /// As results and messages show it.
    pub(crate) fn shown(&self) -> &str {
        if self.0.is_empty() { "." } else { &self.0 }
    }

    /// Its parts from the project's folder down.
    pub(crate) fn parts(&self) -> impl Iterator<Item = &str> {
        self.0.split('/').filter(|part| !part.is_empty())
    }

    /// What has to stand before the names of a folder's entries.
    pub(crate) fn prefix(&self) -> String {
        if self.0.is_empty() { String::new() } else { format!("{}/", self.0) }
    }

    /// Whether it is in a folder that tools leave alone.
    pub(crate) fn is_protected(&self) -> bool {
        self.parts().any(is_protected)
    }

    /// Why the tool does not do this with this path.
    pub(crate) fn refused(&self, reason: impl Into<String>) -> Error {
        Error::Path { path: self.shown().to_owned(), reason: reason.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_taken_apart_or_refused() {
        let root = Path::new("/project");
        let check = |given: &str| Inside::parse(given, root).map(|path| path.shown().to_owned()).ok();
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
