//! A program, and how it is started.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::process::{Child, Command};

use crate::Error;

/// The variables that every program needs to find other programs, its settings, its language and its scratch
/// folder. None is given unless the caller does: see [`common_environment`].
pub const COMMON_ENVIRONMENT: [&str; 4] = ["PATH", "HOME", "LANG", "TMPDIR"];

/// Those of [`COMMON_ENVIRONMENT`] that have a value.
pub fn common_environment(value: &dyn Fn(&str) -> Option<String>) -> Vec<(String, String)> {
    COMMON_ENVIRONMENT.iter().filter_map(|&name| Some((name.to_owned(), value(name)?))).collect()
}

/// Programs whose first argument that is not an option is a program as well.
const INTERPRETERS: [&str; 16] = [
    "sh", "bash", "dash", "zsh", "ksh", "python", "pypy", "node", "nodejs", "deno", "bun", "ruby", "perl",
    "php", "lua", "Rscript",
];

/// Options of interpreters that take program text, or the name of a module, instead of a file.
const INLINE_OPTIONS: [&str; 5] = ["-c", "-m", "-p", "--eval", "--print"];

/// Returns the positions of words in a command that name a program by path: the program itself, and the script of an
/// interpreter. Programs that are found on the `PATH` are not among them.
pub fn program_positions(command: &[String]) -> Vec<usize> {
    let Some((program, arguments)) = command.split_first() else { return Vec::new() };
    let mut positions = Vec::new();
    if program.contains('/') {
        positions.push(0);
    }
    let name = program.rsplit('/').next().unwrap_or(program);
    let name = name.trim_end_matches(|character: char| character.is_ascii_digit() || character == '.');
    if INTERPRETERS.contains(&name) {
        let inline = arguments.iter().position(|word| INLINE_OPTIONS.contains(&word.as_str()));
        let script = arguments.iter().position(|word| !word.starts_with('-'));
        if let Some(script) = script.filter(|script| inline.is_none_or(|inline| inline > *script)) {
            positions.push(script + 1);
        }
    }
    positions
}

/// A command of a project with its own programs, wherever it is run: a program or script that is named by a path
/// relative to the project's root becomes absolute where the command is run in another folder. Another file of the same
/// name in that folder may be anyone's.
pub fn anchor_command(command: &[String], root: Option<&Path>, folder: &Path) -> Vec<String> {
    let mut anchored = command.to_vec();
    let Some(root) = root.filter(|root| *root != folder) else { return anchored };
    for position in program_positions(command) {
        // Joining leaves absolute paths as they are.
        anchored[position] = root.join(&command[position]).to_string_lossy().into_owned();
    }
    anchored
}

/// A program and all that it is given but its input.
#[derive(Clone)]
pub struct Program {
    /// The program and its arguments; no shell reads them. A name is looked for on the `PATH` of
    /// `environment`, a relative path with a slash starts at `folder`.
    pub argv: Vec<String>,
    /// The folder it works in.
    pub folder: PathBuf,
    /// All the variables it sees.
    pub environment: Vec<(String, String)>,
}

/// Variables hold keys, so that only their names are shown.
impl std::fmt::Debug for Program {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = self.environment.iter().map(|(name, _)| name.as_str()).collect();
        formatter
            .debug_struct("Program")
            .field("argv", &self.argv)
            .field("folder", &self.folder)
            .field("environment", &names)
            .finish()
    }
}

impl Program {
    /// Starts it with pipes for everything it reads and writes, at the head of a process group of its own.
    pub(crate) fn start(&self) -> Result<Child, Error> {
        let (name, arguments) = self.argv.split_first().ok_or(Error::Empty)?;
        let program = self.resolved(name);
        let mut command = Command::new(&program);
        command
            .args(arguments)
            .current_dir(&self.folder)
            .env_clear()
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .process_group(0);
        command
            .spawn()
            .map_err(|error| Error::Start { program: name.clone(), reason: self.reason(&program, &error) })
    }

    /// Where the program is, for those that are given by path: what the system makes of a relative one
    /// together with a working folder differs from system to system.
    fn resolved(&self, name: &str) -> PathBuf {
        if !name.contains('/') {
            return PathBuf::from(name);
        }
        let path = self.folder.join(name);
        std::path::absolute(&path).unwrap_or(path)
    }

    /// Why it did not start. The system says "not found" of the program, its interpreter and its folder
    /// alike.
    fn reason(&self, program: &Path, error: &std::io::Error) -> String {
        let (folder, file) = (self.folder.display(), program.display());
        match error.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory if !self.folder.is_dir() => {
                format!("its working folder {folder} does not exist")
            }
            ErrorKind::NotFound if program.components().count() == 1 => {
                let path = self.environment.iter().find(|(name, _)| name == "PATH");
                let path = path.map_or("which is not given to it", |(_, path)| path.as_str());
                format!(
                    "there is no such program on the PATH ({path}); give its whole path, \
                     or ./ and its name if it is in {folder}"
                )
            }
            ErrorKind::NotFound if program.is_file() => {
                format!("{file} is there, but the interpreter that it names in its first line is not")
            }
            ErrorKind::NotFound => format!("there is no file {file} (relative paths start at {folder})"),
            ErrorKind::PermissionDenied => format!("{file} may not be executed; try chmod +x"),
            _ => error.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_and_scripts_of_the_root_are_absolute_in_other_folders() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let check = |command: &[&str], folder: &Path| {
            let command: Vec<String> = command.iter().map(|&word| word.to_owned()).collect();
            anchor_command(&command, Some(root), folder).join(" ").replace(&*root.to_string_lossy(), "ROOT")
        };
        let sub = root.join("src");
        assert_eq!(check(&["./bin/scan", "lib.rs"], &sub), "ROOT/./bin/scan lib.rs");
        assert_eq!(check(&["sh", "-e", "scan.sh", "Cargo.toml"], &sub), "sh -e ROOT/scan.sh Cargo.toml");
        assert_eq!(check(&["sh", "later.sh", "Cargo.toml"], &sub), "sh ROOT/later.sh Cargo.toml");
        assert_eq!(check(&["python3.12", "-u", "scan.py"], &sub), "python3.12 -u ROOT/scan.py");
        assert_eq!(check(&["python3", "-m", "scan"], &sub), "python3 -m scan");
        assert_eq!(check(&["cat", "data.py"], &sub), "cat data.py");
        assert_eq!(check(&["./bin/scan"], root), "./bin/scan");
    }
}
