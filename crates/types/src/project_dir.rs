//! Rules for `project_dir`, the working directory of a run, that need no file system access.

/// Folders of a project that no run may work in and no tool may write to. Changing them would change which
/// programs run, which schemas apply, or the stored history.
pub const PROTECTED_FOLDERS: [&str; 5] = [".git", ".slipform", ".kb", "agents", "schemas"];

/// Folders that are protected at every depth, because every repository and project has its own.
const PROTECTED_ANYWHERE: [&str; 2] = [".git", ".slipform"];

/// The meaning of a `project_dir`, before symbolic links are resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProjectDir {
    /// A folder inside the project, relative to its root, without `.` and `..`. Empty for the root.
    Inside(String),
    /// An absolute path, or a path that leaves the project through `..`.
    Outside,
    /// A protected folder, or a folder inside this one.
    Protected(&'static str),
}

impl ProjectDir {
    /// Parses a `project_dir` as given by a caller.
    pub fn read(given: &str) -> ProjectDir {
        if given.starts_with('/') {
            return ProjectDir::Outside;
        }
        let mut parts: Vec<&str> = Vec::new();
        for part in given.split('/') {
            match part {
                "" | "." => {}
                ".." if parts.pop().is_some() => {}
                ".." => return ProjectDir::Outside,
                part => parts.push(part),
            }
        }
        match protected_folder(&parts) {
            Some(folder) => ProjectDir::Protected(folder),
            None => ProjectDir::Inside(parts.join("/")),
        }
    }
}

/// Returns the protected folder that a path is or lies in. The path is relative to the project's root. Case
/// is ignored, because some file systems ignore it.
pub fn protected_folder(parts: &[&str]) -> Option<&'static str> {
    let named = |part: &str, folders: &[&'static str]| {
        folders.iter().copied().find(|folder| folder.eq_ignore_ascii_case(part))
    };
    let top = parts.first().and_then(|first| named(first, &PROTECTED_FOLDERS));
    top.or_else(|| parts.iter().find_map(|part| named(part, &PROTECTED_ANYWHERE)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn project_dir_is_normalised_before_classification() {
        let inside = |path: &str| ProjectDir::Inside(path.to_owned());
        for (given, expected) in [
            ("", inside("")),
            (".", inside("")),
            ("src//./a/", inside("src/a")),
            ("a/..", inside("")),
            ("..", ProjectDir::Outside),
            ("a/../..", ProjectDir::Outside),
            ("/srv", ProjectDir::Outside),
            ("agents", ProjectDir::Protected("agents")),
            ("./agents/../agents/x", ProjectDir::Protected("agents")),
            ("AGENTS", ProjectDir::Protected("agents")),
            ("src/agents", inside("src/agents")),
            ("src/.git", ProjectDir::Protected(".git")),
            ("src/.slipform/index", ProjectDir::Protected(".slipform")),
            (".github", inside(".github")),
        ] {
            assert_eq!(ProjectDir::read(given), expected, "{given}");
        }
    }
}
