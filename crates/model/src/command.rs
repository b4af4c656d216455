//! Any program as a backend: one JSON document on stdin, the answer on stdout.

use std::path::Path;

use serde_json::{Value, json};
use slipform_process::{Limits, Program, common_environment, output_tail};
use slipform_types::{Reply, Request, Role, StopReason, Usage};
use tokio::sync::Semaphore;

use crate::completions::conversation;
use crate::config::BackendConfig;
use crate::error::Error;
use crate::estimate;
use crate::secret::Secret;
use crate::{Backend, Call, CallFuture, Invocation};

/// The version of the invocation document.
const SCHEMA_VERSION: &str = "2.2";

/// The longest answer that is read from a program; more means that it runs wild.
const STDOUT_BYTES_MAX: usize = 16 * 1024 * 1024;

/// How much of the end of what a program says on stderr is kept; an error shows less of it.
const STDERR_BYTES_MAX: usize = 8 * 1024;

/// A program that answers.
#[derive(Debug)]
pub(crate) struct Answering {
    program: Program,
    /// The values of the variables that the settings list: mostly keys, so that they are not shown.
    listed: Vec<Secret>,
    secret: Secret,
    model: String,
    limits: Limits,
    slots: Semaphore,
}

impl Answering {
    pub(crate) fn new(
        config: &BackendConfig,
        secret: Secret,
        environment: &dyn Fn(&str) -> Option<String>,
        folder: &Path,
    ) -> Answering {
        let names = config.env.iter().chain(&config.api_key_env);
        let listed: Vec<(String, String)> =
            names.filter_map(|name| Some((name.clone(), environment(name)?))).collect();
        let secrets = listed.iter().map(|(_, value)| Secret::new(Some(value.clone()))).collect();
        let mut variables = common_environment(environment);
        variables.extend(listed);
        Answering {
            program: Program {
                argv: config.command.clone(),
                folder: folder.to_owned(),
                environment: variables,
            },
            listed: secrets,
            secret,
            model: config.model.clone().unwrap_or_default(),
            limits: Limits {
                timeout: Some(config.total()),
                stdout_bytes_max: STDOUT_BYTES_MAX,
                stderr_bytes_max: STDERR_BYTES_MAX,
            },
            slots: Semaphore::new(config.max_concurrency),
        }
    }

    async fn answer(&self, document: String) -> Result<Reply, Error> {
        let _slot = self.slots.acquire().await.map_err(|_| self.failed("was closed"))?;
        let said =
            self.program.run(document.as_bytes(), &self.limits).await.map_err(|error| self.unheard(error))?;
        if !said.status.success() {
            let words = self.redacted(output_tail(&said.stderr));
            let words = if words.is_empty() { words } else { format!(": {words}") };
            return Err(self.failed(&format!("failed ({}){words}", said.status)));
        }
        // Replacing what is not text could make a valid answer of it.
        let Ok(text) = str::from_utf8(&said.stdout) else {
            return Err(self.failed("answered with bytes that are not UTF-8 text"));
        };
        let text = text.trim().to_owned();
        let usage =
            Usage { input: estimate::tokens(&document), output: estimate::tokens(&text), estimated: true };
        let model = self.model.clone();
        let reply = Reply { text, stop: StopReason::Finished, usage, model, ..Reply::default() };
        let reply = self.listed.iter().fold(reply, |reply, secret| secret.redact_reply(reply));
        Ok(self.secret.redact_reply(reply))
    }

    /// What the program said without the values of the variables that were listed for it.
    fn redacted(&self, text: String) -> String {
        self.listed.iter().fold(text, |text, secret| secret.redact(text))
    }

    /// Why nothing was heard of it, in a backend's words.
    fn unheard(&self, error: slipform_process::Error) -> Error {
        use slipform_process::Error as Process;
        match error {
            Process::Empty => Error::Settings("a command backend needs a command".into()),
            Process::Start { reason, .. } => self.failed(&format!("cannot be started: {reason}")),
            Process::Timeout { limit, .. } => {
                Error::Timeout { what: "the program", setting: "timeout_seconds", limit }
            }
            Process::TooLarge { limit, .. } => Error::TooLarge { limit },
            Process::Wait(error) => self.failed(&format!("cannot be waited for: {error}")),
        }
    }

    fn failed(&self, reason: &str) -> Error {
        let program = self.program.argv.first().cloned().unwrap_or_default();
        Error::Program { program, reason: reason.to_owned() }
    }
}

/// The document a program gets. A first call carries the caller's parameters; a correction resumes the
/// session with the new message as its prompt.
fn document(request: &Request, invocation: &Invocation) -> Value {
    // Whoever takes a conversation over has heard nothing of it.
    let is_new =
        !invocation.resumed && request.messages.iter().any(|message| message.role == Role::Assistant);
    let said = match request.messages.last() {
        Some(_) if is_new => conversation(&request.messages),
        Some(last) => last.content.clone(),
        None => String::new(),
    };
    let mut blueprint = or_empty(&invocation.agent_blueprint);
    if let (Some(system), Some(blueprint)) = (&request.system, blueprint.as_object_mut()) {
        blueprint.insert("system_prompt".to_owned(), json!(system));
    }
    let mut parameters = if invocation.resumed { json!({}) } else { or_empty(&invocation.parameters) };
    if let Some(parameters) = parameters.as_object_mut() {
        parameters.insert("prompt".to_owned(), json!(said));
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

impl Backend for Answering {
    fn features(&self) -> &'static [&'static str] {
        &[]
    }

    fn call<'a>(&'a self, call: Call<'a>) -> CallFuture<'a> {
        let nobody = Invocation::default();
        let document = document(call.request, call.invocation.unwrap_or(&nobody));
        Box::pin(self.answer(document.to_string()))
    }
}
