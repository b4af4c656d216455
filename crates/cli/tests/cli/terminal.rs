//! Escape sequences in texts of models, programs and agents are shown on a terminal, not interpreted. Other programs get
//! the bytes as they are.

use serde_json::json;
use slipform_testkit::{ScriptedServer, Step};

use crate::support::Project;

/// Sets the title of a terminal, colours text, and does so with the one-character form of the escape sequence.
const HOSTILE: &str = "\u{1b}]0;owned\u{7}\u{1b}[31m\u{9b}31m\u{7f}\u{202e}";

/// Checks that a terminal received none of the hostile characters, except the ones with which it redraws lines.
fn assert_shown(what: &str, text: &str) {
    for hostile in ["\u{1b}]", "\u{7}", "\u{1b}[31m", "\u{9b}", "\u{7f}", "\u{202e}"] {
        assert!(!text.contains(hostile), "{what}: {hostile:?} in {text:?}");
    }
}

#[test]
fn escape_sequences_of_results_and_events_are_shown_on_a_terminal() {
    let answer = format!("answer {HOSTILE}");
    let model = ScriptedServer::respond(move |request, _| {
        if request.body["response_format"].is_object() || request.body["tools"].is_array() {
            Step::json(&json!({"note": HOSTILE}))
        } else {
            Step::text(&answer)
        }
    });
    let agent = json!({"name": "clerk", "description": format!("described {HOSTILE}")});
    let failing = json!({"name": "fails", "type": "procedural", "command": ["sh", "-c", "printf '\\033]0;owned\\007' >&2; exit 1"]});
    let project = Project::new("terminal")
        .backend(&model.base_url())
        .file("agents/clerk.json", &agent.to_string())
        .file("agents/fails.json", &failing.to_string())
        .file(
            "schemas/note.json",
            r#"{"type": "object", "required": ["note"], "properties": {"note": {"type": "string"}}}"#,
        );
    let piped = project.run(&["run", "clerk", "-p", "Hello"]);
    assert_eq!(piped.stdout, format!("answer {HOSTILE}\n"), "{}", piped.all());
    let runs = project.run(&["runs", "list", "--json"]).json();
    let session = runs["runs"][0]["session_id"].as_str().unwrap().to_owned();
    let run = runs["runs"][0]["run_id"].as_str().unwrap().to_owned();
    for (arguments, shown) in [
        (vec!["run", "clerk", "-p", "Hello"], "answer \\u{1b}]0;owned"),
        (
            vec!["run", "clerk", "-p", "Hello", "--json"],
            "answer \\u001b]0;owned\\u0007\\u001b[31m\\u009b31m\\u007f\\u202e",
        ),
        (vec!["run", "clerk", "-p", "Hello", "--pretty"], "answer \\u{1b}]0;owned"),
        (vec!["run", "clerk", "-p", "Hello", "--schema", "note"], "\\u009b31m"),
        (vec!["sessions", "result", &session], "answer \\u{1b}]0;owned"),
        (vec!["sessions", "events", &session], "answer \\u{1b}]0;owned"),
        (vec!["sessions", "events", &session, "--json"], "\\u009b31m"),
        (vec!["sessions", "show", &session], "clerk"),
        (vec!["runs", "list"], "clerk"),
        (vec!["runs", "show", &run], "clerk"),
        (vec!["agents", "list"], "described \\u{1b}]0;owned"),
        (vec!["agents", "show", "clerk"], "described \\u{1b}]0;owned"),
        (vec!["stats"], "clerk"),
        (vec!["run", "fails", "-p", "x"], "\\u{1b}]0;owned"),
        (vec!["run", "\u{9b}31m", "-p", "x"], "\\u{9b}31m"),
    ] {
        let what = arguments.join(" ");
        let text = project.run_on_terminal(&arguments);
        assert_shown(&what, &text);
        assert!(text.contains(shown), "{what}: {text:?}");
    }
}

#[test]
fn checked_json_is_escaped_on_a_terminal_only() {
    let line = json!({"id": 1, "text": json!({"note": HOSTILE}).to_string()}).to_string();
    let project = Project::new("terminal-check").file("lines.jsonl", &line);
    let arguments = ["check", "--jsonl", "lines.jsonl"];
    let piped = project.run(&arguments);
    assert_eq!(piped.json()["value"]["note"], HOSTILE, "{}", piped.all());
    assert!(piped.stdout.contains('\u{9b}'), "{}", piped.all());
    let text = project.run_on_terminal(&arguments);
    assert_shown("check", &text);
    assert!(text.contains("\\u009b31m"), "{text:?}");
}
