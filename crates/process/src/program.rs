//! Describes a program and starts it.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::process::{Child, Command};

use crate::Error;

/// Variables that most programs need to find other programs, their settings, language and temporary folder.
///
/// A [`Program`] does not receive them by default. Callers add them with [`common_environment`].
pub const COMMON_ENVIRONMENT: [&str; 4] = ["PATH", "HOME", "LANG", "TMPDIR"];

/// Returns name and value of every variable in [`COMMON_ENVIRONMENT`] for which `value` returns `Some`.
pub fn common_environment(value: &dyn Fn(&str) -> Option<String>) -> Vec<(String, String)> {
    COMMON_ENVIRONMENT.iter().filter_map(|&name| Some((name.to_owned(), value(name)?))).collect()
}

/// Interpreters: their first argument that is not an option is a script file.
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

/// Makes relative paths of programs and scripts in `command` absolute, resolved against the project `root`.
///
/// A command that runs in another folder thus still executes the project's own files. A file of the same name
/// in that folder is untrusted. Returns `command` unchanged if `root` is `None` or equal to `folder`.
pub fn anchor_command(command: &[String], root: Option<&Path>, folder: &Path) -> Vec<String> {
    let mut anchored = command.to_vec();
    let Some(root) = root.filter(|root| *root != folder) else { return anchored };
    for position in program_positions(command) {
        // Joining leaves absolute paths as they are.
        anchored[position] = root.join(&command[position]).to_string_lossy().into_owned();
    }
    anchored
}

/// A command with its working folder and environment.
#[derive(Clone)]
pub struct Program {
    /// The program and its arguments, passed to the system without a shell. A bare name is searched on the
    /// `PATH` of `environment`; a relative path with a slash is resolved against `folder`.
    pub argv: Vec<String>,
    /// The working folder. It must exist.
    pub folder: PathBuf,
    /// The complete environment, as name and value; nothing is inherited.
    pub environment: Vec<(String, String)>,
}

/// Prints only the names of variables, because their values may be keys.
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
    /// Starts the program as leader of a new process group, with pipes for stdin, stdout and stderr.
    pub(crate) fn start(&self) -> Result<Child, Error> {
        let (name, arguments) = self.argv.split_first().ok_or(Error::Empty)?;
        let program = self.resolve(name);
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
        command.spawn().map_err(|error| Error::Start {
            program: name.clone(),
            reason: self.start_error(&program, &error),
        })
    }

    /// Returns the absolute path of a program given by path, and a bare name unchanged.
    ///
    /// Operating systems differ in how they combine a relative program path with a working folder.
    fn resolve(&self, name: &str) -> PathBuf {
        if !name.contains('/') {
            return PathBuf::from(name);
        }
        let path = self.folder.join(name);
        std::path::absolute(&path).unwrap_or(path)
    }

    /// Explains why the program did not start.
    ///
    /// The system reports "not found" for a missing program, a missing interpreter and a missing folder alike.
    fn start_error(&self, program: &Path, error: &std::io::Error) -> String {
        let (folder, file) = (self.folder.display(), program.display());
        match error.kind() {
            ErrorKind::NotFound | ErrorKind::NotADirectory if !self.folder.is_dir() => {
                format!("its working folder {folder} does not exist")
            }
            ErrorKind::NotFound if program.components().count() == 1 => {
                let path = self.environment.iter().find(|(name, _)| name == "PATH");
                let path = path.map_or("not set", |(_, path)| path.as_str());
                format!(
                    "not found on its PATH ({path}); give its absolute path, or ./NAME if it is in {folder}"
                )
            }
            ErrorKind::NotFound if program.is_file() => {
                format!("{file} exists, but the interpreter named in its first line does not")
            }
            ErrorKind::NotFound => format!("{file} does not exist (relative paths start at {folder})"),
            ErrorKind::PermissionDenied => format!("{file} is not executable; try chmod +x"),
            _ => error.to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anchor_command_in_other_folder_makes_project_files_absolute() {
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
