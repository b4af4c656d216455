//! Converts events into lines.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use slipform_store::{Milestone, RunFacts, StoredEvent};
use slipform_types::{EventBody, NOT_SUBMITTED, RUN_FAILS, RunError, RunErrorType, RunStatus, timestamp};

/// A run has ended.
const COMPLETED: &str = "orchestrator.specialist.completed";

/// A model should have called `submit_result` and did not.
const SUBMIT_MISSING: &str = "agent.submit.missing";

/// A reply did not satisfy the contract.
const VALIDATION_FAILED: &str = "agent.validation.failed";

/// An orchestrator planned its subtasks.
const PLAN_CREATED: &str = "orchestrator.plan.created";

/// A run moved to the next tier.
const ESCALATED: &str = "agent.escalated";

/// A line of the file.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Line {
    #[serde(rename = "type")]
    pub(super) kind: &'static str,
    pub(super) ts: String,
    pub(super) payload: Value,
}

/// Identifies a line. An event yields at most one line per type.
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
    /// Reads the identity of a line in a file. Returns `None` for lines in another format.
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

/// Returns the lines for an event. They contain no prompts or replies, only validation messages.
pub(super) fn lines(milestone: &Milestone) -> Vec<Line> {
    let Milestone { event, run: Some(run) } = milestone else { return Vec::new() };
    let Ok(body) = serde_json::from_str::<EventBody>(&event.body) else { return Vec::new() };
    let line = |kind, more| line(kind, event, run, more);
    let line_of = |(kind, more)| line(kind, more);
    match &body {
        // The end of the run has the same errors, and journals of earlier versions have only the end.
        EventBody::ValidationFailed { consequence, .. } if consequence == RUN_FAILS => Vec::new(),
        EventBody::ValidationFailed { errors, cause, .. } => {
            failed_reply(*cause, errors).map(line_of).into_iter().collect()
        }
        EventBody::Escalated { from, to, reason, cause, .. } => {
            let escalated = line(ESCALATED, json!({"from": from, "to": to, "reason": reason}));
            let failed_reply = failed_reply(*cause, std::slice::from_ref(reason)).map(line_of);
            failed_reply.into_iter().chain([escalated]).collect()
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
            // The line of the last failed validation is derived from the end.
            let last = error.and_then(|error| failed_reply(Some(error.kind), &error.validation_errors));
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

/// Returns the type and payload of a failed reply, or `None` if the failure is not about its content.
/// Journals of earlier versions have no `cause`.
fn failed_reply(cause: Option<RunErrorType>, errors: &[String]) -> Option<(&'static str, Value)> {
    let is_missing = errors.iter().any(|error| error == NOT_SUBMITTED);
    match cause {
        _ if is_missing => {
            Some((SUBMIT_MISSING, json!({"message": "Agent did not call submit_result tool"})))
        }
        Some(RunErrorType::ResultNotSubmitted) if errors.is_empty() => {
            failed_reply(cause, &[NOT_SUBMITTED.to_owned()])
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

/// Returns the payload for the end of a run. It has an error code but no message, so that a text search finds
/// each failure once.
fn completed(run: &RunFacts, status: RunStatus, error: Option<&RunError>) -> Value {
    let success = status == RunStatus::Completed && !run.is_reported_error;
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
    if run.is_reported_error {
        payload["reported_error"] = json!(true);
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
    use slipform_types::EventKind;

    use super::*;

    fn check(body: &Value, expected: &Expect) {
        let event = StoredEvent {
            position: Position::default(),
            seq: 7,
            session_id: "ses_0123456789ab".parse().unwrap(),
            run_id: "run_0123456789ab".parse().unwrap(),
            at: 951_782_400_007,
            kind: EventKind::named(body["event_type"].as_str().unwrap()).unwrap(),
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
        let lines = lines(&Milestone { event, run: Some(run) });
        for line in &lines {
            let text = serde_json::to_string(line).unwrap();
            assert_eq!(Identity::read(text.as_bytes()), Some(line.identity()));
        }
        let rendered = lines.iter().map(|line| format!("{} {} {}\n", line.ts, line.kind, line.payload));
        expected.assert_eq(&rendered.collect::<String>());
    }

    #[test]
    fn each_failure_has_one_line() {
        let failed_validation = |error: &str| {
            json!({"event_type": "validation_failed", "errors": [error], "consequence": "c",
                "cause": "output_schema_validation_failed"})
        };
        check(
            &failed_validation("$.summary: \"summary\" is required"),
            &expect![[r#"
                2000-02-29T00:00:00.007Z agent.validation.failed {"specialist_id":"writer","run_id":"run_0123456789ab","session_id":"ses_0123456789ab","seq":7,"message":"Verification failed: $.summary: \"summary\" is required"}
            "#]],
        );
        check(
            &failed_validation(NOT_SUBMITTED),
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
    fn end_has_error_code_but_no_message() {
        check(
            &json!({"event_type": "run_completed", "status": "completed"}),
            &expect![[r#"
                2000-02-29T00:00:00.007Z orchestrator.specialist.completed {"specialist_id":"writer","run_id":"run_0123456789ab","session_id":"ses_0123456789ab","seq":7,"success":true,"status":"completed","backend":"small","first_pass":false,"retries":1,"missing_submits":0,"escalations":0,"tokens":40,"duration_ms":12}
            "#]],
        );
        let reported =
            RunFacts { agent_name: "writer".to_owned(), is_reported_error: true, ..RunFacts::default() };
        let payload = completed(&reported, RunStatus::Completed, None);
        assert_eq!((&payload["success"], &payload["reported_error"]), (&json!(false), &json!(true)));
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
    fn last_failed_validation_is_derived_from_the_end() {
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
    fn last_failed_validation_has_no_second_line() {
        check(
            &json!({"event_type": "validation_failed", "errors": ["$.a: no"], "consequence": "the run fails",
                "cause": "output_schema_validation_failed"}),
            &expect![[""]],
        );
    }

    #[test]
    fn plan_line_has_no_descriptions() {
        let subtask = json!({"id": "t1", "description": "secret", "agent": "researcher", "priority": 1});
        check(
            &json!({"event_type": "plan_created", "round": 1, "subtasks": [subtask]}),
            &expect![[r#"
            2000-02-29T00:00:00.007Z orchestrator.plan.created {"specialist_id":"writer","run_id":"run_0123456789ab","session_id":"ses_0123456789ab","seq":7,"round":1,"subtasks":1,"specialists":["researcher"]}
        "#]],
        );
    }

    #[test]
    fn other_events_have_no_line() {
        check(&json!({"event_type": "stop_requested"}), &expect![[""]]);
    }
}
