//! The tools that start, read and stop sessions, and `check`.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use rmcp::model::{CallToolResponse, CallToolResult, JsonObject, Tool};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use slipform_api::{CallerApi, CheckRequest, Code, Error, RunCreated, RunRequest, RunView, SessionsQuery};
use slipform_types::{ExecutionMode, OptionsPatch, RunStatus, SessionId};

use crate::calls::{self, Reply};
use crate::results;
use crate::server::McpServer;

/// The longest wait of `get_agent_session_result`, in seconds. Many clients give up on a call after a minute.
const WAIT_SECONDS_MAX: f64 = 50.0;

/// The tools as clients see them, sorted by name.
const DEFINITIONS: &str = include_str!("session_tools.json");

/// The names, sorted.
const NAMES: [&str; 8] = [
    "check",
    "get_agent_session_result",
    "get_agent_session_status",
    "list_agent_blueprints",
    "list_agent_sessions",
    "resume_agent_session",
    "start_agent_session",
    "stop_agent_session",
];

/// Returns whether a tool of this module has this name.
pub(super) fn is_name(name: &str) -> bool {
    NAMES.contains(&name)
}

/// Returns the tools, sorted by name.
pub(super) fn tools() -> Vec<Tool> {
    static TOOLS: LazyLock<Vec<Tool>> =
        LazyLock::new(|| serde_json::from_str(DEFINITIONS).unwrap_or_default());
    TOOLS.clone()
}

/// How a caller waits for a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Mode {
    #[default]
    Sync,
    AsyncPoll,
    AsyncCallback,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StartArguments {
    agent_name: String,
    prompt: Option<String>,
    parameters: Option<Value>,
    output_schema: Option<Value>,
    output_schema_name: Option<String>,
    output_schema_options: Option<OptionsPatch>,
    #[serde(default)]
    mode: Mode,
    parent_session_id: Option<SessionId>,
    project_dir: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ResumeArguments {
    session_id: SessionId,
    prompt: Option<String>,
    parameters: Option<Value>,
    output_schema: Option<Value>,
    output_schema_name: Option<String>,
    output_schema_options: Option<OptionsPatch>,
    #[serde(default)]
    mode: Mode,
    parent_session_id: Option<SessionId>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SessionArguments {
    session_id: SessionId,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ResultArguments {
    session_id: SessionId,
    #[serde(default)]
    wait: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListArguments {
    limit: Option<i64>,
    after: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NoArguments {}

/// The reason why a call has no result.
enum Failure {
    /// The arguments do not fit.
    Arguments(String),
    /// The coordinator refuses.
    Refused(Error),
    /// The protocol has an error for it.
    Protocol(ErrorData),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Refused(error)
    }
}

impl From<ErrorData> for Failure {
    fn from(error: ErrorData) -> Failure {
        Failure::Protocol(error)
    }
}

type Answered = Result<CallToolResult, Failure>;

/// Performs a call.
pub(super) async fn call(
    server: &McpServer,
    name: &str,
    arguments: JsonObject,
    context: RequestContext<RoleServer>,
) -> Result<CallToolResponse, ErrorData> {
    let api = server.api(&context);
    let sessions = Sessions { server, api: &api, context: &context };
    let arguments = Value::Object(arguments);
    let answered = match name {
        "check" => sessions.check(arguments).await,
        "get_agent_session_result" => sessions.result(arguments).await,
        "get_agent_session_status" => sessions.status(arguments).await,
        "list_agent_blueprints" => sessions.list_agents(arguments).await,
        "list_agent_sessions" => sessions.list(arguments).await,
        "resume_agent_session" => sessions.resume(arguments).await,
        "start_agent_session" => sessions.start(arguments).await,
        _ => sessions.stop(arguments).await,
    };
    match answered {
        Ok(result) => Ok(result.into()),
        Err(Failure::Arguments(message)) => Ok(results::bad_arguments(&message).into()),
        Err(Failure::Refused(error)) => results::refusal(&error).map(Into::into),
        Err(Failure::Protocol(error)) => Err(error),
    }
}

fn parse<T: DeserializeOwned>(arguments: Value) -> Result<T, Failure> {
    serde_json::from_value(arguments).map_err(|error| Failure::Arguments(error.to_string()))
}

/// Performs calls for one request.
struct Sessions<'a> {
    server: &'a McpServer,
    api: &'a Arc<dyn CallerApi>,
    context: &'a RequestContext<RoleServer>,
}

impl Sessions<'_> {
    async fn check(&self, arguments: Value) -> Answered {
        let view = self.api.check(parse::<CheckRequest>(arguments)?).await?;
        let view = serde_json::to_value(view).map_err(|error| Failure::Arguments(error.to_string()))?;
        Ok(results::of_value(view))
    }

    async fn start(&self, arguments: Value) -> Answered {
        let arguments: StartArguments = parse(arguments)?;
        self.check_shown(&arguments.agent_name)?;
        let request = RunRequest {
            prompt: arguments.prompt,
            parameters: arguments.parameters,
            output_schema: arguments.output_schema,
            output_schema_name: arguments.output_schema_name,
            output_schema_options: arguments.output_schema_options,
            project_dir: arguments.project_dir,
            ..RunRequest::start(arguments.agent_name)
        };
        self.submit(request, arguments.mode, arguments.parent_session_id).await
    }

    async fn resume(&self, arguments: Value) -> Answered {
        let arguments: ResumeArguments = parse(arguments)?;
        self.find(&arguments.session_id).await?;
        let request = RunRequest {
            prompt: arguments.prompt,
            parameters: arguments.parameters,
            output_schema: arguments.output_schema,
            output_schema_name: arguments.output_schema_name,
            output_schema_options: arguments.output_schema_options,
            ..RunRequest::resume(arguments.session_id)
        };
        self.submit(request, arguments.mode, arguments.parent_session_id).await
    }

    /// Submits a run and waits for its end unless the caller does not want to.
    async fn submit(&self, request: RunRequest, mode: Mode, parent: Option<SessionId>) -> Answered {
        if mode == Mode::AsyncCallback && parent.is_none() {
            let message =
                "mode async_callback needs parent_session_id, the session to resume when the run has ended";
            return Err(Failure::Arguments(message.to_owned()));
        }
        if let Some(parent) = &parent {
            self.find(parent).await?;
        }
        let execution_mode = match mode {
            Mode::Sync | Mode::AsyncPoll => ExecutionMode::AsyncPoll,
            Mode::AsyncCallback => ExecutionMode::AsyncCallback,
        };
        let request = RunRequest { execution_mode, parent_session_id: parent, ..request };
        if mode != Mode::Sync {
            let created = self.api.submit(request, None).await?;
            return Ok(of_run(&self.api.run(&created.run_id).await?));
        }
        let created: RunCreated = calls::submit(&**self.api, request, self.context).await?;
        match calls::wait(self.server, self.api, &created, self.context).await? {
            Reply::Ended(run) => Ok(of_run(&run)),
            Reply::Cancelled => Err(calls::cancelled().into()),
        }
    }

    async fn status(&self, arguments: Value) -> Answered {
        let session = self.find(&parse::<SessionArguments>(arguments)?.session_id).await?;
        let content = json!({
            "session_id": session.session_id,
            "run_id": session.last_run_id,
            "agent_name": session.agent_name,
            "status": session.status,
        });
        Ok(results::of_value(content))
    }

    async fn result(&self, arguments: Value) -> Answered {
        let arguments: ResultArguments = parse(arguments)?;
        if !(0.0..=WAIT_SECONDS_MAX).contains(&arguments.wait) {
            let message = format!("wait must be from 0 to {WAIT_SECONDS_MAX} seconds");
            return Err(Failure::Arguments(message));
        }
        let session = self.find(&arguments.session_id).await?;
        let limit = Duration::from_secs_f64(arguments.wait);
        tokio::select! {
            run = self.api.wait(&session.last_run_id, limit) => Ok(of_run(&run?)),
            () = self.context.ct.cancelled() => Err(calls::cancelled().into()),
            () = self.server.closing().cancelled() => Err(calls::cancelled().into()),
        }
    }

    async fn stop(&self, arguments: Value) -> Answered {
        let session = self.find(&parse::<SessionArguments>(arguments)?.session_id).await?;
        let run = self.api.stop_session(&session.session_id).await?;
        let content = json!({
            "session_id": run.session_id,
            "run_id": run.run_id,
            "agent_name": run.agent_name,
            "status": run.status,
        });
        Ok(results::of_value(content))
    }

    async fn list(&self, arguments: Value) -> Answered {
        let ListArguments { limit, after } = parse(arguments)?;
        let page = self.api.sessions(SessionsQuery { after, limit }).await?;
        let shown = page.sessions.iter().filter(|session| self.server.options().shows(&session.agent_name));
        let sessions: Vec<Value> = shown
            .map(|session| {
                json!({
                    "session_id": session.session_id,
                    "agent_name": session.agent_name,
                    "status": session.status,
                    "run_id": session.last_run_id,
                    "created_at": session.created_at,
                    "updated_at": session.updated_at,
                })
            })
            .collect();
        Ok(results::of_value(json!({"sessions": sessions, "next": page.next})))
    }

    async fn list_agents(&self, arguments: Value) -> Answered {
        parse::<NoArguments>(arguments)?;
        let agents = self.server.agents(&**self.api).await?;
        let agents: Vec<Value> = agents
            .iter()
            .map(|agent| {
                let known = [
                    "title",
                    "description",
                    "type",
                    "parameters_schema",
                    "output_schema",
                    "output_schema_name",
                ];
                let mut summary = json!({"name": agent.name});
                for key in known {
                    if let Some(value) = agent.definition.get(key) {
                        summary[key] = value.clone();
                    }
                }
                summary
            })
            .collect();
        Ok(results::of_value(json!({"agents": agents})))
    }

    /// Returns a session whose agent the client sees.
    async fn find(&self, session: &SessionId) -> Result<slipform_api::SessionView, Failure> {
        let view = self.api.session(session).await?;
        if self.server.options().shows(&view.agent_name) {
            return Ok(view);
        }
        Err(Failure::Refused(Error::new(Code::SessionNotFound, format!("session not found: {session}"))))
    }

    fn check_shown(&self, agent: &str) -> Result<(), Failure> {
        if self.server.options().shows(agent) {
            return Ok(());
        }
        let message = format!("agent not found: {agent}; list_agent_blueprints has the names of all agents");
        Err(Failure::Refused(Error::new(Code::AgentNotFound, message)))
    }
}

/// Returns a run as the result of a tool for sessions. A run that failed is an error.
fn of_run(run: &RunView) -> CallToolResult {
    if matches!(run.status, RunStatus::Failed | RunStatus::Stopped) {
        return results::of_failed(run);
    }
    let mut content = json!({
        "session_id": run.session_id,
        "run_id": run.run_id,
        "agent_name": run.agent_name,
        "status": run.status,
    });
    if let Some(result) = run.result.as_ref().filter(|_| run.status == RunStatus::Completed) {
        content["result"] = match (&run.contract, &result.result_data) {
            (Some(_), data) => data.clone().unwrap_or_default(),
            (None, _) => results::without_contract(result),
        };
    }
    results::structured(run, content)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_are_sorted_and_have_the_known_names() {
        let names: Vec<String> = tools().iter().map(|tool| tool.name.to_string()).collect();
        assert_eq!(names, NAMES);
        assert!(NAMES.is_sorted());
    }
}
