//! Agents that delegate to each other, and the server that plays all of them.

use std::sync::Arc;

use serde_json::{Value, json};
use slipform_api::Assignment;
use slipform_runner::{LadderRung, Prepared, ResourceProvider, Resources};
use slipform_testkit::{Recorded, ScriptedServer, Step};
use slipform_types::{BackendKind, Blueprint, StructuredOutput};

use crate::support::contexts::{resources, rung};
use crate::support::fakes::{FakeTool, toolbox};

type Maker = Box<dyn Fn(&str) -> Vec<Arc<FakeTool>> + Send + Sync>;

/// Agents with their ladders, project folder and tools. It provides the resources of their runs.
pub(crate) struct Fixture {
    pub(crate) agents: Vec<(Blueprint, Vec<LadderRung>)>,
    pub(crate) project_dir: String,
    /// Creates the fake tools of an agent.
    tools: Maker,
}

/// Returns an agent whose prompt contains its name, and which may delegate to these.
pub(crate) fn agent(name: &str, agents: &[&str], more: Value) -> Value {
    let mut agent = json!({"name": name, "system_prompt": format!("You are {name}."), "agents": agents});
    agent.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
    agent
}

/// Starts a model that plays every agent by the name in its prompt.
pub(crate) fn serve_agents(mut step: impl FnMut(&str, &Recorded) -> Step + Send + 'static) -> ScriptedServer {
    ScriptedServer::respond(move |request, _| {
        let prompt = request.prompt();
        let name = prompt.strip_prefix("You are ").and_then(|rest| rest.split('.').next()).unwrap();
        step(name, request)
    })
}

/// Returns the requests that were made for an agent.
pub(crate) fn requests_of(server: &ScriptedServer, name: &str) -> Vec<Arc<Recorded>> {
    let is_its = |request: &Arc<Recorded>| request.prompt().starts_with(&format!("You are {name}."));
    server.requests().into_iter().filter(is_its).collect()
}

/// Returns a ladder whose only rung is this server.
pub(crate) fn ladder_of(server: &ScriptedServer) -> Vec<LadderRung> {
    vec![rung("default", BackendKind::OpenAi, server, StructuredOutput::Auto)]
}

impl Fixture {
    /// Creates agents that one server plays.
    pub(crate) fn new(agents: &[Value], server: &ScriptedServer) -> Arc<Fixture> {
        let ladder = ladder_of(server);
        Fixture::of(agents.iter().map(|agent| (agent.clone(), ladder.clone())).collect())
    }

    pub(crate) fn of(agents: Vec<(Value, Vec<LadderRung>)>) -> Arc<Fixture> {
        Arc::new(Fixture::with(agents, ".", |_| Vec::new()))
    }

    /// Creates agents in a project folder, with fake tools.
    pub(crate) fn with(
        agents: Vec<(Value, Vec<LadderRung>)>,
        project_dir: &str,
        tools: impl Fn(&str) -> Vec<Arc<FakeTool>> + Send + Sync + 'static,
    ) -> Fixture {
        let read = |(agent, ladder)| (serde_json::from_value(agent).unwrap(), ladder);
        Fixture {
            agents: agents.into_iter().map(read).collect(),
            project_dir: project_dir.to_owned(),
            tools: Box::new(tools),
        }
    }

    fn resources(&self, assignment: &Assignment) -> Resources {
        let name = &assignment.journal.start.blueprint.name;
        let (_, ladder) = self.agents.iter().find(|(agent, _)| agent.name == *name).unwrap();
        let resources = Resources { ladder: ladder.clone(), ..resources(assignment) };
        match (self.tools)(name) {
            tools if tools.is_empty() => resources,
            tools => Resources { tools: toolbox(&tools), ..resources },
        }
    }
}

impl ResourceProvider for Fixture {
    fn prepare<'a>(&'a self, assignment: &'a Assignment) -> Prepared<'a> {
        Box::pin(std::future::ready(Ok(self.resources(assignment))))
    }
}
