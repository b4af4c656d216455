//! Describes a program and starts it.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use tokio::process::{Child, Command};

use crate::Error;
use crate::confinement::{FileAccess, confine_thread};

/// Variables that most programs need to find other programs, their settings, language and temporary folder.
///
/// A [`Program`] does not receive them by default. Callers add them with [`common_environment`].
pub const COMMON_ENVIRONMENT: [&str; 4] = ["PATH", "HOME", "LANG", "TMPDIR"];

/// Returns name and value of every variable in [`COMMON_ENVIRONMENT`] for which `value` returns `Some`.
pub fn common_environment(value: &dyn Fn(&str) -> Option<String>) -> Vec<(String, String)> {
    COMMON_ENVIRONMENT.iter().filter_map(|&name| Some((name.to_owned(), value(name)?))).collect()
}

/// An interpreter and how its options are read.
struct Interpreter {
    names: &'static [&'static str],
    /// Letters of short options that take program text, or the name of a module, instead of a script.
    inline: &'static str,
    /// Options whose next word is their value.
    with_value: &'static [&'static str],
}

const INTERPRETERS: [Interpreter; 8] = [
    Interpreter {
        names: &["sh", "bash", "dash", "zsh", "ksh"],
        inline: "c",
        with_value: &["-o", "+o", "-O", "+O", "--rcfile", "--init-file"],
    },
    Interpreter { names: &["python", "pypy"], inline: "cm", with_value: &["-W", "-X"] },
    Interpreter {
        names: &["node", "nodejs", "bun"],
        inline: "ep",
        with_value: &["-r", "--require", "--import", "--loader"],
    },
    Interpreter { names: &["ruby"], inline: "e", with_value: &["-I", "-r"] },
    Interpreter { names: &["perl"], inline: "eE", with_value: &["-I", "-M"] },
    Interpreter { names: &["php"], inline: "r", with_value: &["-d", "-c"] },
    Interpreter { names: &["lua"], inline: "e", with_value: &["-l"] },
    Interpreter { names: &["Rscript"], inline: "e", with_value: &[] },
];

/// Programs that start the program named by their remaining words: their name, their options that take a value, and
/// the number of words before that program.
const WRAPPERS: [(&str, &[&str], usize); 8] = [
    ("env", &["-u", "-C", "-S"], 0),
    ("timeout", &["-k", "-s"], 1),
    ("nice", &["-n"], 0),
    ("ionice", &["-c", "-n"], 0),
    ("stdbuf", &["-i", "-o", "-e"], 0),
    ("nohup", &[], 0),
    ("setsid", &[], 0),
    ("time", &["-f", "-o"], 0),
];

/// The longest cluster of short options, such as `-euc`. Longer words are long options with one dash.
const CLUSTER_LETTERS_MAX: usize = 4;

/// Returns the positions of words in a command that name a program by path: the program itself, and the script of an
/// interpreter, also behind wrappers such as `env` and `timeout`. Programs that are found on the `PATH` are not among
/// them.
pub fn program_positions(command: &[String]) -> Vec<usize> {
    let mut positions = Vec::new();
    let mut program = 0;
    while let Some(word) = command.get(program) {
        if word.contains('/') {
            positions.push(program);
        }
        let name = word.rsplit('/').next().unwrap_or(word);
        let name = name.trim_end_matches(|character: char| character.is_ascii_digit() || character == '.');
        if let Some((_, with_value, operands)) = WRAPPERS.iter().find(|(wrapper, ..)| *wrapper == name) {
            let is_assignment = |word: &String| name == "env" && word.contains('=');
            let mut next = skip_options(command, program + 1, with_value);
            while command.get(next).is_some_and(is_assignment) {
                next += 1;
            }
            program = next + operands;
            continue;
        }
        if let Some(interpreter) = INTERPRETERS.iter().find(|interpreter| interpreter.names.contains(&name)) {
            let script = skip_options(command, program + 1, interpreter.with_value);
            let mut options = command.iter().take(script).skip(program + 1);
            if script < command.len() && !options.any(|word| interpreter.is_inline(word)) {
                positions.push(script);
            }
        }
        break;
    }
    positions
}

impl Interpreter {
    /// Returns whether an option takes program text or a module: `-c`, a cluster such as `-ec`, or `--eval`.
    fn is_inline(&self, option: &str) -> bool {
        let is_long = matches!(option, "--eval" | "--print");
        is_long
            || cluster(option).is_some_and(|letters| letters.contains(|letter| self.inline.contains(letter)))
    }
}

/// Returns the letters of a short option or of a cluster of short options.
fn cluster(word: &str) -> Option<&str> {
    let letters = word.strip_prefix('-')?;
    let is_cluster = !letters.is_empty() && letters.len() <= CLUSTER_LETTERS_MAX && !letters.starts_with('-');
    is_cluster.then_some(letters)
}

/// Returns the position of the first word that is neither an option nor the value of one.
fn skip_options(command: &[String], start: usize, with_value: &[&str]) -> usize {
    let takes_value = |word: &String| {
        let last = cluster(word).and_then(|letters| letters.chars().next_back());
        with_value.contains(&word.as_str())
            || last.is_some_and(|last| with_value.contains(&format!("-{last}").as_str()))
    };
    let mut position = start;
    while let Some(word) = command.get(position) {
        if word == "--" {
            return position + 1;
        }
        if takes_value(word) {
            position += 2;
        } else if word.starts_with('-') && word.len() > 1 {
            position += 1;
        } else {
            break;
        }
    }
    position
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
    /// The files that the program may use, where the kernel has Landlock; `None` for those of the user.
    pub access: Option<FileAccess>,
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
            .field("access", &self.access)
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
        let error = |reason| Error::Start { program: name.clone(), reason };
        let spawned = match &self.access {
            None => command.spawn(),
            Some(access) => spawn_confined(&mut command, access)
                .map_err(|reason| error(format!("it cannot be confined: {reason}")))?,
        };
        spawned.map_err(|cause| error(self.start_error(&program, &cause)))
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

/// Starts a program from a thread that is confined before. A process inherits the confinement of the thread that starts
/// it, so that no code has to run between `fork` and `exec`.
fn spawn_confined(command: &mut Command, access: &FileAccess) -> Result<std::io::Result<Child>, String> {
    let runtime = tokio::runtime::Handle::try_current().map_err(|error| error.to_string())?;
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let _context = runtime.enter();
            confine_thread(access)?;
            Ok(command.spawn())
        });
        thread.join().unwrap_or_else(|_| Err("its thread ended early".to_owned()))
    })
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
        assert_eq!(check(&["bash", "-o", "pipefail", "v/1.sh"], &sub), "bash -o pipefail ROOT/v/1.sh");
        assert_eq!(check(&["timeout", "5", "sh", "v/2.sh"], &sub), "timeout 5 sh ROOT/v/2.sh");
        let wrapped = ["env", "A=b", "python3", "-W", "ignore", "4.py"];
        assert_eq!(check(&wrapped, &sub), "env A=b python3 -W ignore ROOT/4.py");
        for inline in
            ["perl -e 1", "sh -ec true", "bash -euo pipefail -c true", "python3 -Ic pass", "node -e 1"]
        {
            let words: Vec<&str> = inline.split(' ').collect();
            assert_eq!(check(&words, &sub), inline);
        }
        assert_eq!(check(&["cat", "data.py"], &sub), "cat data.py");
        assert_eq!(check(&["./bin/scan"], root), "./bin/scan");
    }
}
