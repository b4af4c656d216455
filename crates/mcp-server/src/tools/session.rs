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
use slipform_types::{ExecutionMode, RunId, RunStatus, RunType, SessionId};

use crate::calls::{self, CallEnd};
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
struct SessionArguments {
    session_id: SessionId,
}

#[derive(Deserialize)]
struct ResultArguments {
    session_id: SessionId,
    #[serde(default)]
    wait: f64,
}

#[derive(Deserialize)]
struct ListArguments {
    limit: Option<i64>,
    after: Option<String>,
}

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

type Outcome = Result<CallToolResult, Failure>;

/// Performs a call.
pub(super) async fn call(
    server: &McpServer,
    name: &str,
    arguments: JsonObject,
    context: RequestContext<RoleServer>,
) -> Result<CallToolResponse, ErrorData> {
    let api = server.api(&context);
    let sessions = Sessions { server, api: &api, context: &context };
    match sessions.perform(name, arguments).await {
        Ok(result) => Ok(result.into()),
        Err(Failure::Arguments(message)) => Ok(results::bad_arguments(&message).into()),
        Err(Failure::Refused(error)) => results::refusal(&error).map(Into::into),
        Err(Failure::Protocol(error)) => Err(error),
    }
}

fn parse<T: DeserializeOwned>(arguments: Value) -> Result<T, Failure> {
    serde_json::from_value(arguments).map_err(|error| Failure::Arguments(error.to_string()))
}

/// Reads the arguments of a tool that runs an agent: members of a run request, and the mode.
fn run_request(mut arguments: Value) -> Result<(RunRequest, Mode), Failure> {
    let mode = arguments.as_object_mut().and_then(|members| members.shift_remove("mode"));
    let mode = mode.map(parse).transpose()?.unwrap_or_default();
    Ok((parse(arguments)?, mode))
}

fn missing(name: &str) -> Failure {
    Failure::Arguments(format!("missing field `{name}`"))
}

/// Refuses arguments that the input schema of a tool does not describe.
fn check_names(tool: &str, arguments: &JsonObject) -> Result<(), Failure> {
    let tools = tools();
    let tool = tools.iter().find(|known| known.name == tool);
    let described = tool.and_then(|tool| tool.input_schema.get("properties")).and_then(Value::as_object);
    let is_described = |name: &String| described.is_none_or(|described| described.contains_key(name));
    match arguments.keys().find(|name| !is_described(name)) {
        Some(name) => {
            let known = described.into_iter().flat_map(|described| described.keys());
            let known: Vec<String> = known.map(|name| format!("`{name}`")).collect();
            Err(Failure::Arguments(format!("unknown field `{name}`, expected one of {}", known.join(", "))))
        }
        None => Ok(()),
    }
}

/// Performs calls for one request.
struct Sessions<'a> {
    server: &'a McpServer,
    api: &'a Arc<dyn CallerApi>,
    context: &'a RequestContext<RoleServer>,
}

impl Sessions<'_> {
    async fn perform(&self, name: &str, arguments: JsonObject) -> Outcome {
        check_names(name, &arguments)?;
        let arguments = Value::Object(arguments);
        match name {
            "check" => self.check(arguments).await,
            "get_agent_session_result" => self.result(arguments).await,
            "get_agent_session_status" => self.status(arguments).await,
            "list_agent_blueprints" => self.list_agents().await,
            "list_agent_sessions" => self.list(arguments).await,
            "resume_agent_session" => self.resume(arguments).await,
            "start_agent_session" => self.start(arguments).await,
            _ => self.stop(arguments).await,
        }
    }

    async fn check(&self, arguments: Value) -> Outcome {
        let view = self.api.check(parse::<CheckRequest>(arguments)?).await?;
        let view = serde_json::to_value(view).map_err(|error| Failure::Arguments(error.to_string()))?;
        Ok(results::of_value(view))
    }

    async fn start(&self, arguments: Value) -> Outcome {
        let (request, mode) = run_request(arguments)?;
        let Some(agent) = &request.agent_name else { return Err(missing("agent_name")) };
        self.check_shown(agent)?;
        self.submit(RunRequest { run_type: Some(RunType::StartSession), ..request }, mode).await
    }

    async fn resume(&self, arguments: Value) -> Outcome {
        let (request, mode) = run_request(arguments)?;
        let Some(session) = &request.session_id else { return Err(missing("session_id")) };
        self.find(session).await?;
        self.submit(RunRequest { run_type: Some(RunType::ResumeSession), ..request }, mode).await
    }

    /// Submits a run and waits for its end unless the caller does not want to.
    async fn submit(&self, request: RunRequest, mode: Mode) -> Outcome {
        let parent = &request.parent_session_id;
        if mode == Mode::AsyncCallback && parent.is_none() {
            let message =
                "mode async_callback needs parent_session_id, the session to resume when the run has ended";
            return Err(Failure::Arguments(message.to_owned()));
        }
        if let Some(parent) = parent {
            self.find(parent).await?;
        }
        let execution_mode = match mode {
            Mode::Sync | Mode::AsyncPoll => ExecutionMode::AsyncPoll,
            Mode::AsyncCallback => ExecutionMode::AsyncCallback,
        };
        let request = RunRequest { execution_mode, ..request };
        if mode != Mode::Sync {
            let created = self.api.submit(request, None).await?;
            return Ok(of_run(&self.api.run(&created.run_id).await?));
        }
        let created: RunCreated = calls::submit(&**self.api, request, self.context).await?;
        match calls::wait(self.server, self.api, &created, self.context).await? {
            CallEnd::Ended(run) => Ok(of_run(&run)),
            CallEnd::Cancelled => Err(calls::cancelled().into()),
        }
    }

    async fn status(&self, arguments: Value) -> Outcome {
        let session = self.find(&parse::<SessionArguments>(arguments)?.session_id).await?;
        let content = summary(&session.session_id, &session.last_run_id, &session.agent_name, session.status);
        Ok(results::of_value(content))
    }

    async fn result(&self, arguments: Value) -> Outcome {
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

    async fn stop(&self, arguments: Value) -> Outcome {
        let session = self.find(&parse::<SessionArguments>(arguments)?.session_id).await?;
        let run = self.api.stop_session(&session.session_id).await?;
        Ok(results::of_value(summary(&run.session_id, &run.run_id, &run.agent_name, run.status)))
    }

    async fn list(&self, arguments: Value) -> Outcome {
        let ListArguments { limit, after } = parse(arguments)?;
        let page = self.api.sessions(SessionsQuery { after, limit, ..SessionsQuery::default() }).await?;
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

    async fn list_agents(&self) -> Outcome {
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
                let mut shown = json!({"name": agent.name});
                for key in known {
                    if let Some(value) = agent.definition.get(key) {
                        shown[key] = value.clone();
                    }
                }
                shown
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

/// Returns what every tool for sessions tells about a run.
fn summary(session: &SessionId, run: &RunId, agent: &str, status: RunStatus) -> Value {
    json!({"session_id": session, "run_id": run, "agent_name": agent, "status": status})
}

/// Returns a run as the result of a tool for sessions. A run that failed is an error.
fn of_run(run: &RunView) -> CallToolResult {
    if matches!(run.status, RunStatus::Failed | RunStatus::Stopped) {
        return results::of_failed(run);
    }
    let mut content = summary(&run.session_id, &run.run_id, &run.agent_name, run.status);
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
