//! `slipform run`: an agent, from parameters to a result that satisfies its contract.

mod agent;
mod local;
mod parameters;
mod progress_line;
mod remote;
mod report;
mod tree;

use std::path::Path;

use anyhow::{Result, bail};
use serde_json::Value;
use slipform_api::RunRequest;
use slipform_types::{AgentType, Blueprint, SessionId};
use tracing_subscriber::filter::LevelFilter;

use crate::arguments::{Run, RunTarget};
use crate::exit::Exit;
use crate::{backends, coordinator, logging, source};

pub(crate) fn run(arguments: &Run) -> Result<Exit> {
    let _logging = logging::start(LevelFilter::OFF)?;
    backends::runtime()?.block_on(async {
        match coordinator::client(arguments.place.server.as_deref())? {
            Some(client) => remote::run(arguments, client).await,
            None => local::run(arguments).await,
        }
    })
}

/// Goes on with a session in this process.
pub(crate) async fn resume(agent: &str, session: &SessionId, prompt: &str) -> Result<Exit> {
    let arguments = Run {
        agent: agent.to_owned(),
        prompt: Some(prompt.to_owned()),
        place: RunTarget { session: Some(session.to_string()), ..RunTarget::default() },
        ..Run::default()
    };
    local::run(&arguments).await
}

/// Refuses an agent that leads nobody where a team is asked for.
fn check_team(arguments: &Run, blueprint: &Blueprint) -> Result<()> {
    if arguments.needs_team && blueprint.kind != AgentType::Orchestrator {
        bail!(
            "the agent '{name}' leads no team; run it with `slipform run {name}`, or say type: orchestrator in its file",
            name = blueprint.name
        );
    }
    Ok(())
}

/// The schema that the command line asks for.
enum SchemaSource {
    Inline(Value),
    Named(String),
}

impl SchemaSource {
    /// Reads it, once: it may come out of a pipe.
    fn read(arguments: &Run) -> Result<Option<SchemaSource>> {
        let Some(given) = &arguments.schema else { return Ok(None) };
        match Path::new(given).exists() {
            true => Ok(Some(SchemaSource::Inline(source::schema_source(given)?.1))),
            false => Ok(Some(SchemaSource::Named(given.clone()))),
        }
    }
}

/// What is asked of a coordinator, here or elsewhere.
fn request(
    arguments: &Run,
    agent_name: String,
    parameters: Value,
    schema: Option<SchemaSource>,
) -> Result<RunRequest> {
    let request = match &arguments.place.session {
        None => RunRequest::start(agent_name),
        Some(text) => match text.parse() {
            Ok(session) => RunRequest::resume(session),
            Err(error) => bail!("--session: {error}"),
        },
    };
    let (output_schema, output_schema_name) = match schema {
        Some(SchemaSource::Inline(schema)) => (Some(schema), None),
        Some(SchemaSource::Named(name)) => (None, Some(name)),
        None => (None, None),
    };
    let options = arguments.options();
    Ok(RunRequest {
        parameters: Some(parameters),
        output_schema,
        output_schema_name,
        output_schema_options: (!options.is_empty()).then_some(options),
        ..request
    })
}
