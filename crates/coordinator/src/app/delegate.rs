//! Starts child runs for runs that delegate.

use slipform_api::{ChildAnswer, ChildRequest, Code, Error};
use slipform_store::{Parent, ParentCall, Refusal};

use super::runner::stale;
use super::submit::{ContractInput, DELEGATION_LIMITS, Draft};
use super::{App, errors};

impl App {
    /// Starts or resumes a child. A refusal is an answer for the model that asked.
    pub(super) async fn start_child(&self, request: &ChildRequest) -> Result<ChildAnswer, Error> {
        self.extend_after_outage().await?;
        let fence = self.fence(&request.run_id, request.token);
        let call = ParentCall { fence, call_id: request.call_id.clone() };
        let earlier = self.store().child_by_call(call.clone()).await.map_err(errors::store)?;
        if let Some(child) = earlier.map_err(|_| stale(&request.run_id))? {
            return Ok(ChildAnswer::Accepted { session_id: child.session_id, run_id: child.run_id });
        }
        let parent = self.store().run(&request.run_id).await.map_err(errors::store)?;
        let parent = parent.ok_or_else(|| stale(&request.run_id))?;
        let session = self.session(&parent.session_id).await?;
        let contract_input = ContractInput {
            schema: request.output_schema.clone(),
            schema_name: request.output_schema_name.clone(),
            options: slipform_types::OptionsPatch::default(),
        };
        let draft = match &request.session_id {
            Some(session) => match self.resumable_blueprint(session).await {
                Ok(blueprint) => {
                    let parameters = request.parameters.clone();
                    self.draft_resume(session.clone(), blueprint, parameters, &contract_input).await
                }
                Err(error) => Err(error),
            },
            None => match self.blueprint(&request.agent_name).await {
                Ok(blueprint) => {
                    self.draft_start(
                        blueprint,
                        request.parameters.clone(),
                        &contract_input,
                        session.project_dir,
                    )
                    .await
                }
                Err(error) => Err(error),
            },
        };
        let draft = match draft {
            Ok(draft) => draft,
            Err(error) if error.code.status() >= 500 || error.code.is_passing() => return Err(error),
            // The model's request cannot be fulfilled, so the model receives the reason.
            Err(error) if error.code == Code::AgentNotFound => {
                let reason = errors::no_agent_reason(&request.agent_name, &self.agent_names().await?);
                return Ok(ChildAnswer::Refused { reason });
            }
            Err(error) => return Ok(ChildAnswer::Refused { reason: error.message }),
        };
        let overrides = self.overrides_of_run(&request.run_id).await?.for_children();
        // The child belongs to the caller of its parent, not to the runner that starts it.
        let created_by = parent.created_by;
        let parent =
            Some(Parent { session_id: parent.session_id, call: Some(call), limits: DELEGATION_LIMITS });
        let draft = Draft { mode: request.execution_mode, overrides, parent, created_by, ..draft };
        let submitted = self.submit_draft(draft).await?;
        match submitted {
            Ok(child) => Ok(ChildAnswer::Accepted { session_id: child.session_id, run_id: child.run_id }),
            Err(Refusal::Stale) => Err(stale(&request.run_id)),
            Err(refusal) => Ok(ChildAnswer::Refused { reason: refusal_reason(refusal) }),
        }
    }
}

/// Returns the reason for a refused child, phrased for a model.
fn refusal_reason(refusal: Refusal) -> String {
    match refusal {
        Refusal::Delegation(reason) => reason,
        Refusal::SessionNotFound(session) => format!("there is no session {session} of this agent"),
        Refusal::SessionBusy { session_id, .. } => {
            format!("the session {session_id} is still busy; wait for its result first")
        }
        Refusal::IdempotencyConflict | Refusal::Stale => "it was asked for before".to_owned(),
    }
}
