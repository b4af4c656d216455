//! `slipform run` and `slipform orchestrate`: runs an agent and prints its result.

mod agent;
mod local;
pub(crate) mod parameters;
mod progress_line;
mod remote;
pub(crate) mod report;
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
        match coordinator::client(arguments.target.server.as_deref())? {
            Some(client) => remote::run(arguments, client).await,
            None => local::run(arguments).await,
        }
    })
}

/// Resumes a session in this process.
pub(crate) async fn resume(agent: &str, session: &SessionId, prompt: &str) -> Result<Exit> {
    let arguments = Run {
        agent: agent.to_owned(),
        prompt: Some(prompt.to_owned()),
        target: RunTarget { session: Some(session.to_string()), ..RunTarget::default() },
        ..Run::default()
    };
    local::run(&arguments).await
}

/// Returns an error if `slipform orchestrate` is given an agent that is not an orchestrator.
fn check_orchestrator(arguments: &Run, blueprint: &Blueprint) -> Result<()> {
    if arguments.needs_orchestrator && blueprint.kind != AgentType::Orchestrator {
        bail!(
            "agent `{name}` is not an orchestrator; run it with `slipform run {name}`, or set `type: orchestrator` in its \
             file",
            name = blueprint.name
        );
    }
    Ok(())
}

/// The output schema from `--schema`.
enum SchemaSource {
    Inline(Value),
    Named(String),
}

impl SchemaSource {
    /// Reads the schema once, because it may be a pipe.
    fn read(arguments: &Run) -> Result<Option<SchemaSource>> {
        let Some(given) = &arguments.schema else { return Ok(None) };
        if Path::new(given).exists() {
            Ok(Some(SchemaSource::Inline(source::load_schema_source(given)?.1)))
        } else {
            Ok(Some(SchemaSource::Named(given.clone())))
        }
    }
}

/// Builds the request for a local or remote coordinator.
fn request(
    arguments: &Run,
    agent_name: String,
    parameters: Value,
    schema: Option<SchemaSource>,
) -> Result<RunRequest> {
    let request = match &arguments.target.session {
        None => RunRequest::start(agent_name),
        Some(text) => match text.parse() {
            Ok(session) => RunRequest::resume(session),
            Err(error) => bail!("--session: {error}; run `slipform sessions list`"),
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
