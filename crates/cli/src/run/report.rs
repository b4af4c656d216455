//! What a run shows when it has ended.

use std::fs;
use std::path::Path;

use anyhow::Result;
use formwork_agents::parameters::InvalidParameters;
use formwork_runner::Claim;
use formwork_types::{Body, Event, Failure, Outcome, RunErrorType, Success};
use serde_json::{Value, json};

use crate::arguments::Run;
use crate::exit::Exit;
use crate::output;

/// A run that has ended.
pub(super) struct Ended<'a> {
    pub(super) claim: &'a Claim,
    pub(super) outcome: &'a Outcome,
    pub(super) events: &'a [Event],
    pub(super) created_at: &'a str,
    pub(super) finished_at: &'a str,
}

/// Shows the result on stdout, or the failure on stderr.
pub(super) fn show(arguments: &Run, ended: &Ended<'_>, project: &Path) -> Result<Exit> {
    let shown = match ended.outcome {
        _ if arguments.json => output::data(&run_object(ended)?),
        Outcome::Completed(success) => result(arguments, success),
        Outcome::Failed(_) => Ok(()),
    };
    if let Err(error) = shown {
        if output::is_closed(&error) {
            return Err(error);
        }
        // The result was paid for; that it cannot be shown must not cost it.
        output::lines([format!("formwork: {error:#}")]);
        keep(ended, project);
        return Ok(Exit::Invalid);
    }
    match ended.outcome {
        Outcome::Completed(_) => Ok(Exit::Valid),
        Outcome::Failed(failure) => {
            explain(failure);
            if !arguments.json && !failure.salvage.replies.is_empty() {
                keep(ended, project);
            }
            Ok(exit(failure.error.kind))
        }
    }
}

fn result(arguments: &Run, success: &Success) -> Result<()> {
    let value = success.result_data.clone().or_else(|| success.result_text.clone().map(Value::String));
    if arguments.receipt {
        return output::data(&json!({"result": value, "receipt": success.receipt}));
    }
    match (&success.result_data, &success.result_text) {
        (Some(data), _) => output::data(data),
        (None, Some(text)) => output::text(text),
        (None, None) => Ok(()),
    }
}

fn exit(kind: RunErrorType) -> Exit {
    match kind {
        RunErrorType::BackendUnavailable | RunErrorType::BackendRejected => Exit::Backend,
        RunErrorType::Stopped => Exit::Interrupted,
        _ => Exit::Invalid,
    }
}

/// The failure in words.
fn explain(failure: &Failure) {
    let error = &failure.error;
    output::lines([format!("formwork: {} ({})", error.message, error.kind.name())]);
    output::lines(error.validation_errors.iter().cloned());
}

/// A failed run is kept in the project: its replies were paid for.
fn keep(ended: &Ended<'_>, project: &Path) {
    let name = format!(".formwork/failed/{}.json", ended.claim.run_id);
    let path = project.join(&name);
    let text = run_object(ended).and_then(|run| Ok(serde_json::to_string_pretty(&run)? + "\n"));
    let kept = text.and_then(|text| {
        fs::create_dir_all(path.parent().unwrap_or(project))?;
        Ok(fs::write(&path, text)?)
    });
    match kept {
        Ok(()) => {
            output::lines([format!("formwork: the run and everything that was written are kept in {name}")])
        }
        Err(error) => {
            output::lines([format!("formwork: the replies could not be kept in {name}: {error:#}")])
        }
    }
}

/// The run as the API gives it, with its result.
fn run_object(ended: &Ended<'_>) -> Result<Value> {
    let claim = ended.claim;
    let own = |event: &&Event| event.run_id == claim.run_id;
    let attempts: Vec<&Event> = ended
        .events
        .iter()
        .filter(own)
        .filter(|event| matches!(event.body, Body::AttemptStarted { .. }))
        .collect();
    let started = attempts.first();
    // A session that was called back has started its children in earlier runs.
    let in_session = |event: &&Event| event.session_id == claim.session_id;
    let children = ended.events.iter().filter(in_session).filter_map(|event| match &event.body {
        Body::ChildStarted { child_session_id, .. } => Some(child_session_id),
        _ => None,
    });
    let children: Vec<_> = children.collect();
    let mut run = json!({
        "run_id": claim.run_id,
        "session_id": claim.session_id,
        "agent_name": claim.blueprint.name,
        "type": claim.run_type,
        "status": null,
        "error": null,
        "retry_count": 0,
        "attempts": 1,
        "contract": claim.contract,
        "created_at": ended.created_at,
        "started_at": started.map(|event| &event.timestamp),
        "finished_at": ended.finished_at,
        "result_text": null,
        "result_data": null,
        "receipt": null,
    });
    if !children.is_empty() {
        run["children"] = json!(children);
    }
    match ended.outcome {
        Outcome::Completed(success) => {
            run["status"] = json!("completed");
            run["retry_count"] = json!(success.receipt.retries);
            run["result_text"] = json!(success.result_text);
            run["result_data"] = json!(success.result_data);
            run["receipt"] = serde_json::to_value(&success.receipt)?;
        }
        Outcome::Failed(failure) => {
            let stopped = failure.error.kind == RunErrorType::Stopped;
            run["status"] = json!(if stopped { "stopped" } else { "failed" });
            run["retry_count"] = json!(failure.receipt.retries);
            run["error"] = serde_json::to_value(&failure.error)?;
            run["receipt"] = serde_json::to_value(&failure.receipt)?;
            run["salvage"] = serde_json::to_value(&failure.salvage)?;
        }
    }
    Ok(run)
}

/// Says what is wrong with the parameters, each with its path.
pub(super) fn invalid_parameters(arguments: &Run, invalid: &InvalidParameters) -> Exit {
    if arguments.json {
        let _ = output::data(&json!({
            "error": "InvalidParameters",
            "message": invalid.to_string(),
            "details": invalid,
            "status_code": 422,
        }));
    }
    output::lines([format!("formwork: the agent '{}' does not take these parameters", invalid.agent_name)]);
    output::lines(invalid.validation_errors.iter().map(ToString::to_string));
    Exit::Usage
}
