//! Test fixtures: a project folder per test, the command run in it, and a coordinator that serves it.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use slipform_testkit::{wait_for, wait_until};

/// Variables of the developer's environment that would change a test's outcome. [`Project::command`] removes them.
const CLEARED_VARIABLES: [&str; 18] = [
    "SLIPFORM_URL",
    "SLIPFORM_CA",
    "SLIPFORM_TOKEN",
    "SLIPFORM_DB",
    "PGPASSWORD",
    "PGPASSFILE",
    "SLIPFORM_MODEL",
    "SLIPFORM_MODEL_DIR",
    "OPENAI_BASE_URL",
    "OPENAI_API_KEY",
    "OPENAI_MODEL",
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_BASE_URL",
    "ANTHROPIC_MODEL",
    "OLLAMA_HOST",
    "OLLAMA_MODEL",
    "SCHEMA_ENFORCEMENT_MAX_RETRIES",
    "SCHEMA_ENFORCEMENT_EXTRACT_JSON",
];

/// A project folder with the environment of the commands that run in it.
pub(crate) struct Project {
    pub(crate) folder: PathBuf,
    variables: Vec<(String, String)>,
}

/// The output and exit status of a finished command.
pub(crate) struct CommandOutput {
    pub(crate) status: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl CommandOutput {
    /// Parses stdout as one JSON document.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}\n{}", self.stdout, self.stderr))
    }

    /// Returns the status, stdout and stderr as one text, for snapshots and failure messages.
    pub(crate) fn all(&self) -> String {
        format!("status {}\n--- stdout\n{}--- stderr\n{}", self.status, self.stdout, self.stderr)
    }
}

impl Project {
    /// Creates an empty project. Tests run in parallel, so each needs a different `name`.
    pub(crate) fn new(name: &str) -> Project {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("project-{name}"));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("agents")).unwrap();
        Project { folder, variables: Vec::new() }
    }

    pub(crate) fn file(self, name: &str, text: &str) -> Project {
        let path = self.folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
        self
    }

    /// Configures one chat completions backend that retries without backoff.
    pub(crate) fn backend(self, base_url: &str) -> Project {
        let settings = format!(
            "[backends.scripted]\nkind = \"openai\"\nbase_url = \"{base_url}\"\nmodel = \"m\"\nretry_base_seconds = 0.0\n"
        );
        self.file("slipform.toml", &settings)
    }

    /// Sets an environment variable for every command of the project.
    pub(crate) fn variable(mut self, name: &str, value: &str) -> Project {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Prepares the command with piped stdin, stdout and stderr.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_slipform"));
        command.args(arguments).current_dir(&self.folder);
        for name in CLEARED_VARIABLES {
            command.env_remove(name);
        }
        command.envs(self.variables.iter().cloned());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> CommandOutput {
        self.run_with(arguments, "")
    }

    /// Runs the command to its end on a terminal of its own and returns everything that the terminal received.
    pub(crate) fn run_on_terminal(&self, arguments: &[&str]) -> String {
        let spawn = "import os, pty, sys; sys.exit(os.waitstatus_to_exitcode(pty.spawn(sys.argv[1:])))";
        let slipform = self.command(arguments);
        let mut command = Command::new("python3");
        command.args(["-c", spawn]).arg(slipform.get_program()).args(slipform.get_args());
        command.current_dir(&self.folder).stdin(Stdio::null());
        for (name, value) in slipform.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    }

    /// Runs the command to its end with `input` on stdin. In server mode a coordinator serves the project meanwhile.
    pub(crate) fn run_with(&self, arguments: &[&str], input: &str) -> CommandOutput {
        let mut command = self.command(arguments);
        let served = (is_server_mode() && uses_coordinator(arguments) && !self.names_coordinator(arguments))
            .then(|| serve(self, &[]));
        if let Some((_, address)) = &served {
            command.env("SLIPFORM_URL", address);
        }
        let output = finish(command, input);
        if let Some((server, _)) = served {
            server.shut_down();
        }
        output
    }

    /// Returns whether a command or the project's environment names a coordinator itself.
    fn names_coordinator(&self, arguments: &[&str]) -> bool {
        arguments.contains(&"--server") || self.variables.iter().any(|(name, _)| name == "SLIPFORM_URL")
    }
}

/// Returns whether the suite runs its commands against a server. `cargo xtask test` runs it once in each mode: what a command
/// prints does not depend on where its coordinator is.
pub(crate) fn is_server_mode() -> bool {
    std::env::var_os("SLIPFORM_TEST_SERVER").is_some()
}

/// Returns true in server mode, and prints why the test does not apply there.
pub(crate) fn is_local_only(reason: &str) -> bool {
    if is_server_mode() {
        println!("not for a server: {reason}");
    }
    is_server_mode()
}

/// Returns whether a command reads or writes through a coordinator.
fn uses_coordinator(arguments: &[&str]) -> bool {
    match arguments {
        ["run" | "orchestrate" | "sessions" | "runs" | "stats", ..] => true,
        ["agents", "list" | "show", ..] => true,
        ["schemas", "check", ..] => false,
        ["schemas", ..] => true,
        _ => false,
    }
}

/// Runs a prepared command to its end with `input` on stdin.
fn finish(mut command: Command, input: &str) -> CommandOutput {
    let mut child = command.spawn().unwrap();
    // A command that refuses its arguments does not read its input.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    CommandOutput {
        status: output.status.code().unwrap(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

impl Project {
    /// Returns the text of every file in the project, to search it for secrets.
    pub(crate) fn everything_written(&self) -> String {
        let mut text = String::new();
        let mut pending = vec![self.folder.clone()];
        while let Some(path) = pending.pop() {
            if path.is_dir() {
                pending.extend(fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
            } else {
                text.push_str(&String::from_utf8_lossy(&fs::read(path).unwrap()));
            }
        }
        text
    }
}

/// A running coordinator. Dropping it kills the process.
pub(crate) struct Server(pub(crate) Child);

impl Server {
    /// Shuts the coordinator down and waits for its end, which releases the project's store.
    pub(crate) fn shut_down(mut self) {
        let id = rustix::process::Pid::from_child(&self.0);
        rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
        let status = self.0.wait().unwrap();
        assert!(status.success(), "{status}");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Serves a project on a free port and returns the coordinator with its URL.
pub(crate) fn serve(project: &Project, more: &[&str]) -> (Server, String) {
    let mut command = project.command(&["serve", "--listen", "127.0.0.1:0"]);
    command.args(more);
    let mut process = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(process.stderr.take().unwrap()).lines();
    let line = lines.find(|line| line.as_ref().unwrap().contains("listening on")).unwrap().unwrap();
    // An unread pipe would fill up and block the coordinator.
    std::thread::spawn(move || lines.for_each(drop));
    let address = line.split_whitespace().find(|word| word.starts_with("http://")).unwrap().to_owned();
    (Server(process), address)
}

/// A `slipform serve` whose messages a test reads while it runs.
pub(crate) struct Serving {
    pub(crate) process: Server,
    log: PathBuf,
}

impl Serving {
    pub(crate) fn start(project: &Project, more: &[&str]) -> Serving {
        Serving::start_on(project, "127.0.0.1:0", more)
    }

    pub(crate) fn start_on(project: &Project, listen: &str, more: &[&str]) -> Serving {
        let log = project.folder.with_extension("log");
        let mut command = project.command(&["serve", "--listen", listen]);
        command.args(more).stdin(Stdio::null()).stdout(Stdio::null());
        let process = Server(command.stderr(File::create(&log).unwrap()).spawn().unwrap());
        Serving { process, log }
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    pub(crate) fn wait_for_message(&self, text: &str) {
        wait_until(text, || self.log().contains(text));
    }

    /// Waits until the coordinator listens, and returns its URL.
    pub(crate) fn address(&self) -> String {
        wait_for("the coordinator listens", || {
            let log = self.log();
            let line = log.lines().find(|line| line.contains("listening on"))?;
            line.split_whitespace().find(|word| word.starts_with("http")).map(str::to_owned)
        })
    }

    pub(crate) fn wait_for_exit(&mut self) -> i32 {
        let status = wait_for("the coordinator ends", || self.process.0.try_wait().unwrap());
        status.code().unwrap()
    }
}

/// An agent file with an output schema.
pub(crate) const REVIEWER: &str = "\
name: reviewer
description: Reviews a change
system_prompt: You review changes.
output_schema:
  type: object
  required: [summary, severity]
  properties:
    summary: {type: string}
    severity: {type: string, enum: [low, medium, high]}
";

/// Sends one request to a server and returns the status and the JSON body.
pub(crate) fn request(
    address: &str,
    method: &str,
    path: &str,
    token: Option<&str>,
    body: &Value,
) -> (u16, Value) {
    use std::io::Read as _;
    let host = address.trim_start_matches("http://");
    let mut stream = std::net::TcpStream::connect(host).unwrap();
    let authorization = token.map(|token| format!("Authorization: Bearer {token}\r\n")).unwrap_or_default();
    let body = if body.is_null() { String::new() } else { body.to_string() };
    write!(
        stream,
        "{method} {path} HTTP/1.0\r\nHost: {host}\r\nContent-Type: application/json\r\n{authorization}Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).unwrap();
    let (head, body) = response.split_once("\r\n\r\n").unwrap();
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    (status, if body.is_empty() { Value::Null } else { serde_json::from_str(body).unwrap() })
}
