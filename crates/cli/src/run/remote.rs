//! Submits a run to a remote coordinator and waits for its end.

use std::convert::Infallible;

use anyhow::{Result, bail};
use slipform_api::{AgentView, Client, EventStream};
use slipform_types::{Blueprint, Event, SessionId};

use super::parameters::read_parameters;
use super::progress_line::ProgressLine;
use super::{SchemaSource, check_orchestrator, report, request};
use crate::arguments::Run;
use crate::coordinator::Coordinator;
use crate::exit::Exit;
use crate::{output, signals};

pub(super) async fn run(arguments: &Run, client: Client) -> Result<Exit> {
    if arguments.target.backend.is_some() {
        bail!(
            "`--backend` applies only to runs in this process; a coordinator's runners use their own backends"
        );
    }
    let name = &arguments.agent;
    if name.contains(std::path::MAIN_SEPARATOR) || name.contains('.') {
        bail!(
            "a coordinator accepts only agent names, not the file `{name}`; add it to the coordinator's agents/, or run \
             it without `--server`"
        );
    }
    let agent: AgentView = client.get(&format!("agents/{name}")).await?;
    let blueprint: Blueprint = serde_json::from_value(agent.blueprint.unwrap_or_default())?;
    check_orchestrator(arguments, &blueprint)?;
    let parameters = read_parameters(arguments, &blueprint)?;
    let request = request(arguments, name.clone(), parameters, SchemaSource::read(arguments)?)?;
    let coordinator = Coordinator::Remote(client.clone());
    let created = coordinator.submit(request).await?;
    let line = ProgressLine::new(output::is_terminal());
    let outcome = tokio::select! {
        outcome = coordinator.wait_until_idle(&created.run_id) => outcome,
        never = follow(&client, &created.session_id, name, &line) => match never {},
        interrupted = signals::interrupted() => {
            interrupted?;
            coordinator.stop_tree(&created.run_id).await
        }
    };
    line.clear();
    let ended = report::EndedRun::load(&coordinator, &created.run_id, outcome?).await?;
    report::show(arguments, &ended, &std::env::current_dir()?)
}

/// Shows the session's events until the stream ends.
async fn follow(client: &Client, session: &SessionId, agent: &str, line: &ProgressLine) -> Infallible {
    if let Ok(stream) = client.stream(&format!("sessions/{session}/events/stream"), None).await {
        show(stream, agent, line).await;
    }
    // A lost stream must not end the wait for the run.
    std::future::pending().await
}

async fn show(mut stream: EventStream, agent: &str, line: &ProgressLine) {
    while let Some(data) = stream.next().await {
        if let Ok(event) = serde_json::from_str::<Event>(&data) {
            line.event(agent, &event.body);
        }
    }
}
