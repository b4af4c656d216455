//! Agents that know each other, and the one server that plays them all.

use std::sync::Arc;

use serde_json::{Value, json};
use slipform_runner::{Job, LadderRung, Prepared, ResourceProvider, RunContext};
use slipform_testkit::{Recorded, ScriptedServer, Step};
use slipform_types::{BackendKind, Blueprint, StructuredOutput};

use crate::support::contexts::rung;
use crate::support::parts::{Played, with_tools};

type Maker = Box<dyn Fn(&str) -> Vec<Arc<Played>> + Send + Sync>;

/// Agents, and what a runner has to work with for each.
pub(crate) struct Fixture {
    pub(crate) agents: Vec<(Blueprint, Vec<LadderRung>)>,
    pub(crate) project_dir: String,
    /// Makes the tools of an agent, where a test brings some.
    tools: Maker,
}

/// An agent that is told its name, and may delegate to these.
pub(crate) fn agent(name: &str, agents: &[&str], more: Value) -> Value {
    let mut agent = json!({"name": name, "system_prompt": format!("You are {name}."), "agents": agents});
    agent.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
    agent
}

/// A model that plays every agent by its name.
pub(crate) fn playing(mut play: impl FnMut(&str, &Recorded) -> Step + Send + 'static) -> ScriptedServer {
    ScriptedServer::respond(move |request, _| {
        let prompt = request.prompt();
        let name = prompt.strip_prefix("You are ").and_then(|rest| rest.split('.').next()).unwrap();
        play(name, request)
    })
}

/// The requests that were made for an agent.
pub(crate) fn asked(server: &ScriptedServer, name: &str) -> Vec<Arc<Recorded>> {
    let is_its = |request: &Arc<Recorded>| request.prompt().starts_with(&format!("You are {name}."));
    server.requests().into_iter().filter(is_its).collect()
}

/// A ladder of one rung, this server.
pub(crate) fn on(server: &ScriptedServer) -> Vec<LadderRung> {
    vec![rung("default", BackendKind::OpenAi, server, StructuredOutput::Auto)]
}

impl Fixture {
    /// Agents that are all played by one server.
    pub(crate) fn new(agents: &[Value], server: &ScriptedServer) -> Arc<Fixture> {
        let ladder = on(server);
        Fixture::of(agents.iter().map(|agent| (agent.clone(), ladder.clone())).collect())
    }

    pub(crate) fn of(agents: Vec<(Value, Vec<LadderRung>)>) -> Arc<Fixture> {
        Arc::new(Fixture::with(agents, ".", |_| Vec::new()))
    }

    /// Agents in a project, with tools of the test's own.
    pub(crate) fn with(
        agents: Vec<(Value, Vec<LadderRung>)>,
        project_dir: &str,
        tools: impl Fn(&str) -> Vec<Arc<Played>> + Send + Sync + 'static,
    ) -> Fixture {
        let read = |(agent, ladder)| (serde_json::from_value(agent).unwrap(), ladder);
        Fixture {
            agents: agents.into_iter().map(read).collect(),
            project_dir: project_dir.to_owned(),
            tools: Box::new(tools),
        }
    }

    fn claim(&self, job: &Job) -> RunContext {
        let name = &job.blueprint.name;
        let (_, ladder) = self.agents.iter().find(|(agent, _)| agent.name == *name).unwrap();
        let claim = RunContext { ladder: ladder.clone(), ..job.context() };
        match (self.tools)(name) {
            tools if tools.is_empty() => claim,
            tools => with_tools(claim, &tools),
        }
    }
}

impl ResourceProvider for Fixture {
    fn prepare<'a>(&'a self, job: &'a Job) -> Prepared<'a> {
        Box::pin(std::future::ready(Ok(self.claim(job))))
    }
}
