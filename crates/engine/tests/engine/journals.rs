//! Journals in arbitrary event order: invalid events are refused, and none may panic.

use serde_json::{Value, json};
use slipform_engine::{Action, State, next};
use slipform_types::{EventBody, Outcome, RunErrorType};

/// The number of generated sequences. Every test run generates the same ones.
const SEQUENCES: u64 = 3_000;

/// The maximum length of a sequence.
const EVENTS_MAX: u64 = 24;

fn body(value: &Value) -> EventBody {
    serde_json::from_value(value.clone()).unwrap()
}

fn start(strategy: &str, correction: &str, mode: &str, schema: &Value) -> EventBody {
    start_as(&json!({"name": "agent"}), (strategy, correction, mode), schema)
}

fn start_as(
    blueprint: &Value,
    (strategy, correction, mode): (&str, &str, &str),
    schema: &Value,
) -> EventBody {
    let options = json!({
        "max_retries": 2, "extract_json": true, "strict_json_only": false, "validation_mode": mode,
        "strategy": strategy, "correction": correction, "schema_form": "auto", "reject_placeholders": true,
    });
    let contract = json!({
        "source": "inline", "schema_name": null, "schema": schema, "hash": "sha256:0", "options": options,
        "example": null,
    });
    body(&json!({
        "event_type": "run_start", "type": "start_session", "blueprint": blueprint,
        "contract": contract, "parameters": {}, "input": "The question",
    }))
}

fn attempt(structured_output: &str, rungs: usize) -> EventBody {
    let rung = json!({"tier": "t", "backend": {
        "name": "b", "kind": "openai", "model": "m", "dialect": "openai",
        "structured_output": structured_output, "max_tokens": 100,
    }});
    body(&json!({"event_type": "attempt_started", "ladder": vec![rung; rungs]}))
}

/// Returns an attempt with a tool and an agent to call.
fn attempt_with_tools(structured_output: &str, kind: &str) -> EventBody {
    let rung = json!({"tier": "t", "backend": {
        "name": "b", "kind": kind, "model": "m", "dialect": "openai", "structured_output": structured_output,
    }});
    let parameters = json!({"type": "object", "properties": {"a": {"type": "integer"}}});
    let tool = json!({"name": "fs:t", "description": "d", "parameters": parameters, "hash": "h"});
    let agents = [json!({"name": "other"})];
    body(
        &json!({"event_type": "attempt_started", "ladder": [rung.clone(), rung], "tools": [tool], "agents": agents}),
    )
}

fn message(text: &str, stop: &str, arguments: Option<&str>) -> EventBody {
    let calls: Vec<Value> = arguments
        .into_iter()
        .map(|arguments| json!({"id": "c", "name": "submit_result", "arguments": arguments}))
        .collect();
    called(text, stop, &calls)
}

fn called(text: &str, stop: &str, calls: &[Value]) -> EventBody {
    body(&json!({
        "event_type": "message", "role": "assistant", "content": text,
        "reply": {"text": "", "stop": {"reason": stop, "message": "no"}, "tool_calls": calls},
    }))
}

/// The linear congruential generator of MMIX, sufficient for choosing events.
struct Random(u64);

impl Random {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }

    fn pick<'a, T: ?Sized>(&mut self, list: &[&'a T]) -> &'a T {
        list[self.roll(list.len() as u64) as usize]
    }
}

const TEXTS: [&str; 19] = [
    "{\"action\": \"USE_TOOL\", \"reasoning\": \"\", \"content\": \"\", \"tool\": \"fs:t\", \"parameters\": {\"a\": 1}}",
    "{\"action\": \"AGENT_CALL\", \"reasoning\": \"\", \"content\": \"do\", \"target_agent\": \"other\"}",
    "{\"action\": \"NORMAL_RESPONSE\", \"reasoning\": \"\", \"content\": \"{}\", \"parameters\": {\"a\": \"x\", \"b\": []}}",
    "{\"action\": \"NORMAL_RESPONSE\", \"reasoning\": \"\", \"content\": \"[1]\"}",
    "{\"agent_name\": \"other\", \"prompt\": \"do\"}",
    "",
    "no",
    "{}",
    "[]",
    "{\"a\": 1}",
    "{\"a\": \"x\", \"b\": [1, {\"c\": \"é",
    "{\"a\": \"content\", \"b\": [1, 2]}",
    "{\"a\": \"test\", \"b\": []}",
    "{\"/a\": \"x\", \"/b/0\": 1}",
    "[{\"op\": \"add\", \"path\": \"/b/-\", \"value\": 7}, {\"op\": \"remove\", \"path\": \"/b/0\"}]",
    "[{\"op\": \"remove\", \"path\": \"\"}, {\"op\": \"add\", \"path\": \"/b/99\", \"value\": 7}]",
    "{\"result\": {\"a\": 1}}",
    "{\"custom_fields\": {\"a\": \"x\", \"b\": []}}",
    "{\"type\": \"object\", \"properties\": {}}",
];

fn random_event(random: &mut Random) -> EventBody {
    match random.roll(18) {
        12 => body(&json!({"event_type": "tools_failed", "error": "none"})),
        13 => body(&json!({"event_type": "paths_checked", "present": [], "missing": ["a"]})),
        14 | 15 => {
            let id = random.pick(&["c", "act", "act-1-1", "opening-1", "program", "x"]);
            let error = (random.roll(2) == 0).then_some("failed");
            let output = json!({"stdout": random.pick(&TEXTS), "path": "a"});
            body(&json!({
                "event_type": "post_tool", "call_id": id, "tool_name": "fs:t", "tool_output": output, "error": error,
            }))
        }
        16 => body(&json!({
            "event_type": "child_started", "call_id": random.pick(&["c", "act"]), "agent_name": "other",
            "child_session_id": "ses_000000000001", "child_run_id": "run_000000000001",
            "execution_mode": random.pick(&["sync", "async_callback"]),
        })),
        17 => body(&json!({
            "event_type": "child_completed", "agent_name": "other", "child_session_id": "ses_000000000001",
            "child_run_id": "run_000000000001", "status": random.pick(&["completed", "failed"]),
        })),
        0 => body(&json!({"event_type": "stop_requested"})),
        1 => body(&json!({"event_type": "deadline_reached"})),
        2 => attempt(random.pick(&["auto", "prompt", "tool"]), random.roll(3) as usize),
        3 => body(&json!({"event_type": "validation_failed", "errors": ["$: x"], "consequence": "y"})),
        4 => {
            let (kind, status) = (random.pick(&["unavailable", "rejected"]), random.roll(600));
            body(
                &json!({"event_type": "call_failed", "error": {"kind": kind, "status": status, "message": "m"}}),
            )
        }
        _ => {
            let stop = random.pick(&[
                "finished",
                "finished",
                "finished",
                "length",
                "tool_calls",
                "refused",
                "filtered",
            ]);
            let arguments = random.pick(&TEXTS);
            let names =
                ["submit_result", "fs_t", "fs:t", "start_agent_session", "resume_agent_session", "nothing"];
            let calls: Vec<Value> = (0..random.roll(4))
                .map(|_| json!({"id": random.pick(&["c", "d", ""]), "name": random.pick(&names), "arguments": arguments}))
                .collect();
            called(random.pick(&TEXTS), stop, &calls)
        }
    }
}

#[test]
fn arbitrary_event_order_does_not_panic() {
    let object = json!({
        "type": "object", "required": ["a", "b"],
        "properties": {"a": {"type": "string"}, "b": {"type": "array", "items": {"type": "integer"}}},
    });
    let schemas =
        [object.clone(), json!({"type": "array", "items": object}), json!(true), json!({"not": {}})];
    for seed in 0..SEQUENCES {
        let random = &mut Random(seed);
        let mut state = State::default();
        let strategy = random.pick(&["auto", "prompt", "system_prompt", "tool", "native"]);
        let correction = random.pick(&["auto", "patch", "full"]);
        let schema = &schemas[random.roll(schemas.len() as u64) as usize];
        let first = start(strategy, correction, random.pick(&["strict", "lenient"]), schema);
        let ladder =
            attempt(random.pick(&["auto", "tool", "universal", "json_object"]), 1 + random.roll(2) as usize);
        let mut events = vec![first, ladder];
        if random.roll(2) == 0 {
            let blueprint = json!({
                "name": "agent", "protocol": random.pick(&["tools", "actions"]), "cites": ["$.a"],
                "limits": {"max_steps": 1 + random.roll(5), "max_tool_calls": 1 + random.roll(5)},
                "opening": if random.roll(2) == 0 { json!([{"tool": "fs:t"}]) } else { json!([]) },
            });
            let how = (strategy, correction, "strict");
            let kind = random.pick(&["openai", "completions", "embedded", "command"]);
            events = vec![
                start_as(&blueprint, how, schema),
                attempt_with_tools(random.pick(&["auto", "prompt", "tool"]), kind),
            ];
        }
        let mut accepted: Vec<EventBody> = Vec::new();
        for _ in 0..random.roll(EVENTS_MAX) {
            // Mostly the event that a runner would append, so that runs make progress; sometimes an
            // arbitrary one.
            let wild = random.roll(4) == 0;
            events.push(match next(&state) {
                Some(Action::Note(note)) if !wild => *note,
                Some(Action::Tools(calls)) if !wild => body(&json!({
                    "event_type": "post_tool", "call_id": calls[0].call_id, "tool_name": calls[0].name,
                    "tool_output": {"path": "x"},
                })),
                Some(Action::VerifyPaths(paths)) if !wild => {
                    body(&json!({"event_type": "paths_checked", "present": paths, "missing": []}))
                }
                _ => random_event(random),
            });
            for event in events.drain(..) {
                // A refused event leaves the state unchanged.
                if state.fold(&event).is_ok() {
                    accepted.push(event);
                }
            }
        }
        assert_eq!(
            next(&fold_all(&accepted)),
            next(&state),
            "sequence {seed}: the same journal, another action"
        );
        if let Some(Outcome::Completed(success)) = state.outcome() {
            let schema = slipform_schema::Schema::compile(schema).unwrap();
            assert!(schema.is_valid(success.result_data.as_ref().unwrap()), "sequence {seed}");
        }
    }
}

fn fold_all(bodies: &[EventBody]) -> State {
    let mut state = State::default();
    for body in bodies {
        state.fold(body).unwrap();
    }
    state
}

fn started_journal() -> Vec<EventBody> {
    let schema = json!({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]});
    vec![start("prompt", "full", "strict", &schema), attempt("prompt", 1)]
}

#[test]
fn reply_received_after_stop_is_kept() {
    let mut journal = started_journal();
    journal.push(body(&json!({"event_type": "stop_requested"})));
    journal.push(message("{\"a\": 1}", "finished", None));
    let state = fold_all(&journal);
    let Some(Outcome::Failed(failure)) = state.outcome() else { unreachable!("the run was stopped") };
    assert_eq!(failure.error.kind, RunErrorType::Stopped);
    assert_eq!(failure.salvage.replies, ["{\"a\": 1}"]);
    assert_eq!(failure.receipt.calls, 1);
}

#[test]
fn decision_appended_after_stop_is_accepted() {
    let mut journal = started_journal();
    journal.push(message("no", "finished", None));
    let Some(Action::Note(note)) = next(&fold_all(&journal)) else { unreachable!("a retry is noted") };
    journal.push(body(&json!({"event_type": "stop_requested"})));
    journal.push(*note);
    let state = fold_all(&journal);
    assert!(matches!(next(&state), Some(Action::Finish(_))));
    assert_eq!(state.calls(), 1);
}

#[test]
fn outcome_before_stop_or_deadline_is_kept() {
    for late in ["stop_requested", "deadline_reached"] {
        let mut journal = started_journal();
        journal.push(message("{\"a\": 1}", "finished", None));
        journal.push(body(&json!({"event_type": late})));
        assert!(matches!(fold_all(&journal).outcome(), Some(Outcome::Completed(_))), "{late}");
    }
}

#[test]
fn invalid_journal_is_refused_with_its_reason() {
    let reply = message("x", "finished", None);
    let done = body(&json!({"event_type": "run_completed", "status": "failed"}));
    let cases = [
        (vec![reply.clone()], "`message` without a pending model call"),
        (vec![started_journal().remove(1)], "`attempt_started` without `run_start` or without a backend"),
        (
            vec![started_journal().remove(0), started_journal().remove(0)],
            "a second `run_start` in the same run",
        ),
        ([started_journal(), vec![done, reply]].concat(), "an event follows run_completed"),
    ];
    for (journal, expected) in cases {
        let mut state = State::default();
        let error = journal.iter().find_map(|body| state.fold(body).err()).unwrap();
        assert_eq!(error.to_string(), format!("the journal is invalid: {expected}"));
    }
}
