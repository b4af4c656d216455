//! Agents from files, from the API, and shipped with the program.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use sha2::{Digest as _, Sha256};
use slipform_agents::{Checked, Problems, check, parameters, shipped, shipped_names};
use slipform_api::{AgentView, Code, Error, Problem, Verdict};
use slipform_store::{RegistryEntry, RegistryKind};
use slipform_types::{ALL_AGENTS, AgentCard, AgentType, Blueprint, McpServer, timestamp, with_hex};

use super::{App, errors, is_reserved_name};
use crate::registry::{FromFile, problem};

impl App {
    /// Returns the agents that the caller may run, sorted by name.
    ///
    /// # Errors
    /// Fails if the store is unavailable.
    pub async fn agents(&self) -> Result<Vec<AgentView>, Error> {
        let mut views = self.all_agents().await?;
        views.retain(|view| self.authority.may_run(&view.name));
        Ok(views)
    }

    async fn all_agents(&self) -> Result<Vec<AgentView>, Error> {
        let files = self.registry().files();
        let mut views: Vec<AgentView> =
            files.agents.iter().map(|(name, file)| from_file(name, file)).collect();
        let mut saved = self.store().entries(RegistryKind::Agents).await.map_err(errors::store)?;
        saved.retain(|named| !files.agents.contains_key(&named.name));
        if !saved.is_empty() {
            let read = || saved.into_iter().map(from_store).collect::<Vec<_>>();
            views.extend(self.inner.check_pool.run(read).await?);
        }
        for name in shipped_names() {
            if !views.iter().any(|view| view.name == name) {
                views.extend(from_shipped(name));
            }
        }
        views.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(views)
    }

    /// Returns an agent.
    ///
    /// # Errors
    /// Returns `AgentNotFound` for an unknown name, and `Forbidden` if the token is limited to other agents.
    pub async fn agent(&self, name: &str) -> Result<AgentView, Error> {
        self.authorize_agent_name(name)?;
        self.agent_view(name).await
    }

    async fn agent_view(&self, name: &str) -> Result<AgentView, Error> {
        if let Some(file) = self.registry().files().agents.get(name) {
            return Ok(from_file(name, file));
        }
        let named = self.store().entry(RegistryKind::Agents, name).await.map_err(errors::store)?;
        let saved = match named {
            Some(named) => Some(self.inner.check_pool.run(|| from_store(named)).await?),
            None => None,
        };
        match saved.or_else(|| from_shipped(name)) {
            Some(view) => Ok(view),
            None => Err(self.no_agent(name).await?),
        }
    }

    /// Returns the blueprint that is in use for an agent.
    pub(super) async fn blueprint(&self, name: &str) -> Result<Arc<Blueprint>, Error> {
        if let Some(file) = self.registry().files().agents.get(name) {
            let blueprint = file.in_force.clone().ok_or_else(|| {
                let path = file.path.display().to_string();
                let problems: Vec<String> = file.problems.iter().map(ToString::to_string).collect();
                let message = format!("agent file {path} is invalid: {}", problems.join("; "));
                Error::new(Code::InvalidAgent, message).with(json!({"path": path, "problems": file.problems}))
            })?;
            return self.with_named_schemas(blueprint).await;
        }
        let saved = self.store().entry(RegistryKind::Agents, name).await.map_err(errors::store)?;
        let blueprint = match (saved, shipped(name).and_then(|shipped| shipped.result.ok())) {
            (Some(named), _) => serde_json::from_str(&named.text),
            (None, Some(checked)) => Ok(checked.blueprint),
            (None, None) => return Err(self.no_agent(name).await?),
        };
        match blueprint {
            Ok(blueprint) => self.with_named_schemas(Arc::new(blueprint)).await,
            Err(error) => {
                Err(Error::new(Code::Internal, format!("cannot parse the stored agent `{name}`: {error}")))
            }
        }
    }

    /// Adds the registered schemas that a blueprint names.
    async fn with_named_schemas(&self, blueprint: Arc<Blueprint>) -> Result<Arc<Blueprint>, Error> {
        let (own, default) = (&blueprint.output_schema_name, &blueprint.default_output_schema_name);
        let (own, default) = match (own, default) {
            (None, None) => return Ok(blueprint),
            (own, default) => (own.clone(), default.clone()),
        };
        let mut blueprint = (*blueprint).clone();
        if let Some(name) = own {
            blueprint.output_schema = Some(self.registered_schema(&name).await?);
        }
        if let Some(name) = default {
            blueprint.default_output_schema = Some(self.registered_schema(&name).await?);
        }
        Ok(Arc::new(blueprint))
    }

    /// Returns the descriptions of the agents that a blueprint may delegate to. Agents that no longer exist
    /// are omitted.
    pub(super) async fn cards(&self, blueprint: &Blueprint) -> Result<Vec<AgentCard>, Error> {
        let mut cards: Vec<AgentCard> = Vec::new();
        for name in self.delegate_names(blueprint).await? {
            if name == blueprint.name || cards.iter().any(|card| card.name == name) {
                continue;
            }
            match self.blueprint(&name).await {
                // An orchestrator can only pass a prompt, so agents that need other parameters are omitted.
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
        for view in self.all_agents().await?.into_iter().filter(|view| view.source != "shipped") {
            let Ok(agent) = serde_json::from_value::<Blueprint>(view.blueprint().unwrap_or_default()) else {
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

    /// Returns the names of the agents that a blueprint may delegate to. The wildcard stands for the
    /// project's agents.
    async fn delegate_names(&self, blueprint: &Blueprint) -> Result<Vec<String>, Error> {
        let mut names: Vec<String> = Vec::new();
        for name in &blueprint.agents {
            if name != ALL_AGENTS {
                names.push(name.clone());
                continue;
            }
            let own = self.all_agents().await?.into_iter().filter(|view| view.source != "shipped");
            let takes_part = |view: &AgentView| {
                let definition = view.blueprint().unwrap_or_default();
                let Ok(other) = serde_json::from_value::<Blueprint>(definition) else { return false };
                // The wildcard excludes orchestrators, which could nest teams, and agents that need more than
                // a prompt.
                other.kind != AgentType::Orchestrator && takes_prompt(&other)
            };
            names.extend(own.filter(takes_part).map(|view| view.name));
        }
        Ok(names)
    }

    /// Saves a new agent.
    ///
    /// # Errors
    /// Returns `InvalidAgent`, `AgentExists`, `ManagedByFile` or `Forbidden`.
    pub async fn create_agent(&self, definition: &Value) -> Result<AgentView, Error> {
        let Checked { blueprint, .. } = self
            .check_agent(without_view_members(definition), None)
            .await?
            .map_err(|problems| invalid(&problems))?;
        self.authorize_agent(&blueprint)?;
        self.check_named_schemas(&blueprint).await?;
        if is_reserved_name(&blueprint.name) {
            let message = format!(
                "`{}` is reserved for the route that checks agents; use another name",
                blueprint.name
            );
            return Err(Error::new(Code::InvalidAgent, message));
        }
        self.refuse_managed_by_file(&blueprint.name)?;
        let (name, text) = (blueprint.name.clone(), text_of(&blueprint)?);
        if self.store().add(RegistryKind::Agents, &name, &text).await.map_err(errors::store)? {
            self.agent(&name).await
        } else {
            let message = format!("agent `{name}` already exists; change it with PATCH /agents/{name}");
            Err(Error::new(Code::AgentExists, message))
        }
    }

    /// Refuses an agent that names an unknown schema.
    async fn check_named_schemas(&self, blueprint: &Blueprint) -> Result<(), Error> {
        let named = [
            ("$.output_schema_name", &blueprint.output_schema_name),
            ("$.default_output_schema_name", &blueprint.default_output_schema_name),
        ];
        for (path, name) in named {
            let Some(name) = name else { continue };
            match self.registered_schema(name).await {
                Err(error) if error.code.status() < 500 => {
                    let problem = Problem { path: path.to_owned(), message: error.message, line: None };
                    return Err(Error::new(Code::InvalidAgent, format!("invalid agent: {problem}"))
                        .with(json!({"problems": [problem]})));
                }
                other => drop(other?),
            }
        }
        Ok(())
    }

    /// Changes an agent by a JSON Merge Patch (RFC 7396): objects are merged, null removes a key, and other values
    /// replace. `version` is the version that the caller has seen; another one refuses the change.
    ///
    /// # Errors
    /// Returns `AgentNotFound`, `ManagedByFile`, `Forbidden`, `PreconditionFailed`, or `InvalidAgent` if the changed
    /// agent is invalid.
    pub async fn change_agent(
        &self,
        name: &str,
        changes: &Value,
        version: Option<&str>,
    ) -> Result<AgentView, Error> {
        self.refuse_managed_by_file(name)?;
        let changes = without_view_members(changes);
        loop {
            if let Some(view) = self.try_change(name, &changes, version).await? {
                return Ok(view);
            }
        }
    }

    /// Changes an agent; `None` if another request changed it in the meantime.
    async fn try_change(
        &self,
        name: &str,
        changes: &Value,
        version: Option<&str>,
    ) -> Result<Option<AgentView>, Error> {
        let Some(named) = self.store().entry(RegistryKind::Agents, name).await.map_err(errors::store)? else {
            return Err(self.not_changeable(name).await?);
        };
        if !changes.is_object() {
            let message = "the body must be an object with the keys to change";
            return Err(Error::new(Code::InvalidRequest, message));
        }
        if let Some(version) = version.filter(|version| *version != version_of(&named.text)) {
            let message = format!(
                "agent `{name}` has changed since version {version}; read it again and repeat the change"
            );
            return Err(Error::new(Code::PreconditionFailed, message));
        }
        let mut definition: Value = serde_json::from_str(&named.text).unwrap_or_default();
        merge(&mut definition, changes);
        let checked = self.check_agent(definition, Some(name.to_owned())).await?;
        let Checked { blueprint, .. } = checked.map_err(|problems| invalid(&problems))?;
        if blueprint.name != name {
            let message = format!("cannot rename agent `{name}` to `{}`; create a new agent", blueprint.name);
            return Err(Error::new(Code::InvalidRequest, message));
        }
        // The old version needs authorization as well: changing only the prompt would redirect the programs
        // that it starts.
        if let Ok(before) = serde_json::from_str(&named.text) {
            self.authorize_agent(&before)?;
        }
        self.authorize_agent(&blueprint)?;
        self.check_named_schemas(&blueprint).await?;
        let text = text_of(&blueprint)?;
        let replaced = self.store().replace(RegistryKind::Agents, name, &named.text, &text).await;
        if replaced.map_err(errors::store)? { self.agent(name).await.map(Some) } else { Ok(None) }
    }

    /// Returns the version of a saved agent, for `If-Match`; `None` for other agents.
    ///
    /// # Errors
    /// Fails if the store is unavailable.
    pub async fn agent_version(&self, name: &str) -> Result<Option<String>, Error> {
        if self.registry().files().agents.contains_key(name) {
            return Ok(None);
        }
        let named = self.store().entry(RegistryKind::Agents, name).await.map_err(errors::store)?;
        Ok(named.map(|named| version_of(&named.text)))
    }

    /// Deletes an agent. Existing sessions keep their copy of the blueprint.
    ///
    /// # Errors
    /// Returns `AgentNotFound`, `ManagedByFile` or `Forbidden`.
    pub async fn delete_agent(&self, name: &str) -> Result<(), Error> {
        self.refuse_managed_by_file(name)?;
        let saved = self.store().entry(RegistryKind::Agents, name).await.map_err(errors::store)?;
        if let Some(blueprint) = saved.and_then(|named| serde_json::from_str(&named.text).ok()) {
            self.authorize_agent(&blueprint)?;
        }
        if self.store().remove(RegistryKind::Agents, name).await.map_err(errors::store)? {
            Ok(())
        } else {
            Err(self.not_changeable(name).await?)
        }
    }

    /// Checks a blueprint on the threads for checks, because it compiles the schemas.
    async fn check_agent(
        &self,
        definition: Value,
        name: Option<String>,
    ) -> Result<Result<Checked, Problems>, Error> {
        self.inner.check_pool.run(move || check(&definition, name.as_deref())).await
    }

    /// Checks a blueprint without saving it.
    ///
    /// # Errors
    /// Returns `RateLimited` if too many checks wait.
    pub async fn validate_agent(&self, definition: &Value) -> Result<Verdict, Error> {
        Ok(match self.check_agent(without_view_members(definition), None).await? {
            Ok(checked) => {
                let warnings = checked.warnings.iter().map(problem).collect();
                Verdict { valid: true, errors: Vec::new(), warnings }
            }
            Err(problems) => Verdict {
                valid: false,
                errors: problems.list.iter().map(problem).collect(),
                warnings: Vec::new(),
            },
        })
    }

    fn refuse_managed_by_file(&self, name: &str) -> Result<(), Error> {
        match self.registry().files().agents.get(name) {
            None => Ok(()),
            Some(file) => {
                let message = format!("agent `{name}` is defined by {}; edit that file", file.path.display());
                Err(Error::new(Code::ManagedByFile, message))
            }
        }
    }

    /// Returns the error for changing an agent that is not in the store.
    async fn not_changeable(&self, name: &str) -> Result<Error, Error> {
        if shipped(name).is_some() {
            let message = format!("agent `{name}` comes with the program; override it with POST /agents");
            return Ok(Error::new(Code::ManagedByFile, message));
        }
        self.no_agent(name).await
    }

    async fn no_agent(&self, name: &str) -> Result<Error, Error> {
        Ok(errors::no_agent(name, &self.agent_names().await?))
    }

    /// Returns the names of all agents, those of the project first.
    pub(super) async fn agent_names(&self) -> Result<Vec<String>, Error> {
        let mut agents = self.all_agents().await?;
        agents.sort_by_key(|view| view.source == "shipped");
        Ok(agents.into_iter().map(|view| view.name).collect())
    }
}

/// Whether a prompt alone satisfies the agent's parameters schema.
fn takes_prompt(blueprint: &Blueprint) -> bool {
    parameters::check(blueprint, &json!({"prompt": "Go."})).is_ok()
}

fn text_of(blueprint: &Blueprint) -> Result<String, Error> {
    serde_json::to_string(blueprint).map_err(|error| Error::new(Code::Internal, error.to_string()))
}

fn invalid(problems: &Problems) -> Error {
    let messages: Vec<String> = problems.list.iter().map(ToString::to_string).collect();
    Error::new(Code::InvalidAgent, format!("invalid agent: {}", messages.join("; ")))
        .with(json!({"problems": problems.list}))
}

/// Returns a definition without the members that only views have, so that a view can be sent back.
fn without_view_members(definition: &Value) -> Value {
    let mut definition = definition.clone();
    if let Some(members) = definition.as_object_mut() {
        members.retain(|key, _| !AgentView::OWN_MEMBERS.contains(&key.as_str()));
    }
    definition
}

/// Applies a JSON Merge Patch (RFC 7396).
fn merge(target: &mut Value, patch: &Value) {
    let Value::Object(changes) = patch else {
        target.clone_from(patch);
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    let Some(members) = target.as_object_mut() else { return };
    for (key, value) in changes {
        if value.is_null() {
            members.shift_remove(key);
        } else {
            merge(members.entry(key.clone()).or_insert(Value::Null), value);
        }
    }
}

/// Returns the version of a saved agent: the hash of its text.
fn version_of(text: &str) -> String {
    with_hex("", &Sha256::digest(text.as_bytes())[..12])
}

/// Returns the keys of a blueprint without its name, which a view has apart.
fn definition(blueprint: Value) -> Map<String, Value> {
    match blueprint {
        Value::Object(mut members) => {
            members.shift_remove("name");
            members
        }
        _ => Map::new(),
    }
}

fn from_file(name: &str, file: &FromFile<Arc<Blueprint>>) -> AgentView {
    AgentView {
        name: name.to_owned(),
        definition: file
            .in_force
            .as_ref()
            .map(|blueprint| definition(json!(&**blueprint)))
            .unwrap_or_default(),
        source: "file".to_owned(),
        path: Some(file.path.display().to_string()),
        problems: file.problems.clone(),
        warnings: file.warnings.clone(),
        created_at: None,
        modified_at: file.modified_at.map(timestamp),
    }
}

fn from_store(named: RegistryEntry) -> AgentView {
    let blueprint: Value = serde_json::from_str(&named.text).unwrap_or_default();
    let warnings = check(&blueprint, None).map(|checked| checked.warnings).unwrap_or_default();
    AgentView {
        name: named.name,
        definition: definition(blueprint),
        source: "api".to_owned(),
        path: None,
        problems: Vec::new(),
        warnings: warnings.iter().map(problem).collect(),
        created_at: Some(timestamp(named.created_at)),
        modified_at: Some(timestamp(named.updated_at)),
    }
}

fn from_shipped(name: &str) -> Option<AgentView> {
    let checked = shipped(name)?.result.ok()?;
    Some(AgentView {
        name: name.to_owned(),
        definition: definition(json!(checked.blueprint)),
        source: "shipped".to_owned(),
        path: None,
        problems: Vec::new(),
        warnings: Vec::new(),
        created_at: None,
        modified_at: None,
    })
}
