//! Backend that runs a program: one JSON document on stdin, the answer on stdout.

use std::path::Path;

use serde_json::{Value, json};
use slipform_process::{Limits, Program, common_environment, output_tail};
use slipform_types::{Reply, Request, Role, StopReason, Usage};

use crate::completions::conversation;
use crate::config::BackendConfig;
use crate::error::Error;
use crate::estimate;
use crate::secret::Secret;
use crate::slots::CallSlots;
use crate::{Backend, Call, CallFuture, Invocation, Patience, refused_images};

/// The version of the invocation document, sent as its `schema_version`.
const SCHEMA_VERSION: &str = "2.2";

/// The largest answer that is read. A program that writes more is killed.
const STDOUT_BYTES_MAX: usize = 16 * 1024 * 1024;

/// The most bytes of stderr that are kept. An error message shows fewer.
const STDERR_BYTES_MAX: usize = 8 * 1024;

/// A program that answers requests.
#[derive(Debug)]
pub(crate) struct CommandBackend {
    program: Program,
    /// The values of the variables listed in the settings. They are usually keys and are redacted in all output.
    variables: Vec<Secret>,
    secret: Secret,
    model: String,
    limits: Limits,
    slots: CallSlots,
}

impl CommandBackend {
    pub(crate) fn new(
        config: &BackendConfig,
        secret: Secret,
        environment: &dyn Fn(&str) -> Option<String>,
        folder: &Path,
    ) -> CommandBackend {
        let names = config.env.iter().chain(&config.api_key_env);
        let listed: Vec<(String, String)> =
            names.filter_map(|name| Some((name.clone(), environment(name)?))).collect();
        let secrets = listed.iter().map(|(_, value)| Secret::new(Some(value.clone()))).collect();
        let mut environment = common_environment(environment);
        environment.extend(listed);
        CommandBackend {
            program: Program {
                argv: config.command.clone(),
                folder: folder.to_owned(),
                environment,
                // Settings name the programs of backends. They keep sessions and keys in files of their own.
                access: None,
            },
            variables: secrets,
            secret,
            model: config.model.clone().unwrap_or_default(),
            limits: Limits {
                timeout: Some(config.total()),
                stdout_bytes_max: STDOUT_BYTES_MAX,
                stderr_bytes_max: STDERR_BYTES_MAX,
            },
            slots: CallSlots::new(config.max_concurrency),
        }
    }

    async fn answer(&self, document: String, patience: Patience) -> Result<Reply, Error> {
        let _slot = self.slots.acquire(patience).await?;
        let output = self.program.run(document.as_bytes(), &self.limits).await;
        let output = output.map_err(|error| self.process_error(error))?;
        if !output.status.success() {
            let stderr = self.redacted(output_tail(&output.stderr));
            let stderr = if stderr.is_empty() { stderr } else { format!(": {stderr}") };
            return Err(self.failed(&format!("failed ({}){stderr}", output.status)));
        }
        // A lossy conversion could turn invalid output into a valid answer.
        let Ok(text) = str::from_utf8(&output.stdout) else {
            return Err(self.failed("answered with bytes that are not UTF-8 text"));
        };
        let text = text.trim().to_owned();
        let usage =
            Usage { input: estimate::tokens(&document), output: estimate::tokens(&text), estimated: true };
        let model = self.model.clone();
        let reply = Reply { text, stop: StopReason::Finished, usage, model, ..Reply::default() };
        let reply = self.variables.iter().fold(reply, |reply, secret| secret.redact_reply(reply));
        Ok(self.secret.redact_reply(reply))
    }

    /// Removes the values of the listed variables from a text.
    fn redacted(&self, text: String) -> String {
        self.variables.iter().fold(text, |text, secret| secret.redact(text))
    }

    /// Converts an error of the process into an error of the backend.
    fn process_error(&self, error: slipform_process::Error) -> Error {
        use slipform_process::Error as Process;
        match error {
            Process::Empty => Error::Settings("a backend of kind \"command\" needs a `command`".into()),
            Process::Start { reason, .. } => self.failed(&format!("cannot be started: {reason}")),
            Process::Timeout { limit, .. } => {
                Error::Timeout { what: "the program", setting: "timeout_seconds", limit }
            }
            Process::TooLarge { limit, .. } => Error::TooLarge { limit },
            Process::Wait(error) => self.failed(&format!("ended with an unknown status: {error}")),
        }
    }

    fn failed(&self, reason: &str) -> Error {
        let program = self.program.argv.first().cloned().unwrap_or_default();
        Error::Program { program, reason: reason.to_owned() }
    }
}

/// Builds the document that the program reads from stdin.
///
/// The first call carries the caller's parameters. A correction resumes the session with the new message as
/// its prompt.
fn document(request: &Request, invocation: &Invocation) -> Value {
    let messages = &request.messages;
    let prompt = if invocation.resumed {
        messages.last().map(|last| last.content.clone()).unwrap_or_default()
    } else if messages.iter().any(|message| message.role == Role::Assistant) {
        // A program called for the first time in an ongoing conversation needs all of its messages.
        conversation(messages)
    } else {
        messages.iter().map(|message| message.content.as_str()).collect::<Vec<_>>().join("\n\n")
    };
    let mut blueprint = or_empty(&invocation.agent_blueprint);
    if let (Some(system), Some(blueprint)) = (&request.system, blueprint.as_object_mut()) {
        blueprint.insert("system_prompt".to_owned(), json!(system));
    }
    let mut parameters = if invocation.resumed { json!({}) } else { or_empty(&invocation.parameters) };
    if let Some(parameters) = parameters.as_object_mut() {
        parameters.insert("prompt".to_owned(), json!(prompt));
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

/// Replaces null by an empty object: a call outside any run has neither parameters nor blueprint.
fn or_empty(value: &Value) -> Value {
    if value.is_null() { json!({}) } else { value.clone() }
}

impl Backend for CommandBackend {
    fn features(&self) -> &'static [&'static str] {
        &[]
    }

    fn sampling(&self) -> &'static [&'static str] {
        &[]
    }

    fn call<'a>(&'a self, call: Call<'a>) -> CallFuture<'a> {
        if let Some(error) = refused_images(call.request, "kind `command`") {
            return Box::pin(std::future::ready(Err(error)));
        }
        let no_run = Invocation::default();
        let request = call.request.with_names_in_text();
        let document = document(&request, call.invocation.unwrap_or(&no_run));
        Box::pin(self.answer(document.to_string(), call.patience))
    }
}
