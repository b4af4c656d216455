//! Agents: from files, over the API, and those that ship.

use std::sync::Arc;

use serde_json::{Value, json};
use slipform_agents::{Checked, Problems, check, parameters, shipped, shipped_names};
use slipform_api::{AgentView, Code, Error, Verdict};
use slipform_store::{RegistryEntry, RegistryKind};
use slipform_types::{ALL_AGENTS, AgentCard, AgentType, Blueprint, McpServer, timestamp};

use super::{App, errors, is_verb};

impl App {
    /// Throttle agent, by name.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn agents(&self) -> Result<Vec<AgentView>, Error> {
        let files = self.registry().files();
        let mut views: Vec<AgentView> =
            files.agents.iter().map(|(name, file)| from_file(name, file)).collect();
        for named in self.store().entries(RegistryKind::Agents).await.map_err(errors::store)? {
            if !files.agents.contains_key(&named.name) {
                views.push(from_store(named));
            }
        }
        for name in shipped_names() {
            if !views.iter().any(|view| view.name == name) {
                views.extend(from_program(name));
            }
        }
        views.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(views)
    }

    /// An agent.
    ///
    /// # Errors
    /// When there is none.
    pub async fn agent(&self, name: &str) -> Result<AgentView, Error> {
        if let Some(file) = self.registry().files().agents.get(name) {
            return Ok(from_file(name, file));
        }
        let named = self.store().entry(RegistryKind::Agents, name).await.map_err(errors::store)?;
        match named.map(from_store).or_else(|| from_program(name)) {
            Some(view) => Ok(view),
            None => Err(self.no_agent(name).await?),
        }
    }

    /// The blueprint of an agent that is in force.
    pub(super) async fn blueprint(&self, name: &str) -> Result<Arc<Blueprint>, Error> {
        if let Some(file) = self.registry().files().agents.get(name) {
            return file.in_force.clone().ok_or_else(|| {
                let message = format!("{} cannot be used: {}", file.path.display(), file.problems.join("; "));
                Error::new(Code::InvalidAgent, message).with(json!({"problems": file.problems}))
            });
        }
        let view = self.agent(name).await?;
        let blueprint = view.blueprint.unwrap_or_default();
        match serde_json::from_value(blueprint) {
            Ok(blueprint) => Ok(Arc::new(blueprint)),
            Err(error) => {
                Err(Error::new(Code::Internal, format!("the agent '{name}' cannot be read: {error}")))
            }
        }
    }

    /// What an agent is told of those that it may delegate to. One that is gone by now is left out.
    pub(super) async fn cards(&self, blueprint: &Blueprint) -> Result<Vec<AgentCard>, Error> {
        let mut cards: Vec<AgentCard> = Vec::new();
        for name in self.team(blueprint).await? {
            if name == blueprint.name || cards.iter().any(|card| card.name == name) {
                continue;
            }
            match self.blueprint(&name).await {
                // Whoever plans can give others nothing but a prompt.
                Ok(other) if blueprint.kind == AgentType::Orchestrator && !takes_prompt(&other) => {}
                Ok(other) => cards.push(AgentCard {
                    name: other.name.clone(),
                    description: other.description.clone(),
                    parameters_schema: other.parameters_schema.clone(),
                    has_output_schema: other.output_schema.is_some(),
                }),
                Err(error) if error.code == Code::Unavailable => return Err(error),
                Err(_) => {}
            }
        }
        Ok(cards)
    }

    /// Returns the commands that agents start, their own and those of their MCP servers.
    pub(super) async fn commands(&self) -> Result<Vec<Vec<String>>, Error> {
        let mut commands = Vec::new();
        for view in self.agents().await?.into_iter().filter(|view| view.source != "shipped") {
            let Ok(agent) = serde_json::from_value::<Blueprint>(view.blueprint.unwrap_or_default()) else {
                continue;
            };
            let servers = agent.mcp_servers.into_values().filter_map(|server| match server {
                McpServer::Command { command } => Some(command),
                McpServer::Url { .. } => None,
            });
            commands
                .extend(std::iter::once(agent.command).chain(servers).filter(|command| !command.is_empty()));
        }
        Ok(commands)
    }

    /// The names of those that an agent may delegate to, with the project's where it names everybody.
    async fn team(&self, blueprint: &Blueprint) -> Result<Vec<String>, Error> {
        let mut team: Vec<String> = Vec::new();
        for name in &blueprint.agents {
            if name != ALL_AGENTS {
                team.push(name.clone());
                continue;
            }
            let own = self.agents().await?.into_iter().filter(|view| view.source != "shipped");
            let takes_part = |view: &AgentView| {
                let definition = view.blueprint.clone().unwrap_or_default();
                let Ok(other) = serde_json::from_value::<Blueprint>(definition) else { return false };
                // A team does not call another one by chance, nor anyone who cannot be told what to do in words.
                other.kind != AgentType::Orchestrator && takes_prompt(&other)
            };
            team.extend(own.filter(takes_part).map(|view| view.name));
        }
        Ok(team)
    }

    /// Saves a new agent.
    ///
    /// # Errors
    /// When it cannot be used, or the name is taken.
    pub async fn create_agent(&self, definition: &Value) -> Result<AgentView, Error> {
        let Checked { blueprint, .. } = check(definition, None).map_err(|problems| invalid(&problems))?;
        self.authorize_agent(&blueprint)?;
        if is_verb(&blueprint.name) {
            let message = format!(
                "no agent can be called '{}': the address of that name checks agents; use another name",
                blueprint.name
            );
            return Err(Error::new(Code::InvalidAgent, message));
        }
        self.refuse_file(&blueprint.name)?;
        let (name, text) = (blueprint.name.clone(), text_of(&blueprint)?);
        match self.store().add(RegistryKind::Agents, &name, &text).await.map_err(errors::store)? {
            true => self.agent(&name).await,
            false => {
                let message =
                    format!("there is an agent '{name}' already; change it with PATCH /agents/{name}");
                Err(Error::new(Code::AgentExists, message))
            }
        }
    }

    /// Changes an agent: the keys that are sent replace those that it has, and null takes one away.
    ///
    /// # Errors
    /// When there is none, a file describes it, or the result cannot be used.
    pub async fn change_agent(&self, name: &str, changes: &Value) -> Result<AgentView, Error> {
        self.refuse_file(name)?;
        let Some(named) = self.store().entry(RegistryKind::Agents, name).await.map_err(errors::store)?
        else {
            return Err(self.not_changeable(name).await?);
        };
        let Value::Object(changes) = changes else {
            return Err(Error::new(Code::InvalidRequest, "send an object with the keys to change"));
        };
        let mut definition: Value = serde_json::from_str(&named.text).unwrap_or_default();
        for (key, value) in changes {
            match (value, definition.as_object_mut()) {
                (Value::Null, Some(members)) => drop(members.shift_remove(key)),
                (value, Some(members)) => drop(members.insert(key.clone(), value.clone())),
                (_, None) => {}
            }
        }
        let Checked { blueprint, .. } =
            check(&definition, Some(name)).map_err(|problems| invalid(&problems))?;
        if blueprint.name != name {
            let message = format!("an agent keeps its name; '{}' would be another one", blueprint.name);
            return Err(Error::new(Code::InvalidRequest, message));
        }
        // What it has been needs the same right as what it becomes: a prompt is enough to turn its programs on others.
        if let Ok(before) = serde_json::from_str(&named.text) {
            self.authorize_agent(&before)?;
        }
        self.authorize_agent(&blueprint)?;
        let text = text_of(&blueprint)?;
        match self.store().replace(RegistryKind::Agents, name, &text).await.map_err(errors::store)? {
            true => self.agent(name).await,
            false => Err(self.no_agent(name).await?),
        }
    }

    /// Deletes an agent. Runs that have begun go on with it.
    ///
    /// # Errors
    /// When there is none, or a file describes it.
    pub async fn delete_agent(&self, name: &str) -> Result<(), Error> {
        self.refuse_file(name)?;
        let saved = self.store().entry(RegistryKind::Agents, name).await.map_err(errors::store)?;
        if let Some(blueprint) = saved.and_then(|named| serde_json::from_str(&named.text).ok()) {
            self.authorize_agent(&blueprint)?;
        }
        match self.store().remove(RegistryKind::Agents, name).await.map_err(errors::store)? {
            true => Ok(()),
            false => Err(self.not_changeable(name).await?),
        }
    }

    /// Checks an agent without saving it.
    pub fn validate_agent(&self, definition: &Value) -> Verdict {
        match check(definition, None) {
            Ok(checked) => {
                let warnings = checked.warnings.iter().map(|warning| json!(warning)).collect();
                Verdict { valid: true, errors: Vec::new(), warnings }
            }
            Err(problems) => Verdict {
                valid: false,
                errors: problems.list.iter().map(|problem| json!(problem)).collect(),
                warnings: Vec::new(),
            },
        }
    }

    fn refuse_file(&self, name: &str) -> Result<(), Error> {
        match self.registry().files().agents.get(name) {
            None => Ok(()),
            Some(file) => {
                let message =
                    format!("the agent '{name}' is described by {}; change that", file.path.display());
                Err(Error::new(Code::ManagedByFile, message))
            }
        }
    }

    /// Why an agent that is not in the store cannot be changed.
    async fn not_changeable(&self, name: &str) -> Result<Error, Error> {
        if shipped(name).is_some() {
            let message =
                format!("the agent '{name}' comes with the program; POST /agents one of the same name");
            return Ok(Error::new(Code::ManagedByFile, message));
        }
        self.no_agent(name).await
    }

    async fn no_agent(&self, name: &str) -> Result<Error, Error> {
        let known: Vec<String> = self.agents().await?.into_iter().map(|view| view.name).collect();
        Ok(errors::no_agent(name, &known))
    }
}

/// Whether a prompt alone is enough to start an agent.
fn takes_prompt(blueprint: &Blueprint) -> bool {
    parameters::check(blueprint, &json!({"prompt": "Go."})).is_ok()
}

fn text_of(blueprint: &Blueprint) -> Result<String, Error> {
    serde_json::to_string(blueprint).map_err(|error| Error::new(Code::Internal, error.to_string()))
}

fn invalid(problems: &Problems) -> Error {
    let words: Vec<String> = problems.list.iter().map(ToString::to_string).collect();
    Error::new(Code::InvalidAgent, format!("the agent cannot be used: {}", words.join("; ")))
        .with(json!({"problems": problems.list}))
}

fn from_file(name: &str, file: &crate::registry::FromFile<Arc<Blueprint>>) -> AgentView {
    AgentView {
        name: name.to_owned(),
        source: "file".to_owned(),
        path: Some(file.path.display().to_string()),
        problems: file.problems.clone(),
        blueprint: file.in_force.as_ref().map(|blueprint| json!(&**blueprint)),
        created_at: None,
        updated_at: None,
    }
}

fn from_store(named: RegistryEntry) -> AgentView {
    AgentView {
        name: named.name,
        source: "api".to_owned(),
        path: None,
        problems: Vec::new(),
        blueprint: serde_json::from_str(&named.text).ok(),
        created_at: Some(timestamp(named.created_at)),
        updated_at: Some(timestamp(named.updated_at)),
    }
}

fn from_program(name: &str) -> Option<AgentView> {
    let checked = shipped(name)?.result.ok()?;
    Some(AgentView {
        name: name.to_owned(),
        source: "shipped".to_owned(),
        path: None,
        problems: Vec::new(),
        blueprint: Some(json!(checked.blueprint)),
        created_at: None,
        updated_at: None,
    })
}
