//! Any program as a backend: one JSON document on stdin, the answer on stdout.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use formwork_types::{Reply, Request, Stop, Usage};
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};
use tokio::sync::Semaphore;

use crate::config::BackendConfig;
use crate::error::Error;
use crate::estimate;
use crate::secret::Secret;
use crate::{Backend, Call, CallFuture, Invocation};

/// The version of the invocation document.
const SCHEMA_VERSION: &str = "2.2";

/// The longest answer that is read from a program; more means that it runs wild.
const STDOUT_BYTES_MAX: usize = 16 * 1024 * 1024;

/// How much of the end of what a program says on stderr is kept, and how much of it an error shows.
const STDERR_BYTES_MAX: usize = 8 * 1024;
const STDERR_CHARACTERS_SHOWN: usize = 600;

/// Variables that every program needs to find other programs, its settings and its language.
const ENVIRONMENT: [&str; 4] = ["PATH", "HOME", "LANG", "TMPDIR"];

/// A program that answers.
#[derive(Debug)]
pub(crate) struct Program {
    command: Vec<String>,
    environment: Vec<Variable>,
    secret: Secret,
    folder: PathBuf,
    model: String,
    total: Duration,
    slots: Semaphore,
}

/// A variable that the program sees. What the settings list is mostly keys, so that it is not shown.
struct Variable {
    name: String,
    value: String,
    secret: Secret,
}

impl std::fmt::Debug for Variable {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.name)
    }
}

impl Program {
    pub(crate) fn new(
        config: &BackendConfig,
        secret: Secret,
        environment: &dyn Fn(&str) -> Option<String>,
        folder: &Path,
    ) -> Program {
        let variable = |name: &str, listed: bool| {
            let value = environment(name)?;
            let secret = Secret::new(Some(value.clone()).filter(|_| listed));
            Some(Variable { name: name.to_owned(), value, secret })
        };
        let common = ENVIRONMENT.iter().filter_map(|name| variable(name, false));
        let listed = config.env.iter().chain(&config.api_key_env).filter_map(|name| variable(name, true));
        Program {
            command: config.command.clone(),
            environment: common.chain(listed).collect(),
            secret,
            folder: folder.to_owned(),
            model: config.model.clone().unwrap_or_default(),
            total: config.total(),
            slots: Semaphore::new(config.max_concurrency),
        }
    }

    async fn answer(&self, document: String) -> Result<Reply, Error> {
        let _slot = self.slots.acquire().await.map_err(|_| self.failed("was closed"))?;
        let mut child = self.start()?;
        let group = Group(child.id());
        let work = self.talk(&mut child, &group, document.as_bytes());
        let said = tokio::time::timeout(self.total, work).await.map_err(|_| Error::Timeout {
            what: "the program",
            setting: "timeout_seconds",
            limit: self.total,
        })??;
        if !said.status.success() {
            let tail = self.redacted(tail(&said.stderr));
            return Err(self.failed(&format!("failed ({}){tail}", said.status)));
        }
        // Replacing what is not text could make a valid answer of it.
        let Ok(text) = str::from_utf8(&said.stdout) else {
            return Err(self.failed("answered with bytes that are not UTF-8 text"));
        };
        let text = text.trim().to_owned();
        let usage =
            Usage { input: estimate::tokens(&document), output: estimate::tokens(&text), estimated: true };
        let model = self.model.clone();
        let reply = Reply { text, stop: Stop::Finished, usage, model, ..Reply::default() };
        Ok(self.secret.redact_reply(reply))
    }

    /// What the program said without the values of the variables that were listed for it.
    fn redacted(&self, text: String) -> String {
        self.environment.iter().fold(text, |text, variable| variable.secret.redact(text))
    }

    fn start(&self) -> Result<Child, Error> {
        let (program, arguments) = self
            .command
            .split_first()
            .ok_or_else(|| Error::Settings("a command backend needs a command".into()))?;
        let mut command = Command::new(program);
        command
            .args(arguments)
            .current_dir(&self.folder)
            .env_clear()
            .envs(self.environment.iter().map(|variable| (&variable.name, &variable.value)))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .process_group(0);
        command.spawn().map_err(|error| self.failed(&format!("cannot be started: {error}")))
    }

    /// Hands the document over and listens until the program has ended and nobody else holds its pipes.
    async fn talk(&self, child: &mut Child, group: &Group, document: &[u8]) -> Result<Said, Error> {
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let write = async {
            if let Some(mut stdin) = stdin {
                // A program that does not read its input closes the pipe; its answer is what counts.
                let _ = stdin.write_all(document).await;
                let _ = stdin.shutdown().await;
            }
            Ok(())
        };
        let end = async {
            let status = child.wait().await;
            // What it left running would keep the pipes open, and its answer is given.
            group.kill();
            status.map_err(|error| self.failed(&format!("cannot be waited for: {error}")))
        };
        let ((), stdout, stderr, status) =
            tokio::try_join!(write, read_answer(stdout), read_end(stderr), end)?;
        Ok(Said { status, stdout, stderr })
    }

    fn failed(&self, reason: &str) -> Error {
        let program = self.command.first().cloned().unwrap_or_default();
        Error::Program { program, reason: reason.to_owned() }
    }
}

/// How a program ended and what it said.
struct Said {
    status: std::process::ExitStatus,
    stdout: Vec<u8>,
    stderr: Vec<u8>,
}

/// The program's whole process group, ended when the call ends in any way.
struct Group(Option<u32>);

impl Group {
    fn kill(&self) {
        let pid = self.0.and_then(|id| i32::try_from(id).ok()).and_then(rustix::process::Pid::from_raw);
        if let Some(pid) = pid {
            // The group is usually gone by now, which is what is wanted.
            let _ = rustix::process::kill_process_group(pid, rustix::process::Signal::KILL);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Reads to the end, or fails at the limit: a program that never stops writing is not waited for.
async fn read_answer(stream: Option<impl AsyncRead + Unpin>) -> Result<Vec<u8>, Error> {
    let mut bytes = Vec::new();
    if let Some(stream) = stream {
        // A pipe that breaks has ended; whether the answer is whole is for its reader to say.
        let _ = stream.take(STDOUT_BYTES_MAX as u64 + 1).read_to_end(&mut bytes).await;
    }
    if bytes.len() > STDOUT_BYTES_MAX {
        return Err(Error::TooLarge { limit: STDOUT_BYTES_MAX });
    }
    Ok(bytes)
}

/// Reads to the end and keeps the last of it: complaints end with what matters.
async fn read_end(stream: Option<impl AsyncRead + Unpin>) -> Result<Vec<u8>, Error> {
    let mut kept = Vec::with_capacity(2 * STDERR_BYTES_MAX);
    if let Some(mut stream) = stream {
        while let Ok(1..) = stream.read_buf(&mut kept).await {
            if kept.len() > 2 * STDERR_BYTES_MAX {
                kept.drain(..kept.len() - STDERR_BYTES_MAX);
            }
        }
    }
    Ok(kept)
}

fn tail(stderr: &[u8]) -> String {
    let text = String::from_utf8_lossy(stderr);
    let text = text.trim();
    if text.is_empty() {
        return String::new();
    }
    let skip = text.chars().count().saturating_sub(STDERR_CHARACTERS_SHOWN);
    format!(": {}", text.chars().skip(skip).collect::<String>())
}

/// The document a program gets. A first call carries the caller's parameters; a correction resumes the
/// session with the new message as its prompt.
fn document(request: &Request, invocation: &Invocation) -> Value {
    let last = request.messages.last().map(|message| message.content.as_str()).unwrap_or_default();
    let mut blueprint = or_empty(&invocation.agent_blueprint);
    if let (Some(system), Some(blueprint)) = (&request.system, blueprint.as_object_mut()) {
        blueprint.insert("system_prompt".to_owned(), json!(system));
    }
    let mut parameters = if invocation.resumed { json!({}) } else { or_empty(&invocation.parameters) };
    if let Some(parameters) = parameters.as_object_mut() {
        parameters.insert("prompt".to_owned(), json!(last));
    }
    json!({
        "schema_version": SCHEMA_VERSION,
        "mode": if invocation.resumed { "resume" } else { "start" },
        "session_id": invocation.session_id,
        "parameters": parameters,
        "project_dir": invocation.project_dir,
        "agent_name": invocation.agent_name,
        "agent_blueprint": blueprint,
        "executor_config": {"max_tokens": request.max_tokens},
        "output_schema_hint": request.schema_hint,
        "metadata": {"run_id": invocation.run_id},
    })
}

/// A call outside any run has neither parameters nor blueprint, and still a prompt.
fn or_empty(value: &Value) -> Value {
    if value.is_null() { json!({}) } else { value.clone() }
}

impl Backend for Program {
    fn features(&self) -> &'static [&'static str] {
        &[]
    }

    fn call<'a>(&'a self, call: Call<'a>) -> CallFuture<'a> {
        let nobody = Invocation::default();
        let document = document(call.request, call.invocation.unwrap_or(&nobody));
        Box::pin(self.answer(document.to_string()))
    }
}
