//! Tools that the client executes: which calls it gets, and what happens while they are corrected.

use serde_json::{Value, json};
use slipform_testkit::{Script, ScriptedServer, Step};

use super::support::{chat, gateway, post, streamed, two_backends, with_tool};
use crate::support::{Project, serve};

/// Returns the first choice of an answer.
fn choice(answered: &Value) -> &Value {
    &answered["choices"][0]
}

/// Returns the arguments of all calls of an answer.
fn arguments(answered: &Value) -> Vec<Value> {
    let calls = choice(answered)["message"]["tool_calls"].as_array().expect("calls");
    let texts = calls.iter().map(|call| call["function"]["arguments"].as_str().unwrap());
    texts.map(|text| serde_json::from_str(text).unwrap()).collect()
}

/// A required tool with an optional parameter.
fn with_nickname() -> Value {
    let parameters = json!({
        "type": "object",
        "properties": {"name": {"type": "string"}, "nick": {"type": "string"}},
        "required": ["name"],
        "additionalProperties": false,
    });
    let function = json!({"name": "save_person", "parameters": parameters});
    json!({"tools": [{"type": "function", "function": function}], "tool_choice": "required"})
}

#[test]
fn nulls_for_omitted_arguments_lose_no_call_of_a_required_tool() {
    let calls = Step::tool("save_person", json!({"name": "Ada", "nick": null}))
        .and_tool("save_person", json!({"name": "Bob", "nick": null}));
    let (_server, address, upstream) = gateway("gateway-nulls", [calls]);
    let answered = post(&address, &chat("scripted", &with_nickname())).json();
    assert_eq!(arguments(&answered), [json!({"name": "Ada"}), json!({"name": "Bob"})], "{answered}");
    assert_eq!(upstream.requests().len(), 1);
}

#[test]
fn first_call_is_used_where_only_one_is_wanted() {
    let calls = || {
        Step::tool("save_person", json!({"name": "Ada", "age": 36}))
            .and_tool("save_person", json!({"name": "Bob", "age": 1}))
    };
    let (_server, address, upstream) = gateway("gateway-one-call", [calls(), calls()]);
    for choice in ["auto", "required"] {
        let mut body = chat("scripted", &with_tool(&json!(choice)));
        body["parallel_tool_calls"] = json!(false);
        let answered = post(&address, &body).json();
        assert_eq!(arguments(&answered), [json!({"name": "Ada", "age": 36})], "{answered}");
        assert!(
            answered["slipform"]["receipt"]["flags"].to_string().contains("submitted_twice"),
            "{answered}"
        );
    }
    assert_eq!(upstream.requests().len(), 2);
}

#[test]
fn only_allowed_tools_reach_the_backend() {
    let (_server, address, upstream) =
        gateway("gateway-allowed", [Step::tool("ping", json!({})), Step::tool("ping", json!({}))]);
    let function = |name: &str| json!({"type": "function", "function": {"name": name}});
    let body = |mode: &str, names: &[&str]| {
        let tools: Vec<Value> = ["ping", "drop_tables"].map(function).into();
        let allowed: Vec<Value> = names.iter().map(|name| function(name)).collect();
        let allowed = json!({"mode": mode, "tools": allowed});
        let choice = json!({"type": "allowed_tools", "allowed_tools": allowed});
        chat("scripted", &json!({"tools": tools, "tool_choice": choice}))
    };
    for mode in ["auto", "required"] {
        let answered = post(&address, &body(mode, &["ping"])).json();
        assert_eq!(choice(&answered)["message"]["tool_calls"][0]["function"]["name"], "ping", "{answered}");
    }
    for request in upstream.requests() {
        let names: Vec<&Value> =
            request.body["tools"].as_array().unwrap().iter().map(|tool| &tool["function"]["name"]).collect();
        assert_eq!(names, ["ping"]);
    }
    for refused in [body("auto", &["unknown"]), body("sometimes", &["ping"]), body("required", &[])] {
        let answered = post(&address, &refused);
        let error = &answered.json()["error"];
        assert_eq!((answered.status, &error["param"]), (400, &json!("tool_choice")), "{error}");
    }
}

#[test]
fn unreadable_choice_of_a_tool_is_refused() {
    let (_server, address, upstream) = gateway("gateway-choice", [Step::text("Hello.")]);
    let body = chat("scripted", &with_tool(&json!("CHOICE"))).to_string();
    let body = body
        .replace("\"CHOICE\"", r#"{"type": "function", "function": {"name": "save_person"}, "x": 1e999}"#);
    let answered = super::support::post_text(&address, &body);
    assert_eq!((answered.status, &answered.json()["error"]["param"]), (400, &json!("tool_choice")));
    assert!(upstream.requests().is_empty());
}

#[test]
fn parameters_that_no_object_satisfies_are_refused() {
    let (_server, address, upstream) = gateway("gateway-parameters", [Step::tool("ping", json!({}))]);
    let with = |parameters: Value| {
        let tool = json!({"type": "function", "function": {"name": "ping", "parameters": parameters}});
        chat("scripted", &json!({"tools": [tool]}))
    };
    for parameters in [json!({"type": "array"}), json!({"type": ["string", "null"]}), json!(false)] {
        let answered = post(&address, &with(parameters.clone()));
        let error = &answered.json()["error"];
        assert_eq!((answered.status, &error["code"]), (400, &json!("invalid_json_schema")), "{parameters}");
        assert_eq!(error["param"], "tools[0].function.parameters", "{error}");
    }
    assert!(upstream.requests().is_empty());
    let answered = post(&address, &with(json!({"type": ["object", "string"]}))).json();
    assert_eq!(arguments(&answered), [json!({})], "{answered}");
}

/// Returns the steps of a backend that says something beside an invalid call, and then fails once.
fn invalid_call_then_outage() -> [Step; 2] {
    [Step::text("Let me save that.").and_tool("save_person", json!({"name": "Ada"})), Step::status(503)]
}

#[test]
fn outage_during_a_correction_is_retried_although_a_text_was_kept() {
    for is_streamed in [false, true] {
        let [first, second] = invalid_call_then_outage();
        let valid = Step::tool("save_person", json!({"name": "Ada", "age": 36}));
        let upstream = ScriptedServer::start([first, second, valid]);
        let settings = format!(
            "[backends.scripted]\nkind = \"openai\"\nbase_url = \"{}\"\nmodel = \"m\"\nretries = 1\nretry_base_seconds = 0.0\n",
            upstream.base_url()
        );
        let project = Project::new(&format!("gateway-kept-{is_streamed}")).file("slipform.toml", &settings);
        let (_server, address) = serve(&project, &[]);
        let body = chat("scripted", &with_tool(&json!("auto")));
        let answered = post(&address, &if is_streamed { streamed(body) } else { body });
        assert_eq!(answered.status, 200, "{}", answered.text);
        assert!(
            answered.text.contains("Let me save that") && answered.text.contains("36"),
            "{}",
            answered.text
        );
        assert_eq!(upstream.requests().len(), 3);
    }
}

#[test]
fn outage_during_a_correction_changes_the_backend_of_a_route() {
    let first = ScriptedServer::start(invalid_call_then_outage());
    let second = ScriptedServer::start([Step::tool("save_person", json!({"name": "Ada", "age": 36}))]);
    let settings = two_backends(
        ("first", &first),
        ("second", &second),
        "[gateway]\nroutes = { wanted = [\"first\", \"second\"] }\n",
    );
    let project = Project::new("gateway-kept-route").file("slipform.toml", &settings);
    let (_server, address) = serve(&project, &[]);
    let answered = post(&address, &chat("wanted", &with_tool(&json!("auto"))));
    assert_eq!(answered.status, 200, "{}", answered.text);
    assert_eq!(arguments(&answered.json()), [json!({"name": "Ada", "age": 36})]);
    assert_eq!((first.requests().len(), second.requests().len()), (2, 1));
}

#[test]
fn cut_envelope_of_a_backend_without_tools_is_no_content() {
    let envelope = r#"{"action": "NORMAL_RESPONSE", "reasoning": "I know it.", "content": "Once up"#;
    let upstream = ScriptedServer::start(Script::new([Step::text(envelope).finish("length")]).repeat_last());
    let settings = format!(
        "[backends.old]\nkind = \"completions\"\nbase_url = \"{}\"\nmodel = \"m\"\n",
        upstream.base_url()
    );
    let project = Project::new("gateway-cut-envelope").file("slipform.toml", &settings);
    let (_server, address) = serve(&project, &[]);
    let body = chat("old", &with_tool(&json!("auto")));
    let answered = post(&address, &body).json();
    assert_eq!(
        (&choice(&answered)["message"]["content"], &choice(&answered)["finish_reason"]),
        (&Value::Null, &json!("length")),
        "{answered}"
    );
    assert!(!post(&address, &streamed(body)).text.contains("NORMAL_RESPONSE"));
}

/// Two tools, of which one must be called.
fn with_two_tools() -> Value {
    let mut more = with_tool(&json!("required"));
    let parameters = json!({"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]});
    let send = json!({"type": "function", "function": {"name": "send", "parameters": parameters}});
    more["tools"].as_array_mut().unwrap().push(send);
    more
}

#[test]
fn json_in_a_fence_becomes_the_call_of_one_of_several_tools() {
    let fenced = "Sure:\n```json\n{\"name\": \"Ada\", \"age\": 36}\n```";
    let bare = r#"{"name": "save_person", "arguments": {"name": "Ada", "age": 36}}"#;
    for (kind, text) in [("openai", fenced), ("completions", fenced), ("completions", bare)] {
        let upstream = ScriptedServer::start([Step::text(text)]);
        let settings = format!(
            "[backends.local]\nkind = \"{kind}\"\nbase_url = \"{}\"\nmodel = \"m\"\n",
            upstream.base_url()
        );
        let project = Project::new(&format!("gateway-fence-{kind}-{}", text.len()));
        let (_server, address) = serve(&project.file("slipform.toml", &settings), &[]);
        let answered = post(&address, &chat("local", &with_two_tools()));
        assert_eq!(answered.status, 200, "{kind}: {}", answered.text);
        assert_eq!(arguments(&answered.json()), [json!({"name": "Ada", "age": 36})], "{kind}");
    }
}

#[test]
fn cut_call_is_asked_for_again() {
    for choice in ["auto", "required"] {
        let cut = Step::tool("save_person", "{\"name\": \"Ad").finish("length");
        let valid = Step::tool("save_person", json!({"name": "Ada", "age": 36}));
        let (_server, address, upstream) = gateway(&format!("gateway-cut-call-{choice}"), [cut, valid]);
        let mut body = chat("scripted", &with_two_tools());
        body["tool_choice"] = json!(choice);
        let answered = post(&address, &body);
        assert_eq!(answered.status, 200, "{}", answered.text);
        assert_eq!(arguments(&answered.json()), [json!({"name": "Ada", "age": 36})], "{choice}");
        assert_eq!(upstream.requests().len(), 2);
    }
}

#[test]
fn arguments_below_a_reference_are_objects_too() {
    let shape = json!({"type": ["integer", "object"]});
    let parameters = json!({"$ref": "#/$defs/shape", "$defs": {"shape": shape}});
    let (_server, address, upstream) =
        gateway("gateway-reference", [Step::tool("ping", json!(5)), Step::tool("ping", json!({"a": 1}))]);
    let tool = json!({"type": "function", "function": {"name": "ping", "parameters": parameters}});
    let answered = post(&address, &chat("scripted", &json!({"tools": [tool]}))).json();
    assert_eq!(arguments(&answered), [json!({"a": 1})], "{answered}");
    assert_eq!(upstream.requests().len(), 2);
}
