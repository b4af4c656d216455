//! Calls tools and runs the programs of procedural agents.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use slipform_engine::{Execution, ToolRun};
use slipform_process::{Limits, Output, Program, anchor_command, output_tail};
use slipform_tools::{Project, Toolbox};
use slipform_types::{BUILTIN_TOOL_PREFIXES, EventBody, WRITING_TOOLS};
use tokio::task::{Id, JoinSet};
use tracing::{Instrument as _, Span};

use crate::attempt::Interruption;
use crate::confinement;
use crate::drive::Drive;
use crate::error::Error;
use crate::resources::Resources;
use crate::spans;

/// Maximum number of concurrent tool calls. More would compete for the same disk and processors.
const CONCURRENT_CALLS_MAX: usize = 8;

/// Time limit in seconds for the program of a procedural agent that has no limit of its own.
const PROGRAM_SECONDS_MAX: u64 = 600;

/// Maximum size of a program's standard output, which the journal stores whole. More fails the run.
const STDOUT_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Number of bytes kept from the end of a program's standard error.
const STDERR_BYTES_MAX: usize = 16 * 1024;

impl Drive<'_> {
    /// Calls tools concurrently and appends each result as it arrives.
    pub(crate) async fn call_tools(&mut self, calls: Vec<ToolRun>) -> Result<(), Error> {
        let before = calls.iter().map(|call| EventBody::PreTool {
            call_id: call.call_id.clone(),
            tool_name: call.name.clone(),
            tool_input: call.arguments.clone(),
        });
        self.append(before.collect()).await?;
        let toolbox = match self.context.toolbox().await {
            Ok(toolbox) => toolbox.clone(),
            Err(error) => {
                return self.append(vec![EventBody::ToolsFailed { error: error.to_string() }]).await;
            }
        };
        for batch in batches(calls) {
            if !self.call_batch(&toolbox, batch).await? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Calls a batch of tools concurrently and appends each result as it arrives. Returns false if the run
    /// was interrupted.
    async fn call_batch(&mut self, toolbox: &Toolbox, calls: Vec<ToolRun>) -> Result<bool, Error> {
        let mut pending = calls.into_iter();
        let mut running = JoinSet::new();
        // Maps tasks to calls, so that a task that panics is answered too.
        let mut tasks: HashMap<Id, ToolRun> = HashMap::new();
        loop {
            while running.len() < CONCURRENT_CALLS_MAX
                && let Some(call) = pending.next()
            {
                // Create the span here, where its parent span is current.
                let span = spans::tool(&call.name, &call.call_id);
                let task = running.spawn(call_tool(toolbox.clone(), call.clone(), span));
                tasks.insert(task.id(), call);
            }
            let joined = match self.unless_interrupted(running.join_next_with_id()).await {
                Ok(joined) => joined,
                // Abort the tasks first; blocking work stops when it next checks its cancellation.
                Err(interruption) => {
                    running.shutdown().await;
                    self.append_interruption(interruption).await?;
                    return Ok(false);
                }
            };
            let (id, answer) = match joined {
                None => return Ok(true),
                Some(Ok((id, answer))) => (id, answer.map_err(|error| error.to_string())),
                Some(Err(error)) => (error.id(), Err(format!("the tool broke: {error}"))),
            };
            let Some(ToolRun { call_id, name: tool_name, .. }) = tasks.remove(&id) else { continue };
            let (tool_output, error) = match answer {
                Ok(output) => (output, None),
                Err(error) => (Value::Null, Some(error)),
            };
            self.append(vec![EventBody::PostTool { call_id, tool_name, tool_output, error }]).await?;
        }
    }

    /// Checks which paths exist in the project.
    pub(crate) async fn verify_paths(&mut self, paths: Vec<String>) -> Result<(), Error> {
        let (folder, policy) =
            (PathBuf::from(&self.context.resources.project_dir), self.context.resources.policy.clone());
        let check = tokio::task::spawn_blocking(move || {
            let project = Project::open_with(&folder, &policy).map_err(|error| error.to_string())?;
            let (present, missing) = paths.into_iter().partition(|path| project.contains(path));
            Ok(EventBody::PathsChecked { present, missing })
        });
        let checked = match self.unless_interrupted(check).await {
            Ok(checked) => checked.unwrap_or_else(|error| Err(error.to_string())),
            Err(interruption) => return self.append_interruption(interruption).await,
        };
        self.append(vec![checked.unwrap_or_else(|error| EventBody::ToolsFailed { error })]).await
    }

    /// Runs the program of a procedural agent and appends its result.
    pub(crate) async fn execute(&mut self, execution: &Execution) -> Result<(), Error> {
        let name = execution.argv.first().cloned().unwrap_or_default();
        self.append(vec![EventBody::PreTool {
            call_id: execution.call_id.clone(),
            tool_name: name.clone(),
            tool_input: json!({"argv": execution.argv, "stdin": execution.stdin}),
        }])
        .await?;
        let timeout = self.time_left().unwrap_or(Duration::from_secs(PROGRAM_SECONDS_MAX));
        let limits = Limits {
            timeout: Some(timeout),
            stdout_bytes_max: STDOUT_BYTES_MAX,
            stderr_bytes_max: STDERR_BYTES_MAX,
        };
        let program = self.program(execution);
        let span = spans::tool(&name, &execution.call_id);
        let running = program.run(execution.stdin.as_bytes(), &limits).instrument(span.clone());
        let ended = tokio::select! {
            biased;
            () = self.attempt.stop.requested() => None,
            ended = running => Some(ended),
        };
        let Some(ended) = ended else { return self.append_interruption(Interruption::Stop).await };
        let (tool_output, mut error) = program_result(&name, ended);
        if let Some(message) = error.as_mut().filter(|_| program.access.is_some()) {
            confinement::explain(message);
        }
        if error.is_some() {
            spans::record_tool_failure(&span);
        }
        self.append(vec![EventBody::PostTool {
            call_id: execution.call_id.clone(),
            tool_name: name,
            tool_output,
            error,
        }])
        .await
    }

    /// Returns the program to start, with the values of variables that the journal does not contain.
    fn program(&self, execution: &Execution) -> Program {
        let Resources { blueprint, command, environment, project_dir, policy, .. } = &self.context.resources;
        let arguments = execution.argv.get(blueprint.command.len()..).unwrap_or_default();
        let command = anchor_command(command, policy.root.as_deref(), Path::new(project_dir));
        let mut argv: Vec<String> = command.iter().chain(arguments).cloned().collect();
        if let Some(first) = argv.first_mut()
            && let Some(path) = on_path(first)
        {
            // Resolve the program with the runner's PATH, because the program's environment may have none.
            *first = path;
        }
        confinement::warn_if_missing(policy);
        let access = policy.program_access(Path::new(project_dir), &argv);
        Program { argv, folder: project_dir.into(), environment: environment.list().to_vec(), access }
    }
}

/// Groups calls, in the order that the model wrote them, into batches that may run at the same time: a built-in tool that
/// writes runs alone, tools that read run together, and so do tools of MCP servers, which may do either.
fn batches(calls: Vec<ToolRun>) -> Vec<Vec<ToolRun>> {
    #[derive(PartialEq)]
    enum Effect {
        Writes,
        Reads,
        Unknown,
    }
    let effect = |call: &ToolRun| {
        let prefix = call.name.split(':').next().unwrap_or_default();
        if WRITING_TOOLS.contains(&call.name.as_str()) {
            Effect::Writes
        } else if BUILTIN_TOOL_PREFIXES.contains(&prefix) {
            Effect::Reads
        } else {
            Effect::Unknown
        }
    };
    let mut batches: Vec<Vec<ToolRun>> = Vec::new();
    for call in calls {
        let joins = |batch: &Vec<ToolRun>| {
            let last = batch.last().map(effect);
            last != Some(Effect::Writes) && last == Some(effect(&call))
        };
        if batches.last().is_some_and(joins) {
            batches.last_mut().into_iter().for_each(|batch| batch.push(call.clone()));
        } else {
            batches.push(vec![call]);
        }
    }
    batches
}

/// Calls a tool in its span.
async fn call_tool(toolbox: Toolbox, call: ToolRun, span: Span) -> Result<Value, slipform_tools::Error> {
    let answer = toolbox.call(&call.name, &call.arguments).instrument(span.clone()).await;
    if answer.is_err() {
        spans::record_tool_failure(&span);
    }
    answer
}

/// Returns a program's output for the journal, and an error if it is not a result.
fn program_result(name: &str, ended: Result<Output, slipform_process::Error>) -> (Value, Option<String>) {
    let suffix = |stderr: &str| if stderr.is_empty() { String::new() } else { format!(": {stderr}") };
    let ended = match ended {
        Ok(ended) => ended,
        Err(error) => {
            let (stderr, timed_out) = match &error {
                slipform_process::Error::Timeout { stderr, .. } => (output_tail(stderr), true),
                slipform_process::Error::TooLarge { stderr, .. } => (output_tail(stderr), false),
                _ => (String::new(), false),
            };
            let message = match &error {
                slipform_process::Error::Start { .. } => format!("the program {error}"),
                _ => format!("the program '{name}' {error}{}", suffix(&stderr)),
            };
            return (json!({"timed_out": timed_out, "stderr": stderr}), Some(message));
        }
    };
    let stderr = output_tail(&ended.stderr);
    let stdout = String::from_utf8(ended.stdout);
    let error = match (&stdout, ended.status.success()) {
        (_, false) => Some(format!("the program '{name}' failed ({}){}", ended.status, suffix(&stderr))),
        (Err(_), true) => Some(format!("the program '{name}' wrote bytes that are not UTF-8 text")),
        (Ok(_), true) => None,
    };
    let stdout = stdout.unwrap_or_default();
    (json!({"exit_code": ended.status.code(), "stdout": stdout, "stderr": stderr}), error)
}

/// Searches this process's PATH for a program given by its bare name.
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
    file.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}
