//! Calling tools and running programs for a run.

use std::path::{Path, PathBuf};
use std::time::Duration;

use formwork_engine::{Execution, ToolRun};
use formwork_model::Secret;
use formwork_process::{Limits, Program, last_words};
use formwork_tools::{Project, Toolbox};
use formwork_types::Body;
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::drive::{Drive, Stop};
use crate::error::Error;

/// Tools that are called at the same time. More would only wait for the same disk and processors.
const AT_ONCE_MAX: usize = 8;

/// How long the program of a procedural agent may run that has no limit of its own.
const PROGRAM_SECONDS_MAX: u64 = 600;

/// The longest result of a program. It goes into the journal as a whole; a longer one is a mistake.
const STDOUT_BYTES_MAX: usize = 4 * 1024 * 1024;

/// How much of the end of a program's complaints is kept.
const STDERR_BYTES_MAX: usize = 16 * 1024;

/// Tools whose effects depend on their order: they are called one after the other.
const ORDERED: [&str; 2] = ["fs:write", "fs:edit"];

/// Words in the names of variables whose values are secrets.
const SECRET_WORDS: [&str; 6] = ["KEY", "TOKEN", "SECRET", "PASS", "CREDENTIAL", "AUTH"];

/// Shorter values are stand-ins, and would be found by chance.
const SECRET_BYTES_MIN: usize = 12;

impl Drive<'_> {
    /// Calls tools, as many as possible at once, and appends each answer as it comes.
    pub(crate) async fn call_tools(&mut self, calls: Vec<ToolRun>, stop: &Stop) -> Result<(), Error> {
        let before = calls.iter().map(|call| Body::PreTool {
            call_id: call.call_id.clone(),
            tool_name: call.name.clone(),
            tool_input: call.arguments.clone(),
        });
        let before = before.map(|body| self.without_secrets(body)).collect();
        self.append(before).await?;
        let toolbox = match self.claim.toolbox().await {
            Ok(toolbox) => toolbox.clone(),
            Err(error) => return self.append(vec![Body::ToolsFailed { error: error.to_string() }]).await,
        };
        let (ordered, free): (Vec<_>, Vec<_>) =
            calls.into_iter().partition(|call| ORDERED.contains(&call.name.as_str()));
        let mut waiting: Vec<Vec<ToolRun>> = free.into_iter().map(|call| vec![call]).collect();
        // Answers come in the order of the calls where they come at the same time.
        waiting.reverse();
        if !ordered.is_empty() {
            waiting.push(ordered);
        }
        let mut working = JoinSet::new();
        loop {
            while working.len() < AT_ONCE_MAX
                && let Some(mut queue) = waiting.pop()
            {
                if queue.is_empty() {
                    continue;
                }
                let call = queue.remove(0);
                let toolbox = toolbox.clone();
                working.spawn(async move { (answer(&toolbox, &call).await, queue) });
            }
            let joined = match self.unless_cut(stop, working.join_next()).await {
                Ok(joined) => joined,
                // The run has ended only when nothing of it is under way any more.
                Err(cut) => {
                    working.shutdown().await;
                    return self.append_cut(cut).await;
                }
            };
            let Some(joined) = joined else { return Ok(()) };
            let (body, queue) = joined.map_err(|error| Error::Tool(error.to_string()))?;
            let body = self.without_secrets(body);
            self.append(vec![body]).await?;
            waiting.push(queue);
        }
    }

    /// Looks whether paths are in the project.
    pub(crate) async fn look(&mut self, paths: Vec<String>) -> Result<(), Error> {
        let (present, missing) = match Project::open(Path::new(&self.claim.project_dir)) {
            Ok(project) => paths.into_iter().partition(|path| project.contains(path)),
            Err(error) => return self.append(vec![Body::ToolsFailed { error: error.to_string() }]).await,
        };
        self.append(vec![Body::PathsChecked { present, missing }]).await
    }

    /// Runs the program of a procedural agent and appends how it ended.
    pub(crate) async fn execute(&mut self, execution: &Execution, stop: &Stop) -> Result<(), Error> {
        let name = execution.argv.first().cloned().unwrap_or_default();
        let before = Body::PreTool {
            call_id: execution.call_id.clone(),
            tool_name: name.clone(),
            tool_input: json!({"argv": execution.argv, "stdin": execution.stdin}),
        };
        self.append(vec![self.without_secrets(before)]).await?;
        let folder = PathBuf::from(&self.claim.project_dir);
        let mut argv = execution.argv.clone();
        if let (Some(first), Some(path)) = (argv.first_mut(), on_path(&name)) {
            // The program sees no PATH unless it is named; whoever wrote the command did.
            *first = path;
        }
        let program = Program { argv, folder, environment: self.claim.environment.clone() };
        let limits = Limits {
            timeout: Some(Duration::from_secs(PROGRAM_SECONDS_MAX)),
            stdout_bytes_max: STDOUT_BYTES_MAX,
            stderr_bytes_max: STDERR_BYTES_MAX,
        };
        let run = program.run(execution.stdin.as_bytes(), &limits);
        let ended = match self.unless_cut(stop, run).await {
            Ok(ended) => ended,
            Err(cut) => return self.append_cut(cut).await,
        };
        let (tool_output, error) = match ended {
            Ok(ended) => {
                let words = last_words(&ended.stderr);
                let stdout = String::from_utf8(ended.stdout);
                let output = json!({
                    "exit_code": ended.status.code(), "stderr": words,
                    "stdout": stdout.as_ref().map(String::as_str).unwrap_or_default(),
                });
                let said = if words.is_empty() { String::new() } else { format!(": {words}") };
                let error = match (&stdout, ended.status.success()) {
                    (_, false) => Some(format!("the program '{name}' failed ({}){said}", ended.status)),
                    (Err(_), true) => {
                        Some(format!("the program '{name}' wrote bytes that are not UTF-8 text"))
                    }
                    (Ok(_), true) => None,
                };
                (output, error)
            }
            Err(error) => {
                let words = match &error {
                    formwork_process::Error::Timeout { stderr, .. }
                    | formwork_process::Error::TooLarge { stderr, .. } => last_words(stderr),
                    _ => String::new(),
                };
                let said = if words.is_empty() { String::new() } else { format!(": {words}") };
                let message = match &error {
                    formwork_process::Error::Start { .. } => format!("the program {error}"),
                    _ => format!("the program '{name}' {error}{said}"),
                };
                (Value::Null, Some(message))
            }
        };
        let call_id = execution.call_id.clone();
        let body = self.without_secrets(Body::PostTool { call_id, tool_name: name, tool_output, error });
        self.append(vec![body]).await
    }

    /// What a tool was given and what it said, without the values of secret variables.
    fn without_secrets(&self, mut body: Body) -> Body {
        let is_secret = |name: &str, value: &str| {
            let name = name.to_ascii_uppercase();
            value.len() >= SECRET_BYTES_MIN && SECRET_WORDS.iter().any(|word| name.contains(word))
        };
        for (_, value) in self.claim.environment.iter().filter(|(name, value)| is_secret(name, value)) {
            let secret = Secret::new(Some(value.clone()));
            match &mut body {
                Body::PreTool { tool_input, .. } => redact(tool_input, &secret),
                Body::PostTool { tool_output, error, .. } => {
                    redact(tool_output, &secret);
                    *error = error.take().map(|error| secret.redact(error));
                }
                _ => {}
            }
        }
        body
    }
}

fn redact(value: &mut Value, secret: &Secret) {
    match value {
        Value::String(text) => *text = secret.redact(std::mem::take(text)),
        Value::Array(items) => items.iter_mut().for_each(|item| redact(item, secret)),
        Value::Object(members) => members.values_mut().for_each(|member| redact(member, secret)),
        _ => {}
    }
}

async fn answer(toolbox: &Toolbox, call: &ToolRun) -> Body {
    let (tool_output, error) = match toolbox.call(&call.name, &call.arguments).await {
        Ok(output) => (output, None),
        Err(error) => (Value::Null, Some(error.to_string())),
    };
    Body::PostTool { call_id: call.call_id.clone(), tool_name: call.name.clone(), tool_output, error }
}

/// Where a program given by its bare name is on this process's PATH.
fn on_path(name: &str) -> Option<String> {
    if name.is_empty() || name.contains('/') {
        return None;
    }
    let path = std::env::var_os("PATH")?;
    let found = std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| is_program(file))?;
    found.into_os_string().into_string().ok()
}

fn is_program(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    file.metadata().is_ok_and(|about| about.is_file() && about.permissions().mode() & 0o111 != 0)
}
