//! Calling tools and running programs for a run.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use slipform_engine::{Execution, ToolRun};
use slipform_process::{Ended, Limits, Program, anchor_command, last_words};
use slipform_tools::{Project, Toolbox};
use slipform_types::{EventBody, OWN_TOOLS, WRITING_TOOLS};
use tokio::task::{Id, JoinSet};
use tracing::{Instrument as _, Span};

use crate::drive::{Drive, Interruption, StopSignal};
use crate::error::Error;
use crate::run_context::RunContext;
use crate::spans;

/// Tools that are called at the same time. More would only wait for the same disk and processors.
const AT_ONCE_MAX: usize = 8;

/// How long the program of a procedural agent may run that has no limit of its own.
const PROGRAM_SECONDS_MAX: u64 = 600;

/// The longest result of a program. It goes into the journal as a whole; a longer one is a mistake.
const STDOUT_BYTES_MAX: usize = 4 * 1024 * 1024;

/// How much of the end of a program's complaints is kept.
const STDERR_BYTES_MAX: usize = 16 * 1024;

impl Drive<'_> {
    /// Calls tools, as many as possible at once, and appends each answer as it comes.
    pub(crate) async fn call_tools(&mut self, calls: Vec<ToolRun>, stop: &StopSignal) -> Result<(), Error> {
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
            if !self.call_batch(&toolbox, batch, stop).await? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Calls tools at the same time and appends each answer as it comes; false where the run was cut off before all had
    /// answered.
    async fn call_batch(
        &mut self,
        toolbox: &Toolbox,
        calls: Vec<ToolRun>,
        stop: &StopSignal,
    ) -> Result<bool, Error> {
        let mut waiting = calls.into_iter();
        let mut working = JoinSet::new();
        // The call of each task, so that even a task that panics is answered for.
        let mut tasks: HashMap<Id, ToolRun> = HashMap::new();
        loop {
            while working.len() < AT_ONCE_MAX
                && let Some(call) = waiting.next()
            {
                // The span is made here, where its parent is known.
                let span = spans::tool(&call.name, &call.call_id);
                let task = working.spawn(call_tool(toolbox.clone(), call.clone(), span));
                tasks.insert(task.id(), call);
            }
            let joined = match self.unless_interrupted(stop, working.join_next_with_id()).await {
                Ok(joined) => joined,
                // Tasks are ended first; blocking work stops when it next looks at its cancel flag.
                Err(cut) => {
                    working.shutdown().await;
                    self.append_interruption(cut).await?;
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

    /// Looks whether paths are in the project.
    pub(crate) async fn look(&mut self, paths: Vec<String>, stop: &StopSignal) -> Result<(), Error> {
        let (folder, policy) = (PathBuf::from(&self.context.project_dir), self.context.policy.clone());
        let look = tokio::task::spawn_blocking(move || {
            let project = Project::open_with(&folder, &policy).map_err(|error| error.to_string())?;
            let (present, missing) = paths.into_iter().partition(|path| project.contains(path));
            Ok(EventBody::PathsChecked { present, missing })
        });
        let looked = match self.unless_interrupted(stop, look).await {
            Ok(looked) => looked.unwrap_or_else(|error| Err(error.to_string())),
            Err(cut) => return self.append_interruption(cut).await,
        };
        self.append(vec![looked.unwrap_or_else(|error| EventBody::ToolsFailed { error })]).await
    }

    /// Runs the program of a procedural agent and appends how it ended.
    pub(crate) async fn execute(&mut self, execution: &Execution, stop: &StopSignal) -> Result<(), Error> {
        let name = execution.argv.first().cloned().unwrap_or_default();
        self.append(vec![EventBody::PreTool {
            call_id: execution.call_id.clone(),
            tool_name: name.clone(),
            tool_input: json!({"argv": execution.argv, "stdin": execution.stdin}),
        }])
        .await?;
        let most = self.time_left().unwrap_or(Duration::from_secs(PROGRAM_SECONDS_MAX));
        let limits = Limits {
            timeout: Some(most),
            stdout_bytes_max: STDOUT_BYTES_MAX,
            stderr_bytes_max: STDERR_BYTES_MAX,
        };
        let program = self.program(execution);
        let span = spans::tool(&name, &execution.call_id);
        let running = program.run(execution.stdin.as_bytes(), &limits).instrument(span.clone());
        let ended = tokio::select! {
            biased;
            () = stop.requested() => None,
            ended = running => Some(ended),
        };
        let Some(ended) = ended else { return self.append_interruption(Interruption::Stop).await };
        let (tool_output, error) = said(&name, ended);
        if error.is_some() {
            spans::tool_failed(&span);
        }
        self.append(vec![EventBody::PostTool {
            call_id: execution.call_id.clone(),
            tool_name: name,
            tool_output,
            error,
        }])
        .await
    }

    /// The program as it is run: with the values that the journal does not hold.
    fn program(&self, execution: &Execution) -> Program {
        let RunContext { blueprint, command, environment, project_dir, policy, .. } = self.context;
        let given = execution.argv.get(blueprint.command.len()..).unwrap_or_default();
        let command = anchor_command(command, policy.root.as_deref(), Path::new(project_dir));
        let mut argv: Vec<String> = command.iter().chain(given).cloned().collect();
        if let Some(first) = argv.first_mut()
            && let Some(path) = on_path(first)
        {
            // The program sees no PATH unless it is named; whoever wrote the command did.
            *first = path;
        }
        Program { argv, folder: project_dir.into(), environment: environment.list().to_vec() }
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
        } else if OWN_TOOLS.contains(&prefix) {
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

/// Calls a tool, in a span of its own.
async fn call_tool(toolbox: Toolbox, call: ToolRun, span: Span) -> Result<Value, slipform_tools::Error> {
    let answer = toolbox.call(&call.name, &call.arguments).instrument(span.clone()).await;
    if answer.is_err() {
        spans::tool_failed(&span);
    }
    answer
}

/// What a program has said, and why that is no result if it is none.
fn said(name: &str, ended: Result<Ended, slipform_process::Error>) -> (Value, Option<String>) {
    let with = |words: &str| if words.is_empty() { String::new() } else { format!(": {words}") };
    let ended = match ended {
        Ok(ended) => ended,
        Err(error) => {
            let (words, timed_out) = match &error {
                slipform_process::Error::Timeout { stderr, .. } => (last_words(stderr), true),
                slipform_process::Error::TooLarge { stderr, .. } => (last_words(stderr), false),
                _ => (String::new(), false),
            };
            let message = match &error {
                slipform_process::Error::Start { .. } => format!("the program {error}"),
                _ => format!("the program '{name}' {error}{}", with(&words)),
            };
            return (json!({"timed_out": timed_out, "stderr": words}), Some(message));
        }
    };
    let words = last_words(&ended.stderr);
    let stdout = String::from_utf8(ended.stdout);
    let error = match (&stdout, ended.status.success()) {
        (_, false) => Some(format!("the program '{name}' failed ({}){}", ended.status, with(&words))),
        (Err(_), true) => Some(format!("the program '{name}' wrote bytes that are not UTF-8 text")),
        (Ok(_), true) => None,
    };
    let stdout = stdout.unwrap_or_default();
    (json!({"exit_code": ended.status.code(), "stdout": stdout, "stderr": words}), error)
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
