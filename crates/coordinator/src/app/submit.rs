//! Submits runs.

use std::sync::Arc;

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use slipform_agents::contract::{ContractRequest, resolve_with};
use slipform_agents::parameters;
use slipform_api::{Code, Error, RunCreated, RunRequest};
use slipform_store::{DelegationLimits, Idempotency, NewRun, Parent, Refusal, SessionTarget, Submitted};
use slipform_types::{
    AgentType, Blueprint, Contract, EventBody, ExecutionMode, OptionsPatch, RETRIES_MAX, RunId, RunOverrides,
    RunStatus, RunType, SessionId, with_hex,
};

use super::{App, errors};

/// Delegation limits. Larger trees cost more than users expect.
pub(super) const DELEGATION_LIMITS: DelegationLimits =
    DelegationLimits { depth_max: 5, children_max: 16, runs_max: 200 };

/// Maximum length of an idempotency key.
const KEY_BYTES_MAX: usize = 255;

/// Maximum length of the name of a backend or model.
const NAME_CHARACTERS_MAX: usize = 255;

/// A resolved run before it is submitted to the store.
pub(super) struct Draft {
    pub(super) session: SessionTarget,
    pub(super) blueprint: Arc<Blueprint>,
    pub(super) contract: Option<Arc<Contract>>,
    pub(super) parameters: Value,
    pub(super) overrides: RunOverrides,
    pub(super) mode: ExecutionMode,
    pub(super) parent: Option<Parent>,
    pub(super) idempotency: Option<Idempotency>,
    /// The API token that the run counts as submitted by.
    pub(super) created_by: Option<String>,
}

/// The contract-related fields of a request.
pub(super) struct ContractInput {
    pub(super) schema: Option<Value>,
    pub(super) schema_name: Option<String>,
    pub(super) options: OptionsPatch,
}

impl App {
    /// Submits a run.
    ///
    /// # Errors
    /// Fails if the agent is unknown, the parameters or the schema are invalid, or the session is busy.
    pub async fn submit(&self, request: RunRequest, key: Option<String>) -> Result<RunCreated, Error> {
        let idempotency =
            key.map(|key| idempotency(&key, &request, self.authority.token_id())).transpose()?;
        if let Some(earlier) = self.earlier_response(idempotency.as_ref()).await? {
            return Ok(earlier);
        }
        let draft = Draft { idempotency, ..self.resolve(request).await? };
        let Submitted { run_id, session_id, is_repeated } =
            self.submit_draft(draft).await?.map_err(refusal_error)?;
        let status = if is_repeated { self.record(&run_id).await?.status } else { RunStatus::Pending };
        Ok(RunCreated { run_id, session_id, status })
    }

    /// Checks a request as [`App::submit`] does, without submitting it.
    ///
    /// # Errors
    /// See [`App::submit`].
    pub async fn check_run(&self, request: &RunRequest) -> Result<(), Error> {
        self.resolve(request.clone()).await.map(drop)
    }

    /// Checks a request and resolves its agent, contract and parameters.
    async fn resolve(&self, request: RunRequest) -> Result<Draft, Error> {
        self.authorize_sessions(&request).await?;
        self.authorize_folder(&request).await?;
        let (run_type, parameters) = (request.run_type(), parameters_of(&request)?);
        let overrides = overrides_of(&request)?;
        let input = ContractInput {
            schema: request.output_schema,
            schema_name: request.output_schema_name,
            options: request.output_schema_options.unwrap_or_default(),
        };
        if request.execution_mode == ExecutionMode::AsyncCallback {
            let Some(parent) = &request.parent_session_id else {
                let message = "`async_callback` requires `parent_session_id`, the session to resume";
                return Err(Error::new(Code::InvalidRequest, message));
            };
            // The callback is a run of the parent's agent.
            let resumed = self.resumable_blueprint(parent).await?;
            self.authorize_agent_name(&resumed.name)?;
        }
        let draft = match run_type {
            RunType::StartSession => {
                if request.refresh_agent {
                    let message =
                        "`refresh_agent` applies to resumed sessions; a new one uses the current agent";
                    return Err(Error::new(Code::InvalidRequest, message));
                }
                if request.session_id.is_some() {
                    let message =
                        "`start_session` does not accept `session_id`; omit it or use `resume_session`";
                    return Err(Error::new(Code::InvalidRequest, message));
                }
                let name = request.agent_name.as_deref().ok_or_else(|| {
                    Error::new(Code::InvalidRequest, "`start_session` requires `agent_name`")
                })?;
                self.authorize_agent_name(name)?;
                let blueprint = self.blueprint(name).await?;
                let draft = self.draft_start(blueprint, parameters, &input, request.project_dir).await?;
                self.check_callable_agents(&draft.blueprint).await?;
                draft
            }
            RunType::ResumeSession => {
                let session = request.session_id.ok_or_else(|| {
                    Error::new(Code::InvalidRequest, "`resume_session` requires `session_id`")
                })?;
                let mut blueprint = self.resumable_blueprint(&session).await?;
                self.authorize_agent_name(&blueprint.name)?;
                if request.refresh_agent {
                    blueprint = self.current_blueprint(&blueprint.name).await?;
                }
                let mut draft = self.draft_resume(session.clone(), blueprint, parameters, &input).await?;
                draft.session = SessionTarget::Resume { session_id: session.clone(), queues: request.queue };
                let owner = &draft.blueprint.name;
                if let Some(name) = request.agent_name.filter(|name| name != owner) {
                    let message = format!(
                        "session {session} belongs to agent `{owner}`, not to `{name}`; name `{owner}`, or start a session"
                    );
                    return Err(Error::new(Code::InvalidRequest, message));
                }
                draft
            }
        };
        let parent = request.parent_session_id.map(|session_id| Parent {
            session_id,
            call: None,
            limits: DELEGATION_LIMITS,
        });
        let created_by = self.authority.token_id().map(str::to_owned);
        self.check_overrides(&draft.blueprint, &overrides).await?;
        Ok(Draft { mode: request.execution_mode, overrides, parent, created_by, ..draft })
    }

    /// Refuses settings that the caller may not choose, and a backend that no connected runner has. Without runners, or with
    /// one of this process, the backend is checked when the run begins.
    async fn check_overrides(&self, blueprint: &Blueprint, overrides: &RunOverrides) -> Result<(), Error> {
        self.authorize_overrides(blueprint, overrides)?;
        let (Some(name), None) = (&overrides.backend, &self.options().pinned_to) else { return Ok(()) };
        let known: Vec<String> = self.backends().await?.into_iter().map(|backend| backend.name).collect();
        if known.is_empty() || known.iter().any(|known| known == name) {
            return Ok(());
        }
        let shown: String = name.chars().take(40).collect();
        let message = format!("backend `{shown}` not found; the runners have: {}", known.join(", "));
        Err(Error::new(Code::InvalidRequest, message))
    }

    /// Returns the response to an earlier request with the same key. Looked up first because agents and
    /// schemas may have changed since.
    async fn earlier_response(&self, idempotency: Option<&Idempotency>) -> Result<Option<RunCreated>, Error> {
        let Some(Idempotency { key, body_hash }) = idempotency else { return Ok(None) };
        match self.store().run_by_idempotency_key(key).await.map_err(errors::store)? {
            None => Ok(None),
            Some((_, known)) if known != *body_hash => Err(refusal_error(Refusal::IdempotencyConflict)),
            Some((Submitted { run_id, session_id, .. }, _)) => {
                let status = self.record(&run_id).await?.status;
                Ok(Some(RunCreated { run_id, session_id, status }))
            }
        }
    }

    /// Resolves a run that starts a session.
    pub(super) async fn draft_start(
        &self,
        blueprint: Arc<Blueprint>,
        parameters: Value,
        input: &ContractInput,
        project_dir: Option<String>,
    ) -> Result<Draft, Error> {
        let parameters = parameters::with_defaults(&blueprint, parameters);
        let (app, checked, given) = (self.clone(), blueprint.clone(), parameters.clone());
        let check = move || parameters::check_with(&app.inner.schemas, &checked, &given);
        let checked = self.with_compiled(blueprint.parameters_schema.as_ref(), check).await?;
        checked.map_err(|invalid| {
            let details = serde_json::to_value(&invalid).unwrap_or_default();
            Error::new(Code::InvalidParameters, invalid.to_string()).with(details)
        })?;
        let contract = self.contract(&blueprint, input).await?;
        let session = SessionTarget::New { session_id: SessionId::from_random(random()?), project_dir };
        Ok(Draft::new(session, blueprint, contract, parameters))
    }

    /// Resolves a run that resumes an idle session with this blueprint.
    pub(super) async fn draft_resume(
        &self,
        session_id: SessionId,
        blueprint: Arc<Blueprint>,
        parameters: Value,
        input: &ContractInput,
    ) -> Result<Draft, Error> {
        parameters::check_resume(&blueprint, &parameters).map_err(|invalid| {
            let details = serde_json::to_value(&invalid).unwrap_or_default();
            Error::new(Code::InvalidParameters, invalid.to_string()).with(details)
        })?;
        let contract = if input.schema.is_some() || input.schema_name.is_some() {
            self.contract(&blueprint, input).await?
        } else {
            let latest = self.latest_contract(&session_id, input).await?;
            // An agent that was given its own schema since must meet it.
            let is_own =
                |contract: &Arc<Contract>| blueprint.output_schema.as_ref() == Some(&contract.schema);
            match latest {
                Some(contract) if blueprint.output_schema.is_none() || is_own(&contract) => Some(contract),
                _ => self.contract(&blueprint, input).await?,
            }
        };
        let session = SessionTarget::Resume { session_id, queues: false };
        Ok(Draft::new(session, blueprint, contract, parameters))
    }

    /// Returns the current blueprint of an agent, to continue a session with it.
    async fn current_blueprint(&self, name: &str) -> Result<Arc<Blueprint>, Error> {
        let blueprint = self.blueprint(name).await?;
        refuse_procedural(&blueprint)?;
        self.check_callable_agents(&blueprint).await?;
        Ok(blueprint)
    }

    /// Returns the blueprint of a session's latest run.
    async fn agent_of(&self, session: &SessionId) -> Result<Arc<Blueprint>, Error> {
        let latest = self.store().latest_run_details(session).await.map_err(errors::store)?;
        let start = latest.ok_or_else(|| no_session(session))?.start;
        match serde_json::from_str::<EventBody>(&start.body) {
            Ok(EventBody::RunStart { blueprint, .. }) => Ok(blueprint),
            _ => Err(Error::new(Code::Internal, format!("session {session} has no `run_start`"))),
        }
    }

    /// Returns the contract of the session's latest run, with the request's options applied.
    async fn latest_contract(
        &self,
        session: &SessionId,
        input: &ContractInput,
    ) -> Result<Option<Arc<Contract>>, Error> {
        let latest = self.store().latest_run_details(session).await.map_err(errors::store)?;
        let latest = latest.ok_or_else(|| no_session(session))?;
        let Ok(EventBody::RunStart { contract, .. }) = serde_json::from_str::<EventBody>(&latest.start.body)
        else {
            return Err(Error::new(Code::Internal, format!("a run of session {session} has no `run_start`")));
        };
        if let Some(given) = input.options.max_retries.filter(|retries| *retries > RETRIES_MAX) {
            let origin = "output_schema_options".to_owned();
            return Err(errors::contract(&slipform_agents::Error::Retries { origin, given }));
        }
        let patched = |contract: Arc<Contract>| {
            let options = input.options.resolve(&contract.options);
            Arc::new(Contract { options, ..(*contract).clone() })
        };
        Ok(contract.map(patched))
    }

    /// Returns a session's blueprint, or refuses if its agent cannot be resumed.
    pub(super) async fn resumable_blueprint(&self, session: &SessionId) -> Result<Arc<Blueprint>, Error> {
        let blueprint = self.agent_of(session).await?;
        refuse_procedural(&blueprint)?;
        Ok(blueprint)
    }

    async fn contract(
        &self,
        blueprint: &Blueprint,
        input: &ContractInput,
    ) -> Result<Option<Arc<Contract>>, Error> {
        // An inline schema takes precedence, so the name is not even looked up.
        let named = match input.schema_name.as_ref().filter(|_| input.schema.is_none()) {
            Some(name) => Some((name.clone(), self.registered_schema(name).await?)),
            None => None,
        };
        let request = ContractRequest { schema: input.schema.clone(), named, options: input.options.clone() };
        let own = blueprint.output_schema.as_ref().or(request.schema.as_ref());
        let named = request.named.as_ref().map(|(_, schema)| schema);
        let schema = own.or(named).or(blueprint.default_output_schema.as_ref()).cloned();
        let (app, blueprint) = (self.clone(), blueprint.clone());
        let resolve = move || resolve_with(&app.inner.schemas, &blueprint, &request, &app.options().defaults);
        let contract = self.with_compiled(schema.as_ref(), resolve).await?;
        Ok(contract.map_err(|error| errors::contract(&error))?.map(Arc::new))
    }

    /// Runs a check that compiles `schema`: at once if the schema is cached or absent, otherwise on the threads for
    /// checks.
    async fn with_compiled<T: Send + 'static>(
        &self,
        schema: Option<&Value>,
        check: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Error> {
        if schema.is_none_or(|schema| self.inner.schemas.cached(schema).is_some()) {
            return Ok(check());
        }
        self.inner.check_pool.run(check).await
    }

    /// Submits a resolved run to the store.
    pub(super) async fn submit_draft(&self, draft: Draft) -> Result<Result<Submitted, Refusal>, Error> {
        let Draft { session, blueprint, contract, parameters, overrides, .. } = draft;
        let Draft { mode, parent, idempotency, created_by, .. } = draft;
        let (blueprint, parameters) = match self.options().redact {
            Some(redact) => {
                let shown = serde_json::to_value(&*blueprint).map(redact).and_then(serde_json::from_value);
                (shown.map_or(blueprint, Arc::new), redact(parameters))
            }
            None => (blueprint, parameters),
        };
        let (run_type, input) = match session {
            SessionTarget::New { .. } => {
                (RunType::StartSession, parameters::inputs_text(&blueprint, &parameters))
            }
            SessionTarget::Resume { .. } => {
                (RunType::ResumeSession, parameters["prompt"].as_str().unwrap_or_default().to_owned())
            }
        };
        let new = NewRun {
            run_id: RunId::from_random(random()?),
            session,
            agent_name: blueprint.name.clone(),
            timeout_ms: overrides
                .limits(&blueprint.limits)
                .timeout_seconds
                .map(|seconds| i64::from(seconds) * 1_000),
            start: EventBody::RunStart {
                run_type,
                blueprint,
                contract,
                parameters,
                input,
                overrides,
                conversation: None,
            },
            mode,
            parent,
            idempotency,
            pinned_to: self.options().pinned_to.clone(),
            continues: None,
            created_by,
        };
        let agent = new.agent_name.clone();
        let submitted = self.store().submit(new).await.map_err(errors::store)?;
        if let Ok(Submitted { run_id, session_id, is_repeated: false }) = &submitted {
            tracing::info!(%run_id, %session_id, agent, "run submitted");
            self.inner.metrics.submitted();
            self.inner.work_signal.notify(1);
        }
        Ok(submitted)
    }
}

impl Draft {
    fn new(
        session: SessionTarget,
        blueprint: Arc<Blueprint>,
        contract: Option<Arc<Contract>>,
        parameters: Value,
    ) -> Draft {
        Draft {
            session,
            blueprint,
            contract,
            parameters,
            overrides: RunOverrides::default(),
            mode: ExecutionMode::default(),
            parent: None,
            idempotency: None,
            created_by: None,
        }
    }
}

/// Returns the agent's parameters. `prompt` is short for `parameters.prompt`.
fn parameters_of(request: &RunRequest) -> Result<Value, Error> {
    let mut parameters = match &request.parameters {
        None => json!({}),
        Some(Value::Object(members)) => Value::Object(members.clone()),
        Some(_) => return Err(Error::new(Code::InvalidRequest, "`parameters` must be an object")),
    };
    if let Some(prompt) = &request.prompt {
        match parameters.get("prompt") {
            Some(other) if other != prompt => {
                let message = "`prompt` and `parameters.prompt` differ; send one of them";
                return Err(Error::new(Code::InvalidRequest, message));
            }
            _ => parameters["prompt"] = json!(prompt),
        }
    }
    Ok(parameters)
}

/// Returns the settings that a request chooses for its run, checked.
fn overrides_of(request: &RunRequest) -> Result<RunOverrides, Error> {
    let overrides = request.overrides();
    let invalid = |message: String| Err(Error::new(Code::InvalidRequest, message));
    for (key, number) in
        [("max_tokens", overrides.max_tokens), ("timeout_seconds", overrides.timeout_seconds)]
    {
        if number == Some(0) {
            return invalid(format!("`{key}` must be at least 1"));
        }
    }
    for (key, name) in [("backend", &overrides.backend), ("model", &overrides.model)] {
        if name.as_ref().is_some_and(|name| name.is_empty() || name.chars().count() > NAME_CHARACTERS_MAX) {
            return invalid(format!("`{key}` must have 1 to {NAME_CHARACTERS_MAX} characters"));
        }
    }
    Ok(overrides)
}

fn refuse_procedural(blueprint: &Blueprint) -> Result<(), Error> {
    if blueprint.kind != AgentType::Procedural {
        return Ok(());
    }
    let message =
        format!("the agent '{}' is procedural: it cannot be resumed, only started again", blueprint.name);
    Err(Error::new(Code::NotResumable, message))
}

/// Checks an idempotency key and hashes the request.
fn idempotency(key: &str, request: &RunRequest, token_id: Option<&str>) -> Result<Idempotency, Error> {
    if key.is_empty() || key.len() > KEY_BYTES_MAX {
        let message = format!("`Idempotency-Key` must have 1 to {KEY_BYTES_MAX} characters");
        return Err(Error::new(Code::InvalidRequest, message));
    }
    let text = serde_json::to_vec(request).map_err(|error| Error::new(Code::Internal, error.to_string()))?;
    let body_hash = with_hex("", &Sha256::digest(&text));
    Ok(Idempotency { key: stored_key(key, token_id), body_hash })
}

/// Returns an idempotency key as it is stored. Each API token has its own keys.
pub(super) fn stored_key(key: &str, token_id: Option<&str>) -> String {
    token_id.map_or_else(|| key.to_owned(), |token_id| format!("{token_id} {key}"))
}

/// Returns random bytes.
pub(super) fn random<const N: usize>() -> Result<[u8; N], Error> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| {
        Error::new(Code::Internal, format!("the system's random number generator failed: {error}"))
    })?;
    Ok(bytes)
}

pub(super) fn no_session(session: &SessionId) -> Error {
    Error::new(Code::SessionNotFound, format!("there is no session {session}"))
}

/// Converts a refusal of the store.
fn refusal_error(refusal: Refusal) -> Error {
    match refusal {
        Refusal::SessionNotFound(session) => no_session(&session),
        Refusal::SessionBusy { session_id, run_id } => {
            let message = format!(
                "session {session_id} is busy with run {run_id}; wait for its end, stop it, or send \"queue\": true"
            );
            Error::new(Code::SessionBusy, message).with(json!({"session_id": session_id, "run_id": run_id}))
        }
        Refusal::IdempotencyConflict => Error::new(
            Code::IdempotencyConflict,
            "this `Idempotency-Key` was used for another request; use a new key",
        ),
        Refusal::Stale => Error::new(Code::StaleAttempt, "the attempt is not the run's latest"),
        Refusal::Delegation(reason) => Error::new(Code::InvalidRequest, reason),
    }
}
