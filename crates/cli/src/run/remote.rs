//! A run at a coordinator elsewhere.

use std::convert::Infallible;

use anyhow::{Result, bail};
use slipform_api::{AgentView, Client, EventStream};
use slipform_types::{Blueprint, Event, SessionId};

use super::parameters::read_parameters;
use super::progress_line::ProgressLine;
use super::{SchemaSource, check_team, report, request};
use crate::arguments::Run;
use crate::coordinator::Coordinator;
use crate::exit::Exit;
use crate::{output, signals};

pub(super) async fn run(arguments: &Run, client: Client) -> Result<Exit> {
    if arguments.place.backend.is_some() {
        bail!("--backend is for runs in this process: a coordinator's runners have their own backends");
    }
    let name = &arguments.agent;
    if name.contains(std::path::MAIN_SEPARATOR) || name.contains('.') {
        bail!(
            "a coordinator knows agents by name; add '{name}' to its agents, or run it here without --server"
        );
    }
    let agent: AgentView = client.get(&format!("agents/{name}")).await?;
    let blueprint: Blueprint = serde_json::from_value(agent.blueprint.unwrap_or_default())?;
    check_team(arguments, &blueprint)?;
    let parameters = read_parameters(arguments, &blueprint)?;
    let request = request(arguments, name.clone(), parameters, SchemaSource::read(arguments)?)?;
    let coordinator = Coordinator::Remote(client.clone());
    let created = coordinator.submit(request).await?;
    let line = ProgressLine::new(output::is_terminal());
    let settled = tokio::select! {
        settled = coordinator.wait_until_idle(&created.run_id) => settled,
        never = follow(&client, &created.session_id, name, &line) => match never {},
        interrupted = signals::interrupted() => {
            interrupted?;
            coordinator.stop_tree(&created.run_id).await
        }
    };
    line.clear();
    let ended = report::Ended::of(&coordinator, &created.run_id, settled?).await?;
    report::show(arguments, &ended, &std::env::current_dir()?)
}

/// Shows what happens, for as long as somebody tells.
async fn follow(client: &Client, session: &SessionId, agent: &str, line: &ProgressLine) -> Infallible {
    if let Ok(stream) = client.stream(&format!("sessions/{session}/events/stream"), None).await {
        show(stream, agent, line).await;
    }
    // That nothing more can be shown is no reason to lose the run.
    std::future::pending().await
}

async fn show(mut stream: EventStream, agent: &str, line: &ProgressLine) {
    while let Some(data) = stream.next().await {
        if let Ok(event) = serde_json::from_str::<Event>(&data) {
            line.event(agent, &event.body);
        }
    }
}
