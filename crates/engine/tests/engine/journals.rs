//! Journals in orders that the engine did not ask for: some are told apart, none may panic.

use serde_json::{Value, json};
use slipform_engine::{Action, State, next};
use slipform_types::{EventBody, Outcome, RunErrorType};

/// Sequences that are tried; each is different and every run tries the same ones.
const SEQUENCES: u64 = 3_000;

/// The longest sequence.
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

/// The same with something to call.
fn acting(structured_output: &str, kind: &str) -> EventBody {
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

/// The figures of Knuth's MMIX: plenty for choosing events.
struct Dice(u64);

impl Dice {
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

fn random(dice: &mut Dice) -> EventBody {
    match dice.roll(18) {
        12 => body(&json!({"event_type": "tools_failed", "error": "none"})),
        13 => body(&json!({"event_type": "paths_checked", "present": [], "missing": ["a"]})),
        14 | 15 => {
            let id = dice.pick(&["c", "act", "act-1-1", "opening-1", "program", "x"]);
            let error = (dice.roll(2) == 0).then_some("failed");
            let output = json!({"stdout": dice.pick(&TEXTS), "path": "a"});
            body(&json!({
                "event_type": "post_tool", "call_id": id, "tool_name": "fs:t", "tool_output": output, "error": error,
            }))
        }
        16 => body(&json!({
            "event_type": "child_started", "call_id": dice.pick(&["c", "act"]), "agent_name": "other",
            "child_session_id": "ses_000000000001", "child_run_id": "run_000000000001",
            "execution_mode": dice.pick(&["sync", "async_callback"]),
        })),
        17 => body(&json!({
            "event_type": "child_completed", "agent_name": "other", "child_session_id": "ses_000000000001",
            "child_run_id": "run_000000000001", "status": dice.pick(&["completed", "failed"]),
        })),
        0 => body(&json!({"event_type": "stop_requested"})),
        1 => body(&json!({"event_type": "deadline_reached"})),
        2 => attempt(dice.pick(&["auto", "prompt", "tool"]), dice.roll(3) as usize),
        3 => body(&json!({"event_type": "validation_failed", "errors": ["$: x"], "consequence": "y"})),
        4 => {
            let (kind, status) = (dice.pick(&["unavailable", "rejected"]), dice.roll(600));
            body(
                &json!({"event_type": "call_failed", "error": {"kind": kind, "status": status, "message": "m"}}),
            )
        }
        _ => {
            let stop = dice.pick(&[
                "finished",
                "finished",
                "finished",
                "length",
                "tool_calls",
                "refused",
                "filtered",
            ]);
            let arguments = dice.pick(&TEXTS);
            let names =
                ["submit_result", "fs_t", "fs:t", "start_agent_session", "resume_agent_session", "nothing"];
            let calls: Vec<Value> = (0..dice.roll(4))
                .map(|_| json!({"id": dice.pick(&["c", "d", ""]), "name": dice.pick(&names), "arguments": arguments}))
                .collect();
            called(dice.pick(&TEXTS), stop, &calls)
        }
    }
}

#[test]
fn no_order_of_events_panics() {
    let object = json!({
        "type": "object", "required": ["a", "b"],
        "properties": {"a": {"type": "string"}, "b": {"type": "array", "items": {"type": "integer"}}},
    });
    let schemas =
        [object.clone(), json!({"type": "array", "items": object}), json!(true), json!({"not": {}})];
    for seed in 0..SEQUENCES {
        let dice = &mut Dice(seed);
        let mut state = State::default();
        let strategy = dice.pick(&["auto", "prompt", "system_prompt", "tool", "native"]);
        let correction = dice.pick(&["auto", "patch", "full"]);
        let schema = &schemas[dice.roll(schemas.len() as u64) as usize];
        let first = start(strategy, correction, dice.pick(&["strict", "lenient"]), schema);
        let ladder =
            attempt(dice.pick(&["auto", "tool", "universal", "json_object"]), 1 + dice.roll(2) as usize);
        let mut events = vec![first, ladder];
        if dice.roll(2) == 0 {
            let blueprint = json!({
                "name": "agent", "protocol": dice.pick(&["tools", "actions"]), "cites": ["$.a"],
                "limits": {"max_steps": 1 + dice.roll(5), "max_tool_calls": 1 + dice.roll(5)},
                "opening": if dice.roll(2) == 0 { json!([{"tool": "fs:t"}]) } else { json!([]) },
            });
            let how = (strategy, correction, "strict");
            let kind = dice.pick(&["openai", "completions", "embedded", "command"]);
            events =
                vec![start_as(&blueprint, how, schema), acting(dice.pick(&["auto", "prompt", "tool"]), kind)];
        }
        let mut accepted: Vec<EventBody> = Vec::new();
        for _ in 0..dice.roll(EVENTS_MAX) {
            // A wild event now and then; mostly what a runner would append, so that runs get somewhere.
            let wild = dice.roll(4) == 0;
            events.push(match next(&state) {
                Some(Action::Note(note)) if !wild => *note,
                Some(Action::Tools(calls)) if !wild => body(&json!({
                    "event_type": "post_tool", "call_id": calls[0].call_id, "tool_name": calls[0].name,
                    "tool_output": {"path": "x"},
                })),
                Some(Action::Look(paths)) if !wild => {
                    body(&json!({"event_type": "paths_checked", "present": paths, "missing": []}))
                }
                _ => random(dice),
            });
            for event in events.drain(..) {
                // Refused events leave the run where it was, and the next one is tried.
                if state.fold(&event).is_ok() {
                    accepted.push(event);
                }
            }
        }
        assert_eq!(
            next(&folded(&accepted)),
            next(&state),
            "sequence {seed}: the same journal, another action"
        );
        if let Some(Outcome::Completed(success)) = state.outcome() {
            let schema = slipform_schema::Schema::compile(schema).unwrap();
            assert!(schema.is_valid(success.result_data.as_ref().unwrap()), "sequence {seed}");
        }
    }
}

fn folded(bodies: &[EventBody]) -> State {
    let mut state = State::default();
    for body in bodies {
        state.fold(body).unwrap();
    }
    state
}

fn begun() -> Vec<EventBody> {
    let schema = json!({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]});
    vec![start("prompt", "full", "strict", &schema), attempt("prompt", 1)]
}

#[test]
fn a_reply_that_was_under_way_at_the_stop_is_kept() {
    let mut journal = begun();
    journal.push(body(&json!({"event_type": "stop_requested"})));
    journal.push(message("{\"a\": 1}", "finished", None));
    let state = folded(&journal);
    let Some(Outcome::Failed(failure)) = state.outcome() else { unreachable!("the run was stopped") };
    assert_eq!(failure.error.kind, RunErrorType::Stopped);
    assert_eq!(failure.salvage.replies, ["{\"a\": 1}"]);
    assert_eq!(failure.receipt.calls, 1);
}

#[test]
fn a_decision_that_was_under_way_at_the_stop_does_not_break_the_journal() {
    let mut journal = begun();
    journal.push(message("no", "finished", None));
    let Some(Action::Note(note)) = next(&folded(&journal)) else { unreachable!("a retry is noted") };
    journal.push(body(&json!({"event_type": "stop_requested"})));
    journal.push(*note);
    let state = folded(&journal);
    assert!(matches!(next(&state), Some(Action::Finish(_))));
    assert_eq!(state.calls(), 1);
}

#[test]
fn what_was_decided_before_the_stop_stands() {
    for late in ["stop_requested", "deadline_reached"] {
        let mut journal = begun();
        journal.push(message("{\"a\": 1}", "finished", None));
        journal.push(body(&json!({"event_type": late})));
        assert!(matches!(folded(&journal).outcome(), Some(Outcome::Completed(_))), "{late}");
    }
}

#[test]
fn broken_journals_are_told_apart() {
    let reply = message("x", "finished", None);
    let done = body(&json!({"event_type": "run_completed", "status": "failed"}));
    let cases = [
        (vec![reply.clone()], "a reply came to no question"),
        (vec![begun().remove(1)], "an attempt has no run or no backend"),
        (vec![begun().remove(0), begun().remove(0)], "a run starts twice"),
        ([begun(), vec![done, reply]].concat(), "an event follows run_completed"),
    ];
    for (journal, expected) in cases {
        let mut state = State::default();
        let error = journal.iter().find_map(|body| state.fold(body).err()).unwrap();
        assert_eq!(error.to_string(), format!("the journal is broken: {expected}"));
    }
}
