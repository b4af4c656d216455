//! A run at a coordinator elsewhere.

use anyhow::{Result, bail};
use formwork_api::{AgentView, Client};
use formwork_types::{Blueprint, Event, SessionId};

use super::line::Line;
use super::{given, report, request};
use crate::arguments::Run;
use crate::desk::Desk;
use crate::exit::Exit;
use crate::{output, signals};

pub(super) async fn run(arguments: &Run, client: Client) -> Result<Exit> {
    if arguments.backend.is_some() {
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
    let parameters = given::parameters(arguments, &blueprint)?;
    let request = request(arguments, name.clone(), parameters)?;
    let desk = Desk::There(client.clone());
    let created = desk.submit(request).await?;
    let line = Line::new(output::is_terminal());
    let settled = tokio::select! {
        settled = desk.settle(&created.session_id) => settled,
        () = follow(&client, &created.session_id, name, &line) => desk.settle(&created.session_id).await,
        interrupted = signals::interrupted() => {
            interrupted?;
            desk.stop_session(&created.session_id).await?;
            desk.settle(&created.session_id).await
        }
    };
    line.clear();
    let ended = report::Ended::of(&desk, settled?).await?;
    report::show(arguments, &ended, &std::env::current_dir()?)
}

/// Shows what happens. That it cannot be shown is no reason to lose the run.
async fn follow(client: &Client, session: &SessionId, agent: &str, line: &Line) {
    let Ok(mut stream) = client.stream(&format!("sessions/{session}/events/stream"), None).await else {
        return;
    };
    let mut text = Vec::new();
    while let Ok(Some(chunk)) = stream.chunk().await {
        text.extend_from_slice(&chunk);
        while let Some(end) = text.iter().position(|byte| *byte == b'\n') {
            let row: Vec<u8> = text.drain(..=end).collect();
            let event =
                row.strip_prefix(b"data:").and_then(|data| serde_json::from_slice::<Event>(data).ok());
            if let Some(event) = event {
                line.event(agent, &event.body);
            }
        }
    }
}
