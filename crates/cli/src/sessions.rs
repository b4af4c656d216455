//! `slipform sessions`: lists, shows, resumes, stops and deletes sessions.

use anyhow::{Context as _, Result, anyhow};
use serde_json::{Value, json};
use slipform_api::{CallerApi, EventsQuery, ResultView, RunResult, SessionView, SessionsQuery};
use slipform_types::{Event, SessionId};

use crate::arguments::{Sessions, SessionsCommand};
use crate::coordinator::Coordinator;
use crate::exit::Exit;
use crate::run::parameters::read_prompt;
use crate::{backends, output, pretty, waiting};

/// The number of events per request.
const EVENTS_MAX: i64 = 1_000;

pub(crate) fn run(arguments: &Sessions) -> Result<Exit> {
    backends::runtime()?.block_on(async {
        if let SessionsCommand::Resume { id, prompt, refresh_agent } = &arguments.command {
            let (id, prompt) = (session(id)?, read_prompt(prompt)?);
            return crate::run::resume(arguments.server.as_deref(), &id, &prompt, *refresh_agent).await;
        }
        let coordinator = Coordinator::open(arguments.server.as_deref()).await?;
        let api = &*coordinator.api;
        match &arguments.command {
            SessionsCommand::List { limit, json } => list(api, i64::from(*limit), *json).await,
            SessionsCommand::Show { id, json } => show(api, &session(id)?, *json).await,
            SessionsCommand::Result { id, json, pretty } => {
                let form = match (json, pretty) {
                    (true, _) => ResultFormat::Full,
                    (_, true) => ResultFormat::Pretty,
                    _ => ResultFormat::Data,
                };
                result(api, &session(id)?, form).await
            }
            SessionsCommand::Events { id, after, json } => events(api, &session(id)?, *after, *json).await,
            SessionsCommand::Resume { .. } => Ok(Exit::Valid),
            SessionsCommand::Stop { id } => {
                let run = waiting::wait_for_stop(api, api.stop_session(&session(id)?).await?).await?;
                output::lines([format!("slipform: run `{}` is {}", run.run_id, run.status.name())]);
                Ok(Exit::Valid)
            }
            SessionsCommand::Delete { id } => {
                api.delete_session(&session(id)?).await?;
                output::lines([format!("slipform: session `{id}` and its child sessions deleted")]);
                Ok(Exit::Valid)
            }
        }
    })
}

fn session(text: &str) -> Result<SessionId> {
    text.parse::<SessionId>().map_err(|error| anyhow!("{error}; run `slipform sessions list`"))
}

async fn list(api: &dyn CallerApi, limit: i64, as_json: bool) -> Result<Exit> {
    let page = api.sessions(SessionsQuery { limit: Some(limit), ..SessionsQuery::default() }).await?;
    if as_json {
        output::data(&serde_json::to_value(&page)?)?;
        return Ok(Exit::Valid);
    }
    if page.sessions.is_empty() {
        output::lines(["no sessions yet; start one with `slipform run AGENT`".to_owned()]);
    }
    output::table(["SESSION", "STATUS", "UPDATED", "AGENT", "PARENT"], page.sessions.iter().map(row))?;
    if page.next.is_some() {
        output::lines([format!("… more rows exist; raise `--limit` (now {limit})")]);
    }
    Ok(Exit::Valid)
}

fn row(session: &SessionView) -> Vec<String> {
    vec![
        session.session_id.to_string(),
        session.status.name().to_owned(),
        session.updated_at.clone(),
        session.agent_name.clone(),
        session.parent_session_id.as_ref().map(ToString::to_string).unwrap_or_default(),
    ]
}

async fn show(api: &dyn CallerApi, session: &SessionId, as_json: bool) -> Result<Exit> {
    let view = api.session(session).await?;
    if as_json {
        output::data(&serde_json::to_value(&view)?)?;
        return Ok(Exit::Valid);
    }
    output::text(row(&view).join("  ").trim_end())?;
    output::text(&format!("latest run: {}  events: {}", view.last_run_id, view.last_seq))?;
    for child in &view.children {
        output::text(&format!("child: {child}"))?;
    }
    Ok(Exit::Valid)
}

/// The output format of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ResultFormat {
    /// The result with its receipt and validation, as JSON.
    Full,
    /// The result as formatted text.
    Pretty,
    /// The result alone, as JSON.
    Data,
}

async fn result(api: &dyn CallerApi, session: &SessionId, form: ResultFormat) -> Result<Exit> {
    let view: ResultView = api.session_result(session).await?;
    if form == ResultFormat::Full {
        output::data(&serde_json::to_value(&view)?)?;
        return Ok(exit(view.error.as_ref(), &view.result));
    }
    print_result(view.error.as_ref(), &view.result, form)
}

/// Prints the result or the error of a run.
fn print_result(error: Option<&Value>, result: &RunResult, form: ResultFormat) -> Result<Exit> {
    let print = |value: &Value| match form {
        ResultFormat::Pretty => output::pretty(value),
        ResultFormat::Full | ResultFormat::Data => output::data(value),
    };
    if let Some(error) = error {
        // Readers of universal responses expect one in every case.
        if pretty::response(&error["response"]).is_some() {
            print(&error["response"])?;
        }
        let text = |key: &str| error[key].as_str().unwrap_or_default().to_owned();
        output::lines([format!("slipform: {}", output::run_error(&text("message"), &text("type")))]);
        let errors = error["validation_errors"].as_array().into_iter().flatten();
        output::lines(errors.filter_map(Value::as_str).map(str::to_owned));
    } else {
        match (&result.result_data, &result.result_text) {
            (Some(data), _) => print(data)?,
            (None, Some(text)) if form == ResultFormat::Pretty => print(&json!(text))?,
            (None, text) => output::text(text.as_deref().unwrap_or_default())?,
        }
    }
    Ok(exit(error, result))
}

/// Returns the exit status of a run with this error or result, the same as `slipform run` has.
fn exit(error: Option<&Value>, result: &RunResult) -> Exit {
    let Some(error) = error else { return crate::run::report::completed_exit(result) };
    serde_json::from_value(error["type"].clone()).map_or(Exit::Invalid, crate::run::report::exit)
}

async fn events(api: &dyn CallerApi, session: &SessionId, after: i64, as_json: bool) -> Result<Exit> {
    let mut after = after;
    loop {
        let page = api.events(session, EventsQuery { after: Some(after), limit: Some(EVENTS_MAX) }).await?;
        for event in &page.events {
            if as_json {
                output::json(event.get())?;
            } else {
                output::text(&event_line(event.get())?)?;
            }
        }
        match page.next {
            Some(next) => after = next,
            None => return Ok(Exit::Valid),
        }
    }
}

/// Formats an event as one line: sequence number, timestamp, type and the start of its content.
fn event_line(text: &str) -> Result<String> {
    let value: Value = serde_json::from_str(text)?;
    let event: Event = serde_json::from_str(text)
        .context("the journal contains an event that this version does not support; upgrade slipform")?;
    let kind = value["event_type"].as_str().unwrap_or_default();
    let glance =
        ["content", "tool_name", "error", "errors", "result_data", "result_text", "reason", "agent_name"];
    let glance =
        glance.iter().map(|key| &value[*key]).find(|value| !value.is_null()).cloned().unwrap_or(json!(""));
    let glance = glance.as_str().map(str::to_owned).unwrap_or_else(|| glance.to_string());
    let glance = if glance.is_empty() { called(&value) } else { glance };
    let glance: String = glance.replace(['\n', '\r', '\t'], " ").chars().take(80).collect();
    let glance = output::escape_controls(&glance);
    Ok(format!("{:>4}  {}  {kind:17}  {glance}", event.seq, event.timestamp).trim_end().to_owned())
}

/// The calls of a reply that has no text, such as the result that a model submitted.
fn called(event: &Value) -> String {
    let calls = event["reply"]["tool_calls"].as_array().into_iter().flatten();
    let calls = calls.map(|call| {
        let text = |key: &str| call[key].as_str().unwrap_or_default().to_owned();
        format!("{} {}", text("name"), text("arguments"))
    });
    calls.collect::<Vec<_>>().join("; ")
}
