//! The agent and the request bodies of a run, with events of realistic size.

use serde_json::json;

/// The agent file. Its output schema makes the server validate every result.
pub(crate) const AGENT: &str = r#"name: reviewer
description: Reviews a change
system_prompt: You are a thorough code reviewer. Say what is wrong, where, and what to do about it.
output_schema:
  type: object
  required: [summary, issues]
  properties:
    summary: {type: string, description: Brief summary}
    issues:
      type: array
      items:
        type: object
        required: [file, severity]
        properties:
          file: {type: string}
          severity: {type: string, enum: [low, medium, high]}
"#;

/// The body of `POST /runs`.
pub(crate) const SUBMIT: &str = r#"{"type":"start_session","agent_name":"reviewer","prompt":"Review the change and list every issue with its file and severity."}"#;

/// The number of events that a runner appends one by one.
pub(crate) const APPENDS: usize = 4;

/// Events per run: `run_start`, the appended ones, `result` and `run_completed`.
pub(crate) const EVENTS: usize = 1 + APPENDS + 2;

/// Requests per run: create, claim, four appends, finish.
pub(crate) const REQUESTS: usize = 2 + APPENDS + 1;

/// The events that a runner sends, as JSON texts.
pub(crate) struct Bodies {
    /// One event per append request.
    pub(crate) appends: [String; APPENDS],
    /// The two events of the finish request.
    pub(crate) finish: [String; 2],
}

impl Bodies {
    pub(crate) fn new() -> Bodies {
        let usage = json!({"input": 412, "output": 96});
        let ladder = json!([{"tier": "default", "backend": {"name": "local", "kind": "openai", "model": "qwen3-8b-instruct",
            "structured_output": "auto", "dialect": "open_ai", "small": false,
            "capabilities": {"json_schema": "enforced", "json_object": "accepted", "tools": "accepted", "forced_tools": "unknown"}}}]);
        let started = json!({"event_type": "attempt_started", "ladder": ladder});
        let call = json!({"id": "call_1", "name": "read_file", "arguments": "{\"path\": \"src/store/journal.rs\", \"from\": 1, \"to\": 80}"});
        let asks = json!({"event_type": "message", "role": "assistant", "content": "I read the file that the change touches first.",
            "reply": {"text": "I read the file that the change touches first.", "tool_calls": [call],
                      "stop": {"reason": "tool_calls"}, "usage": usage, "model": "qwen3-8b-instruct"}});
        let tool = json!({"event_type": "post_tool", "call_id": "call_1", "tool_name": "read_file",
            "tool_output": "fn write(rows: &[Row]) -> Result<i64, Error> {\n    let last = rows.len();\n    for row in rows {\n        let _ = insert(row);\n    }\n    Ok(last as i64)\n}\n// The error of insert is dropped here and never reported.\n"});
        let text = "{\"summary\": \"One error is dropped.\", \"issues\": [{\"file\": \"src/store/journal.rs\", \"severity\": \"high\"}]}";
        let answers = json!({"event_type": "message", "role": "assistant", "content": text,
            "reply": {"text": text, "stop": {"reason": "finished"}, "usage": usage, "model": "qwen3-8b-instruct"}});
        let result = json!({"event_type": "result", "result_text": null,
            "result_data": {"summary": "One error is dropped.", "issues": [{"file": "src/store/journal.rs", "severity": "high"}]},
            "receipt": {"strategy": "native", "calls": 2, "retries": 0, "repairs": [], "tokens": {"input": 824, "output": 192},
                        "rungs": [{"tier": "default", "backend": "local", "calls": 2}], "schema_hash": null, "unenforced": [], "flags": []}});
        let ended = json!({"event_type": "run_completed", "status": "completed"});
        Bodies {
            appends: [started, asks, tool, answers].map(|body| body.to_string()),
            finish: [result, ended].map(|body| body.to_string()),
        }
    }
}
