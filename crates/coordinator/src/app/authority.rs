//! Authorization of operations that reach beyond the project.

use slipform_api::{Code, Error, RunRequest};
use slipform_types::{Blueprint, ProjectDir, RunType};

use super::App;

/// The authority under which an [`App`] handle acts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Authority {
    /// May start programs, read environment variables and use folders outside the project. Held by the
    /// process that opened the store and by tokens with scope `admin`.
    Admin,
    /// May run existing agents.
    Caller,
}

impl App {
    /// Returns a handle with the authority of a caller who is not an administrator.
    #[must_use]
    pub fn for_caller(&self) -> App {
        App { authority: Authority::Caller, ..self.clone() }
    }

    fn require_admin(&self, operation: &str) -> Result<(), Error> {
        match self.authority {
            Authority::Admin => Ok(()),
            Authority::Caller => {
                let message = format!(
                    "{operation} requires a token with scope `admin`; on the server's machine, use the one in \
                     .slipform/admin.token"
                );
                Err(Error::new(Code::Forbidden, message))
            }
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
        if self.authority == Authority::Admin {
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
