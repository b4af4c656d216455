//! Verifies results against facts: files they name must exist or must have been changed, and
//! criteria must be reported as decided.

use serde_json::Value;
use slipform_schema::{Violation, Violations};
use slipform_types::{Blueprint, Protocol, Reply};

use crate::call_plan::CallPlan;
use crate::cite::{CITED_MAX, CitedPath, cited_paths};
use crate::criteria::contradictions;
use crate::decide::Rejection;
use crate::error::Error;
use crate::judge::AcceptedResult;
use crate::prompt::RetryReason;
use crate::state::State;

/// The rejection of a result that names the wrong files.
const WRONG_FILES: (RetryReason, &str) =
    (RetryReason::Citation, "Output named files that do not exist or were not changed");

/// The rejection of a result that contradicts a decided criterion.
const CONTRADICTED: (RetryReason, &str) =
    (RetryReason::Contradiction, "Output contradicted what was checked");

/// A valid result that waits for the runner to check the files it names.
#[derive(Debug, Clone)]
pub(crate) struct PathCheck {
    plan: CallPlan,
    accepted: AcceptedResult,
    reply: Reply,
    cited: Vec<CitedPath>,
    /// The files to check, sorted, without duplicates.
    pub(crate) paths: Vec<String>,
}

impl State {
    /// Continues with a result, unless it contradicts a criterion or names files that were not
    /// changed. Files that no tool has shown are checked by the runner first.
    pub(crate) fn verify_paths_or_finish(&mut self, plan: CallPlan, accepted: AcceptedResult, reply: &Reply) {
        let Some(Blueprint { cites, changes, checks, .. }) = self.task.as_ref().map(|task| &*task.blueprint)
        else {
            return self.proceed_with_result(plan, accepted, reply);
        };
        let contradicted = contradictions(checks, &accepted.value, &self.tools.decided);
        if !contradicted.is_empty() {
            return self.reject_result(plan, accepted.value, reply, contradicted, CONTRADICTED);
        }
        let (cited, changed) = (cited_paths(cites, &accepted.value), cited_paths(changes, &accepted.value));
        let mut wrong: Vec<Violation> = Vec::new();
        if cited.len() > CITED_MAX || changed.len() > CITED_MAX {
            wrong.push(violation("$", format!("names more than {CITED_MAX} files; name those that matter")));
        }
        for it in changed.iter().filter(|it| !self.tools.written.contains(&it.path)) {
            let message = format!("'{}' was not changed: no tool wrote to it", it.path);
            wrong.push(violation(&it.place, message));
        }
        if !wrong.is_empty() {
            return self.reject_result(plan, accepted.value, reply, wrong, WRONG_FILES);
        }
        let mut paths: Vec<String> = cited.iter().map(|it| it.path.clone()).collect();
        paths.retain(|path| !self.tools.seen.contains(path));
        paths.sort();
        paths.dedup();
        if paths.is_empty() {
            return self.proceed_with_result(plan, accepted, reply);
        }
        self.path_check = Some(Box::new(PathCheck { plan, accepted, reply: reply.clone(), cited, paths }));
    }

    /// Continues with the result once the runner has checked its files.
    pub(crate) fn handle_paths_checked(&mut self, missing: &[String]) -> Result<(), Error> {
        let path_check = self.path_check.take();
        if self.is_interrupted() {
            return Ok(());
        }
        let path_check = path_check.ok_or(Error::Journal("`paths_checked` without a pending path check"))?;
        let PathCheck { plan, accepted, reply, cited, .. } = *path_check;
        let wrong: Vec<Violation> = cited
            .iter()
            .filter(|it| missing.contains(&it.path))
            .map(|it| violation(&it.place, format!("'{}' is not a file or folder of the project", it.path)))
            .collect();
        if wrong.is_empty() {
            self.proceed_with_result(plan, accepted, &reply);
        } else {
            self.reject_result(plan, accepted.value, &reply, wrong, WRONG_FILES);
        }
        Ok(())
    }

    /// Records a result that contradicts the facts and asks again.
    fn reject_result(
        &mut self,
        plan: CallPlan,
        value: Value,
        reply: &Reply,
        list: Vec<Violation>,
        (retry_reason, summary): (RetryReason, &'static str),
    ) {
        let violations = Violations::capped(list);
        self.usage.record_invalid_candidate(&value, &violations);
        self.correct(plan, reply, Rejection::unmet(retry_reason, violations.lines(), summary));
    }

    /// Asks again for a result that satisfies the schema but failed another check.
    pub(crate) fn correct(&mut self, plan: CallPlan, reply: &Reply, rejection: Rejection) {
        match plan.protocol {
            Protocol::Actions => self.correct_envelope(plan, reply, rejection),
            Protocol::Tools => self.ask_again(plan, reply, rejection, None),
        }
    }
}

pub(crate) fn violation(path: &str, message: String) -> Violation {
    Violation { path: path.to_owned(), message, schema_path: String::new(), value: Value::Null }
}
