//! What is said of an event, for those who count.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use slipform_store::{Milestone, RunFacts, StoredEvent};
use slipform_types::{EventBody, NOT_SUBMITTED, RunError, RunErrorType, RunStatus, timestamp};

/// A run has ended.
const COMPLETED: &str = "orchestrator.specialist.completed";

/// A model was to call `submit_result` and did not.
const SUBMIT_MISSING: &str = "agent.submit.missing";

/// A reply did not satisfy the contract.
const VALIDATION_FAILED: &str = "agent.validation.failed";

/// An orchestrator took its task apart.
const PLAN_CREATED: &str = "orchestrator.plan.created";

/// The next tier went on.
const ESCALATED: &str = "agent.escalated";

/// One line of a file.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Line {
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) ts: String,
    pub(super) payload: Value,
}

/// What a line is known by: an event leads to no two lines of a type.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Identity {
    session_id: String,
    seq: i64,
    kind: String,
}

impl Line {
    pub(super) fn identity(&self) -> Identity {
        Identity {
            session_id: self.payload["session_id"].as_str().unwrap_or_default().to_owned(),
            seq: self.payload["seq"].as_i64().unwrap_or_default(),
            kind: self.kind.to_owned(),
        }
    }
}

impl Identity {
    /// That of a line as it stands in a file; none where it is not one of ours.
    pub(super) fn read(text: &[u8]) -> Option<Identity> {
        #[derive(Deserialize)]
        struct Written {
            #[serde(rename = "type")]
            kind: String,
            payload: Payload,
        }
        #[derive(Deserialize)]
        struct Payload {
            session_id: String,
            seq: i64,
        }
        let Written { kind, payload } = serde_json::from_slice(text).ok()?;
        Some(Identity { session_id: payload.session_id, seq: payload.seq, kind })
    }
}

/// What is said of an event. Nothing that people or models wrote is in it, but for what was wrong with it.
pub(super) fn lines(milestone: &Milestone) -> Vec<Line> {
    let Milestone { event, run: Some(run) } = milestone else { return Vec::new() };
    let Ok(body) = serde_json::from_str::<EventBody>(&event.body) else { return Vec::new() };
    let line = |kind, more| line(kind, event, run, more);
    let line_of = |(kind, more)| line(kind, more);
    match &body {
        EventBody::ValidationFailed { errors, cause, .. } => {
            lacked(*cause, errors).map(line_of).into_iter().collect()
        }
        EventBody::Escalated { from, to, reason, cause } => {
            let escalated = line(ESCALATED, json!({"from": from, "to": to, "reason": reason}));
            let lacked = lacked(*cause, std::slice::from_ref(reason)).map(line_of);
            lacked.into_iter().chain([escalated]).collect()
        }
        EventBody::PlanCreated { round, subtasks, .. } => {
            let agents: Vec<&str> = subtasks.iter().map(|subtask| subtask.agent.as_str()).collect();
            vec![line(
                PLAN_CREATED,
                json!({"round": round, "subtasks": subtasks.len(), "specialists": agents}),
            )]
        }
        EventBody::RunCompleted { status, error, .. } => {
            let error = error.as_deref();
            // What a last reply lacked is told with the end alone.
            let last = error.and_then(|error| lacked(Some(error.kind), &error.validation_errors));
            last.map(line_of).into_iter().chain([line(COMPLETED, completed(run, *status, error))]).collect()
        }
        _ => Vec::new(),
    }
}

fn line(kind: &'static str, event: &StoredEvent, run: &RunFacts, more: Value) -> Line {
    let mut payload = json!({
        "specialist_id": run.agent_name,
        "run_id": event.run_id,
        "session_id": event.session_id,
        "seq": event.seq,
    });
    if let (Value::Object(payload), Value::Object(more)) = (&mut payload, more) {
        payload.extend(more);
    }
    Line { kind, ts: timestamp(event.at), payload }
}

/// What a reply lacked, by the kind of failure that it would be; nothing where that is not about its content. Journals of
/// earlier versions do not name the kind of what was tried again.
fn lacked(cause: Option<RunErrorType>, errors: &[String]) -> Option<(&'static str, Value)> {
    let is_missing = errors.iter().any(|error| error == NOT_SUBMITTED);
    match cause {
        _ if is_missing => {
            Some((SUBMIT_MISSING, json!({"message": "Agent did not call submit_result tool"})))
        }
        Some(RunErrorType::ResultNotSubmitted) if errors.is_empty() => {
            lacked(cause, &[NOT_SUBMITTED.to_owned()])
        }
        None
        | Some(
            RunErrorType::OutputSchemaValidationFailed
            | RunErrorType::OutputTruncated
            | RunErrorType::ResultNotSubmitted,
        ) => {
            let message = format!("Verification failed: {}", errors.join("; "));
            Some((VALIDATION_FAILED, json!({"message": message})))
        }
        Some(_) => None,
    }
}

/// How a run has ended. What went wrong has a code here and no words: whoever searches for words finds each thing once.
fn completed(run: &RunFacts, status: RunStatus, error: Option<&RunError>) -> Value {
    let success = status == RunStatus::Completed;
    let mut payload = json!({
        "success": success,
        "status": status.name(),
        "backend": run.backend,
        "first_pass": success && run.retries == 0 && run.escalations == 0,
        "retries": run.retries,
        "missing_submits": run.missing_submits,
        "escalations": run.escalations,
        "tokens": run.tokens,
        "duration_ms": run.duration_ms,
    });
    if let Some(parent) = &run.parent_session_id {
        payload["parent_session_id"] = json!(parent);
    }
    if let Some(error) = error {
        payload["error_code"] = json!(error.kind.name());
    }
    payload
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use expect_test::{Expect, expect};
    use slipform_store::Position;

    use super::*;

    fn check(body: &Value, expected: &Expect) {
        let event = StoredEvent {
            position: Position::default(),
            seq: 7,
            session_id: "ses_0123456789ab".parse().unwrap(),
            run_id: "run_0123456789ab".parse().unwrap(),
            at: 951_782_400_007,
            body: body.to_string(),
        };
        let run = RunFacts {
            agent_name: "writer".to_owned(),
            backend: Some("small".to_owned()),
            retries: 1,
            tokens: 40,
            duration_ms: Some(12),
            ..RunFacts::default()
        };
        let said = lines(&Milestone { event, run: Some(run) });
        for line in &said {
            let text = serde_json::to_string(line).unwrap();
            assert_eq!(Identity::read(text.as_bytes()), Some(line.identity()));
        }
        let told = said.iter().map(|line| format!("{} {} {}\n", line.ts, line.kind, line.payload));
        expected.assert_eq(&told.collect::<String>());
    }

    #[test]
    fn each_thing_is_said_once() {
        let noted = |error: &str| {
            json!({"event_type": "validation_failed", "errors": [error], "consequence": "c",
                "cause": "output_schema_validation_failed"})
        };
        check(
            &noted("$.summary: \"summary\" is required"),
            &expect![[r#"
                2000-02-29T00:00:00.007Z agent.validation.failed {"specialist_id":"writer","run_id":"run_0123456789ab","session_id":"ses_0123456789ab","seq":7,"message":"Verification failed: $.summary: \"summary\" is required"}
            "#]],
        );
        check(
            &noted(NOT_SUBMITTED),
            &expect![[r#"
                2000-02-29T00:00:00.007Z agent.submit.missing {"specialist_id":"writer","run_id":"run_0123456789ab","session_id":"ses_0123456789ab","seq":7,"message":"Agent did not call submit_result tool"}
            "#]],
        );
        let escalated = |reason: &str, cause: &str| json!({"event_type": "escalated", "from": "small", "to": "large", "reason": reason, "cause": cause});
        check(
            &escalated("$.a: no", "output_schema_validation_failed"),
            &expect![[r#"
            2000-02-29T00:00:00.007Z agent.validation.failed {"specialist_id":"writer","run_id":"run_0123456789ab","session_id":"ses_0123456789ab","seq":7,"message":"Verification failed: $.a: no"}
            2000-02-29T00:00:00.007Z agent.escalated {"specialist_id":"writer","run_id":"run_0123456789ab","session_id":"ses_0123456789ab","seq":7,"from":"small","to":"large","reason":"$.a: no"}
        "#]],
        );
        check(
            &escalated("$: no", "backend_unavailable"),
            &expect![[r#"
                2000-02-29T00:00:00.007Z agent.escalated {"specialist_id":"writer","run_id":"run_0123456789ab","session_id":"ses_0123456789ab","seq":7,"from":"small","to":"large","reason":"$: no"}
            "#]],
        );
        check(
            &escalated(NOT_SUBMITTED, "result_not_submitted"),
            &expect![[r#"
                2000-02-29T00:00:00.007Z agent.submit.missing {"specialist_id":"writer","run_id":"run_0123456789ab","session_id":"ses_0123456789ab","seq":7,"message":"Agent did not call submit_result tool"}
                2000-02-29T00:00:00.007Z agent.escalated {"specialist_id":"writer","run_id":"run_0123456789ab","session_id":"ses_0123456789ab","seq":7,"from":"small","to":"large","reason":"$: no result was submitted"}
            "#]],
        );
    }

    #[test]
    fn an_end_is_told_without_words() {
        check(
            &json!({"event_type": "run_completed", "status": "completed"}),
            &expect![[r#"
                2000-02-29T00:00:00.007Z orchestrator.specialist.completed {"specialist_id":"writer","run_id":"run_0123456789ab","session_id":"ses_0123456789ab","seq":7,"success":true,"status":"completed","backend":"small","first_pass":false,"retries":1,"missing_submits":0,"escalations":0,"tokens":40,"duration_ms":12}
            "#]],
        );
        let failed = |kind: &str| {
            let error = json!({"type": kind, "message": "Verification failed", "last_output": "secret"});
            json!({"event_type": "run_completed", "status": "failed", "error": error})
        };
        check(
            &failed("timeout"),
            &expect![[r#"
                2000-02-29T00:00:00.007Z orchestrator.specialist.completed {"specialist_id":"writer","run_id":"run_0123456789ab","session_id":"ses_0123456789ab","seq":7,"success":false,"status":"failed","backend":"small","first_pass":false,"retries":1,"missing_submits":0,"escalations":0,"tokens":40,"duration_ms":12,"error_code":"timeout"}
            "#]],
        );
        check(
            &failed("result_not_submitted"),
            &expect![[r#"
                2000-02-29T00:00:00.007Z agent.submit.missing {"specialist_id":"writer","run_id":"run_0123456789ab","session_id":"ses_0123456789ab","seq":7,"message":"Agent did not call submit_result tool"}
                2000-02-29T00:00:00.007Z orchestrator.specialist.completed {"specialist_id":"writer","run_id":"run_0123456789ab","session_id":"ses_0123456789ab","seq":7,"success":false,"status":"failed","backend":"small","first_pass":false,"retries":1,"missing_submits":0,"escalations":0,"tokens":40,"duration_ms":12,"error_code":"result_not_submitted"}
            "#]],
        );
    }

    #[test]
    fn what_a_last_reply_lacked_is_told_with_the_end() {
        let errors = json!(["$.summary: required property is missing"]);
        let error =
            json!({"type": "output_schema_validation_failed", "message": "m", "validation_errors": errors});
        check(
            &json!({"event_type": "run_completed", "status": "failed", "error": error}),
            &expect![[r#"
            2000-02-29T00:00:00.007Z agent.validation.failed {"specialist_id":"writer","run_id":"run_0123456789ab","session_id":"ses_0123456789ab","seq":7,"message":"Verification failed: $.summary: required property is missing"}
            2000-02-29T00:00:00.007Z orchestrator.specialist.completed {"specialist_id":"writer","run_id":"run_0123456789ab","session_id":"ses_0123456789ab","seq":7,"success":false,"status":"failed","backend":"small","first_pass":false,"retries":1,"missing_submits":0,"escalations":0,"tokens":40,"duration_ms":12,"error_code":"output_schema_validation_failed"}
        "#]],
        );
    }

    #[test]
    fn a_plan_is_told_without_its_words() {
        let subtask = json!({"id": "t1", "description": "secret", "agent": "researcher", "priority": 1});
        check(
            &json!({"event_type": "plan_created", "round": 1, "subtasks": [subtask]}),
            &expect![[r#"
            2000-02-29T00:00:00.007Z orchestrator.plan.created {"specialist_id":"writer","run_id":"run_0123456789ab","session_id":"ses_0123456789ab","seq":7,"round":1,"subtasks":1,"specialists":["researcher"]}
        "#]],
        );
    }

    #[test]
    fn nothing_is_said_of_anything_else() {
        check(&json!({"event_type": "stop_requested"}), &expect![[""]]);
        check(&json!({"event_type": "of a later version"}), &expect![[""]]);
    }
}
