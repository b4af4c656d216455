//! Agents that know each other, the desk that admits them, and the one server that plays them all.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use formwork_agents::contract::{ContractRequest, EnvironmentDefaults, resolve};
use formwork_agents::parameters;
use formwork_runner::{Admitted, Claim, Desk, Local, Progress, Rung, Stop, Submission};
use formwork_testkit::{Recorded, ScriptedServer, Step};
use formwork_types::{
    AgentCard, BackendKind, Blueprint, Body, Contract, Event, Outcome, RunId, RunType, SessionId,
    StructuredOutput,
};
use serde_json::{Value, json};

use crate::claims::{clock, rung};
use crate::parts::{Played, with_tools};

/// How long a tree of runs may take that ends by itself; beyond it something waits for what never comes.
const PATIENCE: Duration = Duration::from_secs(60);

type Maker = Box<dyn Fn(&str) -> Vec<Arc<Played>> + Send + Sync>;

/// The desk: it knows agents, numbers sessions from 1 and runs from 129.
pub(crate) struct Agency {
    agents: Vec<(Blueprint, Vec<Rung>)>,
    /// What later runs of a session go on with.
    contracts: Mutex<HashMap<SessionId, Option<Arc<Contract>>>>,
    project_dir: String,
    /// Makes the tools of an agent, where a test brings some.
    tools: Maker,
    sessions_made: AtomicU8,
    runs_made: AtomicU8,
}

pub(crate) fn session(number: u8) -> SessionId {
    SessionId::from_random([number; 6])
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
pub(crate) fn on(server: &ScriptedServer) -> Vec<Rung> {
    vec![rung("default", BackendKind::OpenAi, server, StructuredOutput::Auto)]
}

impl Agency {
    /// Agents that are all played by one server.
    pub(crate) fn new(agents: &[Value], server: &ScriptedServer) -> Arc<Agency> {
        let ladder = on(server);
        Agency::of(agents.iter().map(|agent| (agent.clone(), ladder.clone())).collect())
    }

    pub(crate) fn of(agents: Vec<(Value, Vec<Rung>)>) -> Arc<Agency> {
        Arc::new(Agency::with(agents, ".", |_| Vec::new()))
    }

    /// Agents in a project, with tools of the test's own.
    pub(crate) fn with(
        agents: Vec<(Value, Vec<Rung>)>,
        project_dir: &str,
        tools: impl Fn(&str) -> Vec<Arc<Played>> + Send + Sync + 'static,
    ) -> Agency {
        let read = |(agent, ladder)| (serde_json::from_value(agent).unwrap(), ladder);
        Agency {
            agents: agents.into_iter().map(read).collect(),
            contracts: Mutex::default(),
            project_dir: project_dir.to_owned(),
            tools: Box::new(tools),
            sessions_made: AtomicU8::new(1),
            runs_made: AtomicU8::new(129),
        }
    }

    fn find(&self, name: &str) -> Option<&(Blueprint, Vec<Rung>)> {
        self.agents.iter().find(|(agent, _)| agent.name == name)
    }

    pub(crate) fn claim(&self, submission: Submission) -> Result<Claim, String> {
        let name = &submission.agent_name;
        let (agent, ladder) = self.find(name).ok_or_else(|| format!("there is no agent '{name}'"))?;
        let request = ContractRequest { schema: submission.output_schema, ..ContractRequest::default() };
        let by_request = || {
            let contract = resolve(agent, &request, &EnvironmentDefaults::default());
            contract.map(|contract| contract.map(Arc::new)).map_err(|error| error.to_string())
        };
        let (session_id, run_type, contract, input) = match submission.session_id {
            Some(id) => {
                let kept = self.contracts.lock().unwrap()[&id].clone();
                let contract = if request.schema.is_some() { by_request()? } else { kept };
                let input = submission.parameters["prompt"].as_str().unwrap().to_owned();
                (id, RunType::ResumeSession, contract, input)
            }
            None => {
                parameters::check(agent, &submission.parameters).map_err(|invalid| {
                    let errors: Vec<String> =
                        invalid.validation_errors.iter().map(ToString::to_string).collect();
                    format!("the agent '{name}' does not take these parameters: {}", errors.join("; "))
                })?;
                let id = session(self.sessions_made.fetch_add(1, Ordering::SeqCst));
                let input = parameters::inputs_text(agent, &submission.parameters);
                (id, RunType::StartSession, by_request()?, input)
            }
        };
        self.contracts.lock().unwrap().insert(session_id.clone(), contract.clone());
        let card = |name: &String| AgentCard {
            name: name.clone(),
            parameters_schema: self.find(name).and_then(|(agent, _)| agent.parameters_schema.clone()),
            ..AgentCard::default()
        };
        let run_id = RunId::from_random([self.runs_made.fetch_add(1, Ordering::SeqCst); 6]);
        let tools = (self.tools)(name);
        let claim = Claim {
            run_type,
            contract,
            parameters: submission.parameters,
            input,
            ladder: ladder.clone(),
            agents: agent.agents.iter().map(card).collect(),
            project_dir: self.project_dir.clone(),
            ..Claim::new(session_id, run_id, agent.clone().into())
        };
        Ok(if tools.is_empty() { claim } else { with_tools(claim, &tools) })
    }

    /// A claim of a session of this agent.
    pub(crate) fn start(&self, name: &str, prompt: &str) -> Claim {
        let parameters = json!({"prompt": prompt});
        let submission = Submission { agent_name: name.to_owned(), parameters, ..Submission::default() };
        self.claim(submission).unwrap()
    }
}

impl Desk for Agency {
    fn admit(&self, submission: Submission) -> Admitted<'_> {
        Box::pin(std::future::ready(self.claim(submission)))
    }
}

/// A tree of runs that has ended.
pub(crate) struct Ended {
    pub(crate) outcome: Outcome,
    pub(crate) events: Vec<Event>,
}

impl Ended {
    /// How the runs of a session ended.
    pub(crate) fn statuses(&self, session: &SessionId) -> Vec<String> {
        let ends = self.events.iter().filter(|event| event.session_id == *session);
        ends.filter_map(|event| match &event.body {
            Body::RunCompleted { status, .. } => Some(format!("{status:?}").to_lowercase()),
            _ => None,
        })
        .collect()
    }
}

/// Performs a run of an agent and all that comes of it.
pub(crate) async fn perform(agency: &Arc<Agency>, name: &str, prompt: &str) -> Ended {
    perform_watched(agency, (name, prompt), &Stop::default(), Arc::new(())).await
}

pub(crate) async fn perform_watched(
    agency: &Arc<Agency>,
    (name, prompt): (&str, &str),
    stop: &Stop,
    progress: Arc<dyn Progress>,
) -> Ended {
    let local = Arc::new(Local::new(clock(), agency.clone()));
    let running = local.run(agency.start(name, prompt), stop, &progress);
    let ended = tokio::time::timeout(PATIENCE, running).await.expect("everything ends");
    let (_, outcome) = ended.unwrap();
    Ended { outcome, events: local.events() }
}
