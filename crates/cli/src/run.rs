//! `slipform run` and `slipform orchestrate`: runs an agent and prints its result.

mod agent_file;
mod follow;
pub(crate) mod parameters;
mod progress_line;
pub(crate) mod report;
mod tree;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde_json::Value;
use slipform_api::waiting::{self, RunTree};
use slipform_api::{CallerApi, RunRequest};
use slipform_types::{AgentType, Blueprint, RunId, SessionId};
use tracing_subscriber::filter::LevelFilter;

use crate::arguments::{Run, RunTarget};
use crate::coordinator::Coordinator;
use crate::exit::Exit;
use crate::local_resources::LocalResources;
use crate::settings::Settings;
use crate::{backends, logging, output, signals, source};
use follow::Follower;
use progress_line::ProgressLine;
use report::EndedRun;

/// The time after which a run that no runner could perform is reported.
const MISSING_RUNNER_DELAY: Duration = Duration::from_secs(2);

pub(crate) fn run(arguments: &Run) -> Result<Exit> {
    let _logging = logging::start(LevelFilter::OFF)?;
    backends::runtime()?.block_on(async {
        let coordinator = Coordinator::open_to_run(arguments.target.server.as_deref()).await?;
        perform(arguments, coordinator).await
    })
}

/// Resumes a session.
pub(crate) async fn resume(
    server: Option<&str>,
    session: &SessionId,
    prompt: &str,
    refresh_agent: bool,
) -> Result<Exit> {
    let coordinator = Coordinator::open_to_run(server).await?;
    let agent = coordinator.api.session(session).await?.agent_name;
    let arguments = Run {
        agent,
        prompt: Some(prompt.to_owned()),
        target: RunTarget { session: Some(session.to_string()), refresh_agent, ..RunTarget::default() },
        ..Run::default()
    };
    perform(&arguments, coordinator).await
}

/// Submits a run, waits for its end and prints its result. A coordinator in this process gets a runner for it.
async fn perform(arguments: &Run, coordinator: Coordinator) -> Result<Exit> {
    let resources = resources(arguments, &coordinator)?;
    let agent = find_agent(arguments, &coordinator).await?;
    let parameters = parameters::read_parameters(arguments, &agent.parameters_schema)?;
    let request = request(arguments, agent.name, parameters)?;
    if let (Some(local), Some(resources)) = (&coordinator.local, &resources) {
        let checked = local.check_startable(resources, &request, agent.blueprint.as_ref()).await;
        if let Err(error) = checked {
            return report::refusal(arguments, error);
        }
        resources.announce_backend(agent.blueprint.as_ref());
        output::lines(local.replacement_warnings(&arguments.agent, request.output_schema_name.as_deref()));
    }
    let mut coordinator = coordinator.create_store().await?;
    let line = Arc::new(ProgressLine::new(output::is_terminal()));
    if let (Some(local), Some(resources)) = (&mut coordinator.local, resources) {
        local.start_runner(resources, line.clone());
    }
    let created = match coordinator.api.submit(request, None).await {
        Ok(created) => created,
        Err(error) => {
            if let Some(local) = &coordinator.local {
                local.leave().await;
            }
            return report::refusal(arguments, error.into());
        }
    };
    // A runner in this process reports events itself.
    let mut follower = coordinator.local.is_none().then(|| {
        let agent = arguments.agent.clone();
        Follower::start(coordinator.api.clone(), created.session_id.clone(), agent, line.clone())
    });
    let outcome = tokio::select! {
        outcome = wait_or_stop(&*coordinator.api, &created.run_id) => outcome,
        never = notice_missing_runner(&coordinator, &created.run_id, &line) => match never {},
    };
    if let Some(local) = &coordinator.local {
        local.leave().await;
    }
    if let (Some(follower), Ok(tree)) = (&mut follower, &outcome) {
        follower.last_event_of(&tree.last.run_id).await;
    }
    line.clear();
    let ended = EndedRun::new(outcome?);
    let project = std::env::current_dir().context("cannot read the current folder")?;
    let shown = report::show(arguments, &ended, &project);
    if let Some(local) = &coordinator.local {
        local.write_analytics().await;
    }
    shown
}

/// Tells once that no runner is connected that could perform the run.
async fn notice_missing_runner(
    coordinator: &Coordinator,
    run: &RunId,
    line: &ProgressLine,
) -> std::convert::Infallible {
    if coordinator.local.is_none() {
        tokio::time::sleep(MISSING_RUNNER_DELAY).await;
        if crate::waiting::lacks_runner(&*coordinator.api, run).await {
            line.clear();
            output::lines([format!(
                "slipform: no runner is connected to the coordinator; run `{run}` waits until one is: start it with \
                 `slipform runner --coordinator URL`"
            )]);
        }
    }
    std::future::pending().await
}

/// Waits for the end of a run and of everything it started. A termination signal stops them.
async fn wait_or_stop(api: &dyn CallerApi, run: &RunId) -> Result<RunTree> {
    tokio::select! {
        outcome = waiting::wait_until_idle(api, run) => Ok(outcome?),
        interrupted = signals::interrupted() => {
            interrupted?;
            Ok(waiting::stop_tree(api, run).await?)
        }
    }
}

/// Returns the resources of a runner in this process, or `None` if other runners perform the run.
fn resources(arguments: &Run, coordinator: &Coordinator) -> Result<Option<LocalResources>> {
    let Some(local) = &coordinator.local else { return Ok(None) };
    let settings = Settings::read(local.project(), &backends::environment)?;
    let backend = arguments.target.backend.clone();
    Ok(Some(LocalResources::new(local.project().to_owned(), settings, backend)))
}

/// The agent of a run, as far as the command has to know it.
struct RunAgent {
    name: String,
    /// Set for runs that start a session. `None` also for a file that the coordinator refuses.
    blueprint: Option<Blueprint>,
    /// The schema of the run's parameters.
    parameters_schema: Value,
}

/// Looks up the agent that the command names. A coordinator in this process also takes a file.
async fn find_agent(arguments: &Run, coordinator: &Coordinator) -> Result<RunAgent> {
    let given = &arguments.agent;
    let prompt_only = || Blueprint::default().schema_of_parameters();
    let from_file = if agent_file::is_path(given) {
        let Some(local) = &coordinator.local else {
            bail!(
                "a coordinator accepts only agent names, not the file `{given}`; add it to the coordinator's agents/, or \
                 run it without `--server`"
            );
        };
        let (path, blueprint) = agent_file::load(given)?;
        local.add_agent(path, blueprint.clone());
        Some(blueprint)
    } else {
        None
    };
    let name = from_file.as_ref().map_or(given, |blueprint| &blueprint.name).clone();
    if arguments.target.session.is_some() {
        return Ok(RunAgent { name, blueprint: None, parameters_schema: prompt_only() });
    }
    let blueprint = match from_file {
        Some(blueprint) => Some(blueprint),
        None => coordinator.api.agent(&name).await?.blueprint().map(serde_json::from_value).transpose()?,
    };
    if let Some(blueprint) = &blueprint {
        check_orchestrator(arguments, blueprint)?;
    }
    let parameters_schema = blueprint.as_ref().map_or_else(prompt_only, Blueprint::schema_of_parameters);
    Ok(RunAgent { name, blueprint, parameters_schema })
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

/// Builds the request.
fn request(arguments: &Run, agent_name: String, parameters: Value) -> Result<RunRequest> {
    let request = match &arguments.target.session {
        None => RunRequest::start(agent_name),
        Some(text) => match text.parse() {
            Ok(session) => RunRequest {
                agent_name: Some(agent_name),
                refresh_agent: arguments.target.refresh_agent,
                ..RunRequest::resume(session)
            },
            Err(error) => bail!("--session: {error}; run `slipform sessions list`"),
        },
    };
    let (output_schema, output_schema_name) = match SchemaSource::read(arguments)? {
        Some(SchemaSource::Inline(schema)) => (Some(schema), None),
        Some(SchemaSource::Named(name)) => (None, Some(name)),
        None => (None, None),
    };
    let (options, target) = (arguments.options(), &arguments.target);
    Ok(RunRequest {
        parameters: Some(parameters),
        output_schema,
        output_schema_name,
        output_schema_options: (!options.is_empty()).then_some(options),
        backend: target.backend.clone(),
        model: target.model.clone(),
        max_tokens: target.max_tokens,
        timeout_seconds: target.timeout,
        ..request
    })
}
