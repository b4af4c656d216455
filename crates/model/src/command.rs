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
use crate::usage::estimated;
use crate::{Backend, Call, CallFuture, Invocation};

/// The version of the invocation document.
const SCHEMA_VERSION: &str = "2.2";

/// The longest answer that is read from a program; more means that it runs wild.
const STDOUT_BYTES_MAX: usize = 16 * 1024 * 1024;

/// How much of the end of what a program says on stderr is kept, and how much of it an error shows.
const STDERR_BYTES_MAX: usize = 64 * 1024;
const STDERR_CHARACTERS_SHOWN: usize = 600;

/// Variables that every program needs to find other programs, its settings and its language.
const ENVIRONMENT: [&str; 4] = ["PATH", "HOME", "LANG", "TMPDIR"];

/// A program that answers.
#[derive(Debug)]
pub(crate) struct Program {
    command: Vec<String>,
    environment: Vec<(String, String)>,
    folder: PathBuf,
    model: String,
    total: Duration,
    slots: Semaphore,
}

impl Program {
    pub(crate) fn new(
        config: &BackendConfig,
        environment: &dyn Fn(&str) -> Option<String>,
        folder: &Path,
    ) -> Program {
        let names = ENVIRONMENT.iter().map(|name| (*name).to_owned()).chain(config.env.iter().cloned());
        Program {
            command: config.command.clone(),
            environment: names.filter_map(|name| environment(&name).map(|value| (name, value))).collect(),
            folder: folder.to_owned(),
            model: config.model.clone().unwrap_or_default(),
            total: config.total(),
            slots: Semaphore::new(config.max_concurrency),
        }
    }

    async fn answer(&self, document: &Value) -> Result<Reply, Error> {
        let _slot = self.slots.acquire().await.map_err(|_| self.failed("was closed"))?;
        let mut child = self.start()?;
        let mut group = Group(child.id());
        let work = self.talk(&mut child, &mut group, document.to_string());
        let outcome = tokio::time::timeout(self.total, work).await;
        if outcome.is_err() {
            drop(group);
            let what = "the program";
            return Err(Error::Timeout { what, setting: "timeout_seconds", limit: self.total });
        }
        let (status, stdout, stderr) = outcome.unwrap_or_else(|_| Err(self.failed("took too long")))?;
        if !status.success() {
            let said = tail(&stderr);
            return Err(self.failed(&format!("failed ({status}){said}")));
        }
        let text = String::from_utf8_lossy(&stdout).trim().to_owned();
        let usage =
            Usage { input: estimated(&document.to_string()), output: estimated(&text), estimated: true };
        Ok(Reply { text, stop: Stop::Finished, usage, model: self.model.clone(), ..Reply::default() })
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
            .envs(self.environment.iter().cloned())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .process_group(0);
        command.spawn().map_err(|error| self.failed(&format!("cannot be started: {error}")))
    }

    async fn talk(
        &self,
        child: &mut Child,
        group: &mut Group,
        document: String,
    ) -> Result<(std::process::ExitStatus, Vec<u8>, Vec<u8>), Error> {
        let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let write = async {
            if let Some(mut stdin) = stdin {
                // A program that does not read its input closes the pipe; its answer is what counts.
                let _ = stdin.write_all(document.as_bytes()).await;
                let _ = stdin.shutdown().await;
            }
        };
        let read = read_all(stdout, STDOUT_BYTES_MAX);
        let complain = read_tail(stderr, STDERR_BYTES_MAX);
        let exit = async {
            let status = child.wait().await;
            // Whoever the program leaves behind may hold its output open for ever.
            group.end();
            status
        };
        let ((), stdout, stderr, status) = tokio::join!(write, read, complain, exit);
        let (stdout, whole) = stdout;
        if !whole {
            return Err(Error::TooLarge { limit: STDOUT_BYTES_MAX });
        }
        let status = status.map_err(|error| self.failed(&format!("cannot be waited for: {error}")))?;
        Ok((status, stdout, stderr))
    }

    fn failed(&self, reason: &str) -> Error {
        let program = self.command.first().cloned().unwrap_or_default();
        Error::Program { program, reason: reason.to_owned() }
    }
}

/// Ends the program's whole process group when the call ends in any way.
struct Group(Option<u32>);

impl Group {
    /// Only once: when the program is gone, its number may soon be somebody else's.
    fn end(&mut self) {
        let pid =
            self.0.take().and_then(|id| i32::try_from(id).ok()).and_then(rustix::process::Pid::from_raw);
        if let Some(pid) = pid {
            // The group is usually gone by now, which is what is wanted.
            let _ = rustix::process::kill_process_group(pid, rustix::process::Signal::KILL);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.end();
    }
}

/// Reads to the end or to the limit; tells whether it was the end. Reading goes on behind the limit so
/// that the program is not stopped by a full pipe before it can fail by itself.
async fn read_all(stream: Option<impl AsyncRead + Unpin>, limit: usize) -> (Vec<u8>, bool) {
    let Some(stream) = stream else { return (Vec::new(), true) };
    let mut bytes = Vec::new();
    let mut bounded = stream.take(limit as u64);
    let read = bounded.read_to_end(&mut bytes).await;
    let mut rest = bounded.into_inner();
    let more = tokio::io::copy(&mut rest, &mut tokio::io::sink()).await;
    (bytes, read.is_ok() && more.is_ok_and(|more| more == 0))
}

/// Reads to the end and keeps what came last: programs say at the end why they failed.
async fn read_tail(stream: Option<impl AsyncRead + Unpin>, limit: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    let Some(mut stream) = stream else { return bytes };
    while let Ok(1..) = stream.read_buf(&mut bytes).await {
        // Twice the limit, so that bytes are moved seldom.
        if bytes.len() > 2 * limit {
            bytes.drain(..bytes.len() - limit);
        }
    }
    bytes
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
    let mut blueprint = invocation.agent_blueprint.clone();
    if let (Some(system), Some(blueprint)) = (&request.system, blueprint.as_object_mut()) {
        blueprint.insert("system_prompt".to_owned(), json!(system));
    }
    let mut parameters = if invocation.resumed { json!({}) } else { invocation.parameters.clone() };
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

impl Backend for Program {
    fn call<'a>(&'a self, call: Call<'a>) -> CallFuture<'a> {
        let nobody = Invocation::default();
        let document = document(call.request, call.invocation.unwrap_or(&nobody));
        Box::pin(async move { self.answer(&document).await })
    }
}
