//! Prints the result or the error of a finished run.

use std::fs;
use std::path::Path;

use anyhow::Result;
use serde_json::{Value, json};
use slipform_api::waiting::RunTree;
use slipform_api::{Code, Error, RunResult, RunView};
use slipform_types::{Receipt, ResponseStatus, RunError, RunErrorType, SessionId, SubtaskOutcome};

use crate::arguments::{Printing, Run};
use crate::coordinator;
use crate::exit::Exit;
use crate::{output, pretty};

/// A finished run with its result and children.
pub(super) struct EndedRun {
    run: RunView,
    result: RunResult,
    /// The child sessions of the run and of the runs that it continues.
    children: Vec<SessionId>,
}

impl EndedRun {
    pub(super) fn new(tree: RunTree) -> EndedRun {
        let RunTree { last: mut run, children, .. } = tree;
        let result = run.result.take().unwrap_or_default();
        EndedRun { run, result, children }
    }

    /// Returns the error of a failed run.
    fn error(&self) -> Result<Option<RunError>> {
        Ok(self.run.error.clone().map(serde_json::from_value).transpose()?)
    }
}

/// Prints the result on stdout or the error on stderr. An error with a universal response is printed on stdout as well.
pub(super) fn show(arguments: &Run, ended: &EndedRun, project: &Path) -> Result<Exit> {
    if ended.run.awaits_callback {
        output::lines([format!(
            "slipform: interrupted while run `{}` waits for its child agents; run `slipform sessions show {}` to see the \
             outcome",
            ended.run.run_id, ended.run.session_id
        )]);
        return Ok(Exit::Interrupted);
    }
    let error = ended.error()?;
    let shown = match &error {
        _ if arguments.printing.json => output::data(&run_object(ended)?),
        None => {
            output::lines(flag_notices(&ended.result));
            result(arguments, &ended.result)
        }
        Some(error) => failure(arguments, error, &ended.result),
    };
    if let Err(error) = shown {
        if output::is_closed(&error) {
            return Err(error);
        }
        // The model calls were paid for, so the result is saved if it cannot be printed.
        output::lines([format!("slipform: {error:#}")]);
        save(ended, project);
        return Ok(Exit::Invalid);
    }
    let Some(error) = error else {
        let refused = arguments.gate.then(|| refused_by_gate(&ended.result)).flatten();
        return Ok(match refused {
            Some(status) => {
                output::lines([format!("slipform: the response is {status}, which `--gate` refuses")]);
                Exit::Invalid
            }
            None => completed_exit(&ended.result),
        });
    };
    print_error(&error);
    let has_replies = ended.result.salvage.as_ref().is_some_and(|salvage| !salvage.replies.is_empty());
    if !arguments.printing.json && has_replies {
        save(ended, project);
    }
    Ok(exit(error.kind))
}

/// Returns the status of a universal response that `--gate` refuses. It lets all other results pass.
fn refused_by_gate(result: &RunResult) -> Option<&'static str> {
    let response = pretty::response(result.result_data.as_ref()?)?;
    match response.status {
        ResponseStatus::Fail => Some("FAIL"),
        ResponseStatus::Partial => Some("PARTIAL"),
        ResponseStatus::Error => Some("an error"),
        ResponseStatus::Pass | ResponseStatus::Success | ResponseStatus::NeedsClarification => None,
    }
}

fn result(arguments: &Run, result: &RunResult) -> Result<()> {
    if arguments.printing.receipt {
        let value = result.result_data.clone().or_else(|| result.result_text.clone().map(Value::String));
        return output::data(&json!({"result": value, "receipt": result.receipt}));
    }
    match (&result.result_data, &result.result_text) {
        (Some(data), _) if arguments.printing.pretty => output::pretty(data),
        (None, Some(text)) if arguments.printing.pretty => output::pretty(&json!(text)),
        (Some(data), _) => output::data(data),
        (None, Some(text)) => output::text(text),
        (None, None) => output::data(&Value::Null),
    }
}

/// Returns a message for each flag of the receipt that readers of a result should know about.
fn flag_notices(result: &RunResult) -> Vec<String> {
    let flags = result.receipt.iter().flat_map(|receipt| receipt["flags"].as_array()).flatten();
    let notices = flags.filter_map(|flag| {
        let flag = flag.as_str()?;
        let meaning = match flag {
            "bounded" => "a part of the result reached a length limit of the built-in model",
            "forced_close" => {
                "the token budget ran out, and parts of the result may be empty; raise `max_tokens`"
            }
            "repetition_cut" => "the model repeated itself, and a part of the result was cut short",
            "no_tool_called" => "the model called none of its tools, so it did not look anything up",
            _ => return None,
        };
        Some(format!("slipform: {meaning} (`{flag}`)"))
    });
    notices.collect()
}

/// Prints the universal response of an error, because readers of universal responses expect one in every case.
fn failure(arguments: &Run, error: &RunError, result: &RunResult) -> Result<()> {
    let Some(response) = error.response.as_ref().filter(|it| pretty::response(it).is_some()) else {
        return Ok(());
    };
    match &arguments.printing {
        Printing { receipt: true, .. } => {
            output::data(&json!({"result": response, "receipt": result.receipt}))
        }
        Printing { pretty: true, .. } => output::pretty(response),
        _ => output::data(response),
    }
}

/// Returns the exit status of a completed run. Prints the subtasks that an incomplete result lacks.
pub(crate) fn completed_exit(result: &RunResult) -> Exit {
    let receipt = result.receipt.clone().and_then(|receipt| serde_json::from_value::<Receipt>(receipt).ok());
    let Some(receipt) = receipt.filter(Receipt::is_incomplete) else { return Exit::Valid };
    let problems = receipt.subtasks.iter().filter_map(SubtaskOutcome::problem);
    output::lines(problems.map(|problem| format!("slipform: the result is incomplete: {problem}")));
    Exit::Invalid
}

pub(crate) fn exit(kind: RunErrorType) -> Exit {
    match kind {
        RunErrorType::BackendUnavailable | RunErrorType::BackendRejected => Exit::Backend,
        RunErrorType::Stopped => Exit::Interrupted,
        _ => Exit::Invalid,
    }
}

/// Prints the error and its violations on stderr.
fn print_error(error: &RunError) {
    output::lines([format!("slipform: {}", output::run_error(&error.message, error.kind.name()))]);
    output::lines(error.validation_errors.iter().cloned());
}

/// Saves a failed run with its model replies to `.slipform/failed/`.
fn save(ended: &EndedRun, project: &Path) {
    let name = format!(".slipform/failed/{}.json", ended.run.run_id);
    let path = project.join(&name);
    let text = run_object(ended).and_then(|run| Ok(serde_json::to_string_pretty(&run)? + "\n"));
    let saved = text.and_then(|text| {
        coordinator::make_folder(path.parent().unwrap_or(project))?;
        Ok(fs::write(&path, text)?)
    });
    match saved {
        Ok(()) => output::lines([format!("slipform: the run and its model replies are saved in {name}")]),
        Err(error) => {
            output::lines([format!("slipform: cannot save the model replies in {name}: {error:#}")])
        }
    }
}

/// Returns the run as the API represents it.
fn run_object(ended: &EndedRun) -> Result<Value> {
    let EndedRun { run, result, children } = ended;
    let mut object = serde_json::to_value(RunView { result: Some(result.clone()), ..run.clone() })?;
    if !children.is_empty() {
        object["children"] = json!(children);
    }
    Ok(object)
}

/// Prints why a run was not accepted. Invalid parameters are listed, each with its path.
pub(super) fn refusal(arguments: &Run, error: anyhow::Error) -> Result<Exit> {
    let Some(refused) = error.downcast_ref::<Error>().filter(|error| error.code == Code::InvalidParameters)
    else {
        return Err(error);
    };
    if arguments.printing.json {
        output::data(&serde_json::to_value(refused.body())?)?;
    }
    let details = refused.details.clone().unwrap_or_default();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    output::lines([format!("slipform: invalid parameters for agent `{}`", text(&details["agent_name"]))]);
    let problems = details["validation_errors"].as_array().into_iter().flatten();
    output::lines(
        problems.map(|problem| format!("{}: {}", text(&problem["path"]), text(&problem["message"]))),
    );
    Ok(Exit::Usage)
}
