//! Where a run may work: rules for `project_dir` that need no file system.

/// Folders of a project that no run may work in and no tool may write to: whoever changes them decides which programs
/// run, what results have to satisfy, and what history says.
pub const PROTECTED_FOLDERS: [&str; 5] = [".git", ".slipform", ".kb", "agents", "schemas"];

/// Folders that are protected at every depth: each repository and each project has its own.
const PROTECTED_ANYWHERE: [&str; 2] = [".git", ".slipform"];

/// What a `project_dir` says, before links are followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProjectDir {
    /// A folder inside the project, relative to its root, without `.` and `..`; empty for the root itself.
    Inside(String),
    /// An absolute path, or one that `..` leads out of the project.
    Outside,
    /// The folder is protected, or lies in this one.
    Protected(&'static str),
}

impl ProjectDir {
    /// Reads a `project_dir` as a caller wrote it.
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

/// The protected folder that a path relative to a project's root is or lies in. Case is ignored, as some file systems
/// do.
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
    fn project_dir_is_normalised_before_it_is_judged() {
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
