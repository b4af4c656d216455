//! What whoever acts through an [`App`] may do beyond running agents.

use slipform_api::{Code, Error, RunRequest};
use slipform_types::{Blueprint, ProjectDir, RunType};

use super::App;

/// The right to do what reaches beyond the project: start programs, read variables, work in other folders.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Authority {
    /// Everything: the process that opened the store, or a token of the scope `admin`.
    Admin,
    /// Running agents as they are.
    Caller,
}

impl App {
    /// The same app for a caller who is not an administrator.
    #[must_use]
    pub fn for_caller(&self) -> App {
        App { authority: Authority::Caller, ..self.clone() }
    }

    fn require_admin(&self, what: &str) -> Result<(), Error> {
        match self.authority {
            Authority::Admin => Ok(()),
            Authority::Caller => {
                let message = format!(
                    "{what} needs a token of the scope 'admin'; on the server's own machine that is the one in \
                     .slipform/admin.token"
                );
                Err(Error::new(Code::Forbidden, message))
            }
        }
    }

    /// Refuses an agent that starts programs, reaches servers or reads variables, unless an administrator saves, changes
    /// or deletes it.
    pub(super) fn authorize_agent(&self, blueprint: &Blueprint) -> Result<(), Error> {
        let Blueprint { name, command, mcp_servers, env, .. } = blueprint;
        let privileged = [
            ("command", !command.is_empty()),
            ("mcp_servers", !mcp_servers.is_empty()),
            ("env", !env.is_empty()),
        ];
        match privileged.into_iter().find(|(_, has)| *has) {
            Some((key, _)) => self.require_admin(&format!("the agent '{name}' with `{key}`")),
            None => Ok(()),
        }
    }

    /// Refuses a folder where no run may work, and one outside the project unless an administrator asks.
    pub(super) async fn authorize_folder(&self, request: &RunRequest) -> Result<(), Error> {
        if let Some(given) = &request.project_dir {
            self.authorize_project_dir(given)?;
        }
        if self.authority == Authority::Admin {
            return Ok(());
        }
        // A session keeps its folder: a resumed run works there, and so does a parent that a child calls back.
        let is_resumed = request.run_type == RunType::ResumeSession;
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
                self.require_admin(&format!("project_dir '{given}' outside the runner's project"))
            }
            ProjectDir::Protected(folder) => {
                let message = format!(
                    "project_dir '{given}' is or lies in '{folder}', where no run may work; name another folder of the \
                     project"
                );
                Err(Error::new(Code::InvalidRequest, message))
            }
        }
    }
}
