//! Authorization: who may read what, and operations that reach beyond the project.

use std::sync::Arc;

use slipform_api::{Code, Error, RequestSender, RunRequest};
use slipform_types::{Blueprint, ProjectDir, RunOverrides, RunType, SessionId};

use super::submit::no_session;
use super::tokens::{Grant, Scope};
use super::{App, errors};

/// The authority under which an [`App`] handle acts.
#[derive(Debug, Clone)]
pub(super) enum Authority {
    /// Of the process that opened the store. It may do everything.
    Process,
    /// Of a request without a token, to a server that requires none. It may run existing agents and read everything.
    Local,
    /// Of an API token.
    Token(Arc<Grant>),
}

impl Authority {
    /// Whether it permits starting programs, reading environment variables and using folders outside the project.
    fn is_admin(&self) -> bool {
        match self {
            Authority::Process => true,
            Authority::Local => false,
            Authority::Token(grant) => grant.scope == Scope::Admin,
        }
    }

    /// The id of the API token; `None` without one.
    pub(super) fn token_id(&self) -> Option<&str> {
        match self {
            Authority::Process | Authority::Local => None,
            Authority::Token(grant) => Some(&grant.token_id),
        }
    }

    /// The API token whose sessions are the only ones that may be read; `None` if all may.
    pub(super) fn only_owner(&self) -> Option<&str> {
        match self {
            Authority::Token(grant) if grant.scope == Scope::Caller && !grant.reads_all => {
                Some(&grant.token_id)
            }
            _ => None,
        }
    }

    /// The agents that may be run; `None` for all.
    fn only_agents(&self) -> Option<&[String]> {
        match self {
            Authority::Token(grant) => grant.agents.as_deref(),
            _ => None,
        }
    }

    /// Whether a session of this API token may be read.
    pub(super) fn may_read(&self, owner: Option<&str>) -> bool {
        self.only_owner().is_none_or(|only| owner == Some(only))
    }

    /// Whether an agent may be run.
    pub(super) fn may_run(&self, agent: &str) -> bool {
        self.only_agents().is_none_or(|agents| agents.iter().any(|allowed| allowed == agent))
    }
}

impl App {
    /// Returns a handle with the authority of a request without a token.
    #[must_use]
    pub fn for_caller(&self) -> App {
        App { authority: Authority::Local, ..self.clone() }
    }

    /// Returns a handle with the authority of an API token.
    pub(crate) fn for_token(&self, grant: Arc<Grant>) -> App {
        App { authority: Authority::Token(grant), ..self.clone() }
    }

    /// Returns who acts through this handle.
    pub(crate) fn sender(&self) -> RequestSender {
        let Authority::Token(grant) = &self.authority else { return RequestSender::default() };
        RequestSender {
            token_id: Some(grant.token_id.clone()),
            is_limited_to_agents: grant.agents.is_some(),
            requests_per_minute: grant.requests_per_minute,
            tokens_per_minute: grant.tokens_per_minute,
        }
    }

    fn require_admin(&self, operation: &str) -> Result<(), Error> {
        if self.authority.is_admin() {
            return Ok(());
        }
        let message = format!(
            "{operation} requires a token with scope `admin`; on the server's machine, use the one in \
             .slipform/admin.token"
        );
        Err(Error::new(Code::Forbidden, message))
    }

    /// Refuses agents that the token may not run.
    pub(super) fn authorize_agent_name(&self, name: &str) -> Result<(), Error> {
        if self.authority.may_run(name) {
            return Ok(());
        }
        let allowed = self.authority.only_agents().unwrap_or_default().join(", ");
        let message = format!("the token may not use agent `{name}`; it is limited to: {allowed}");
        Err(Error::new(Code::Forbidden, message))
    }

    /// Refuses a choice of model, and limits above those of the agent, to tokens that are limited to agents.
    pub(super) fn authorize_overrides(
        &self,
        blueprint: &Blueprint,
        overrides: &RunOverrides,
    ) -> Result<(), Error> {
        if self.authority.only_agents().is_none() {
            return Ok(());
        }
        let refuse = |what: &str| {
            let message = format!("the token is limited to agents and may not choose {what} of a run");
            Err(Error::new(Code::Forbidden, message))
        };
        let is_above = |wanted: Option<u32>, limit: Option<u32>| {
            wanted.is_some_and(|wanted| limit.is_none_or(|limit| wanted > limit))
        };
        match overrides {
            RunOverrides { backend: Some(_), .. } => refuse("the backend"),
            RunOverrides { model: Some(_), .. } => refuse("the model"),
            _ if is_above(overrides.max_tokens, blueprint.limits.max_tokens) => {
                refuse("`max_tokens` above the agent's limit")
            }
            _ if is_above(overrides.timeout_seconds, blueprint.limits.timeout_seconds) => {
                refuse("`timeout_seconds` above the agent's limit")
            }
            _ => Ok(()),
        }
    }

    /// Refuses sessions that the token may not read, as if they did not exist.
    pub(super) async fn authorize_session(&self, session: &SessionId) -> Result<(), Error> {
        if self.authority.only_owner().is_none() {
            return Ok(());
        }
        let record = self.store().session(session).await.map_err(errors::store)?;
        match record {
            Some(record) if self.authority.may_read(record.created_by.as_deref()) => Ok(()),
            _ => Err(no_session(session)),
        }
    }

    /// Refuses a request that continues or reports to a session that the token may not read.
    pub(super) async fn authorize_sessions(&self, request: &RunRequest) -> Result<(), Error> {
        for session in request.session_id.iter().chain(&request.parent_session_id) {
            self.authorize_session(session).await?;
        }
        Ok(())
    }

    /// Refuses runner ids that another API token has registered.
    pub(super) async fn authorize_runner(&self, runner_id: &str) -> Result<(), Error> {
        let Authority::Token(grant) = &self.authority else { return Ok(()) };
        if self.inner.runner_ids.is_known(&grant.token_id, runner_id) {
            return Ok(());
        }
        match self.store().runner_creator(runner_id).await.map_err(errors::store)? {
            Some(creator) if creator.as_deref() != Some(&grant.token_id) => Err(foreign_runner(runner_id)),
            Some(_) => {
                self.inner.runner_ids.add(&grant.token_id, runner_id);
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Refuses saving, changing or deleting an agent with `command`, `mcp_servers` or `env`, unless an
    /// administrator does it.
    pub(super) fn authorize_agent(&self, blueprint: &Blueprint) -> Result<(), Error> {
        let Blueprint { name, command, mcp_servers, env, .. } = blueprint;
        let privileged = [
            ("command", !command.is_empty()),
            ("mcp_servers", !mcp_servers.is_empty()),
            ("env", !env.is_empty()),
        ];
        match privileged.into_iter().find(|(_, has)| *has) {
            Some((key, _)) => self.require_admin(&format!("agent `{name}` with `{key}`")),
            None => Ok(()),
        }
    }

    /// Refuses protected folders, and folders outside the project unless an administrator asks.
    pub(super) async fn authorize_folder(&self, request: &RunRequest) -> Result<(), Error> {
        if let Some(given) = &request.project_dir {
            self.authorize_project_dir(given)?;
        }
        if self.authority.is_admin() {
            return Ok(());
        }
        // A session keeps its folder: a resumed run works there, and so does a parent that a child calls back.
        let is_resumed = request.run_type() == RunType::ResumeSession;
        let resumed = request.session_id.as_ref().filter(|_| is_resumed);
        for session in resumed.into_iter().chain(&request.parent_session_id) {
            if let Some(kept) = self.session(session).await?.project_dir {
                self.authorize_project_dir(&kept)?;
            }
        }
        Ok(())
    }

    fn authorize_project_dir(&self, given: &str) -> Result<(), Error> {
        match ProjectDir::read(given) {
            ProjectDir::Inside(_) => Ok(()),
            ProjectDir::Outside => {
                self.require_admin(&format!("project_dir `{given}` outside the runner's project"))
            }
            ProjectDir::Protected(folder) => {
                let message = format!(
                    "project_dir `{given}` is or lies in `{folder}`, which is protected; use another folder of the \
                     project"
                );
                Err(Error::new(Code::InvalidRequest, message))
            }
        }
    }
}

/// The error for a runner id that another API token has registered.
pub(super) fn foreign_runner(runner_id: &str) -> Error {
    let message = format!(
        "runner id `{runner_id}` is registered by another token; register without `runner_id` to get one"
    );
    Error::new(Code::Forbidden, message)
}
