//! Answers, tool calls and what is refused.

use serde_json::{Value, json};
use slipform_testkit::{Script, Step};

use super::support::{chat, gateway, is_person, person, post, streamed, with_schema, with_tool};

#[test]
fn structured_answer_is_the_validated_text_with_a_receipt() {
    let (_server, address, upstream) =
        gateway("gateway-answer", [Step::text(r#"{"name": "Ada", "age": 36}"#)]);
    let more = json!({
        "temperature": 0.25, "top_p": 0.5, "seed": 7, "stop": "END", "max_tokens": 99, "reasoning_effort": "low",
        "user": "someone", "unknown_member": {"a": 1},
    });
    let mut body = chat("scripted", &with_schema());
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    body["messages"] = json!([
        {"role": "developer", "content": "Extract."},
        {"role": "user", "content": [{"type": "text", "text": "Ada is"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}]},
        {"role": "assistant", "content": null, "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "c1", "content": "36"},
    ]);
    let answered = post(&address, &body);
    assert_eq!(answered.status, 200, "{}", answered.text);
    let answer = answered.json();
    let choice = &answer["choices"][0];
    assert_eq!(choice["message"]["content"], r#"{"name": "Ada", "age": 36}"#);
    assert_eq!((&choice["finish_reason"], &choice["index"]), (&json!("stop"), &json!(0)));
    assert_eq!(answer["usage"], json!({"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}));
    assert_eq!((&answer["object"], &answer["model"]), (&json!("chat.completion"), &json!("scripted")));
    assert_eq!(answer["slipform"]["receipt"]["calls"], 1);
    let run_id = answer["slipform"]["run_id"].as_str().unwrap();
    assert!(answered.head.contains(&format!("x-request-id: {run_id}")), "{}", answered.head);

    let asked = &upstream.requests()[0].body;
    for (member, value) in
        [("temperature", json!(0.25)), ("top_p", json!(0.5)), ("seed", json!(7)), ("max_tokens", json!(99))]
    {
        assert_eq!(asked[member], value, "{member}");
    }
    assert_eq!((&asked["stop"], &asked["reasoning_effort"]), (&json!(["END"]), &json!("low")));
    let messages = asked["messages"].as_array().unwrap();
    assert!(messages[0]["content"].as_str().unwrap().starts_with("Extract."), "{asked}");
    assert_eq!(messages[1]["content"][1]["type"], "image_url");
    assert_eq!(messages[2]["tool_calls"][0]["id"], "c1");
    assert_eq!((&messages[3]["role"], &messages[3]["content"]), (&json!("tool"), &json!("36")));
    assert_eq!(asked["response_format"]["json_schema"]["name"], "person");
}

#[test]
fn repaired_answer_is_valid_and_says_so() {
    let (_server, address, _upstream) =
        gateway("gateway-repair", [Step::text("Sure!\n```json\n{\"name\": \"Ada\", \"age\": 36,}\n```")]);
    let answer = post(&address, &chat("scripted", &with_schema())).json();
    let content = answer["choices"][0]["message"]["content"].as_str().unwrap();
    assert_eq!(serde_json::from_str::<Value>(content).unwrap(), json!({"name": "Ada", "age": 36}));
    assert!(!answer["slipform"]["receipt"]["repairs"].as_array().unwrap().is_empty(), "{answer}");
}

#[test]
fn invalid_answers_are_asked_for_again_and_then_refused_with_422() {
    let invalid = || Step::text(r#"{"name": "Ada"}"#);
    let (_server, address, upstream) = gateway("gateway-unmet", Script::new([invalid()]).repeat_last());
    let mut body = chat("scripted", &with_schema());
    body["slipform"] = json!({"max_retries": 1});
    let answered = post(&address, &body);
    assert_eq!(answered.status, 422, "{}", answered.text);
    let error = &answered.json()["error"];
    assert_eq!(error["code"], "output_schema_validation_failed");
    assert!(error["validation_errors"][0].as_str().unwrap().contains("age"), "{error}");
    assert_eq!(error["salvage"]["best_candidate"], json!({"name": "Ada"}));
    assert!(error["run_id"].as_str().unwrap().starts_with("run_"));
    assert_eq!(upstream.requests().len(), 2);
}

#[test]
fn arguments_of_calls_satisfy_the_parameters_of_their_tools() {
    let (_server, address, upstream) = gateway(
        "gateway-tools",
        [
            Step::tool("save_person", json!({"name": "Ada"})),
            Step::tool("save_person", json!({"name": "Ada", "age": 36}))
                .and_tool("save_person", json!({"name": "Bob", "age": 1})),
        ],
    );
    let answer = post(&address, &chat("scripted", &with_tool(&json!("auto")))).json();
    let choice = &answer["choices"][0];
    assert_eq!(choice["finish_reason"], "tool_calls", "{answer}");
    assert_eq!(choice["message"]["content"], Value::Null);
    let calls = choice["message"]["tool_calls"].as_array().unwrap();
    assert_eq!(calls.len(), 2);
    for call in calls {
        assert_eq!((&call["type"], &call["function"]["name"]), (&json!("function"), &json!("save_person")));
        assert!(is_person(&serde_json::from_str(call["function"]["arguments"].as_str().unwrap()).unwrap()));
    }
    assert_ne!(calls[0]["id"], calls[1]["id"]);
    let correction = &upstream.requests()[1].body["messages"];
    assert_eq!(correction[2]["role"], "tool");
    assert!(correction[2]["content"].as_str().unwrap().contains("$.age"), "{correction}");
}

#[test]
fn text_becomes_the_call_of_a_forced_tool() {
    let (_server, address, upstream) =
        gateway("gateway-forced", [Step::text(r#"{"name": "Ada", "age": 36}"#)]);
    let choice = json!({"type": "function", "function": {"name": "save_person"}});
    let answer = post(&address, &chat("scripted", &with_tool(&choice))).json();
    let call = &answer["choices"][0]["message"]["tool_calls"][0];
    assert_eq!(call["function"]["name"], "save_person", "{answer}");
    assert!(is_person(&serde_json::from_str(call["function"]["arguments"].as_str().unwrap()).unwrap()));
    assert_eq!(upstream.requests()[0].body["tool_choice"]["function"]["name"], "save_person");
}

#[test]
fn refusal_and_truncation_have_no_content() {
    let (_server, address, _upstream) = gateway(
        "gateway-refusal",
        [
            Step::refusal("I cannot help."),
            Step::refusal("I cannot help."),
            Step::text(r#"{"name": "A"#).finish("length"),
            Step::text("Once upon").finish("length"),
        ],
    );
    let refused = post(&address, &chat("scripted", &with_schema())).json();
    let choice = &refused["choices"][0];
    assert_eq!(
        (&choice["message"]["content"], &choice["message"]["refusal"]),
        (&Value::Null, &json!("I cannot help."))
    );
    let stream = post(&address, &streamed(chat("scripted", &with_schema())));
    let said: Vec<Value> =
        stream.chunks().iter().map(|chunk| chunk["choices"][0]["delta"]["refusal"].clone()).collect();
    assert!(said.contains(&json!("I cannot help.")), "{}", stream.text);

    let mut short = chat("scripted", &with_schema());
    short["slipform"] = json!({"max_retries": 0});
    let cut = post(&address, &short).json();
    let choice = &cut["choices"][0];
    assert_eq!(
        (&choice["message"]["content"], &choice["finish_reason"]),
        (&Value::Null, &json!("length")),
        "{cut}"
    );
    let free = post(&address, &chat("scripted", &json!({"max_tokens": 2}))).json();
    let choice = &free["choices"][0];
    assert_eq!(
        (&choice["message"]["content"], &choice["finish_reason"]),
        (&json!("Once upon"), &json!("length"))
    );
}

#[test]
fn members_that_cannot_be_honoured_are_refused_by_name() {
    let (_server, address, upstream) = gateway("gateway-refused", Vec::<Step>::new());
    let cases = [
        (json!({"audio": {"voice": "a"}}), "audio"),
        (json!({"web_search_options": {}}), "web_search_options"),
        (json!({"guided_json": {"type": "object"}}), "guided_json"),
        (json!({"structured_outputs": {"json": {"type": "object"}}}), "structured_outputs"),
        (json!({"logprobs": true}), "logprobs"),
        (json!({"functions": [{"name": "f"}]}), "functions"),
        (json!({"modalities": ["text", "audio"]}), "modalities"),
        (json!({"n": 9}), "n"),
        (json!({"temperature": 3}), "temperature"),
        (json!({"tools": [{"type": "web_search"}]}), "tools[0].type"),
        (json!({"tool_choice": "required"}), "tool_choice"),
        (json!({"response_format": {"type": "json_schema"}}), "response_format.json_schema.schema"),
        (json!({"response_format": {"type": "xml"}}), "response_format.type"),
        (json!({"messages": []}), "messages"),
        (json!({"messages": [{"role": "robot", "content": "x"}]}), "messages[0].role"),
        (
            json!({"messages": [{"role": "user", "content": [{"type": "input_audio"}]}]}),
            "messages[0].content[0]",
        ),
        (json!({"slipform": {"max_retries": 99}}), "slipform.max_retries"),
    ];
    for (more, param) in cases {
        let answered = post(&address, &chat("scripted", &more));
        let error = &answered.json()["error"];
        assert_eq!((answered.status, &error["param"]), (400, &json!(param)), "{error}");
    }
    let schema = json!({"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "wrong"}}});
    let error = post(&address, &chat("scripted", &json!({"response_format": schema}))).json();
    assert_eq!(error["error"]["code"], "invalid_json_schema", "{error}");
    let error = post(&address, &chat("nothing", &json!({})));
    assert_eq!((error.status, &error.json()["error"]["code"]), (404, &json!("model_not_found")));
    assert!(upstream.requests().is_empty());
    // Values that ask for nothing are not refused.
    let nothing = json!({"logprobs": false, "top_logprobs": null, "functions": [], "logit_bias": {}});
    assert_ne!(post(&address, &chat("scripted", &nothing)).status, 400);
}

#[test]
fn all_choices_are_valid_or_the_request_fails() {
    let valid = || Step::text(r#"{"name": "Ada", "age": 36}"#);
    let (_server, address, _upstream) = gateway("gateway-choices", Script::new([valid()]).repeat_last());
    let mut body = chat("scripted", &with_schema());
    body["n"] = json!(3);
    let answer = post(&address, &body).json();
    let choices = answer["choices"].as_array().unwrap();
    let indexes: Vec<u64> = choices.iter().map(|choice| choice["index"].as_u64().unwrap()).collect();
    assert_eq!(indexes, [0, 1, 2]);
    assert_eq!(answer["usage"]["total_tokens"], 45);
    let stream = post(&address, &streamed(body));
    let finished = stream.chunks().into_iter().find(|chunk| chunk["choices"][0]["finish_reason"].is_string());
    assert_eq!(finished.unwrap()["choices"].as_array().unwrap().len(), 3);
}

#[test]
fn choices_have_seeds_of_their_own() {
    let (_server, address, upstream) =
        gateway("gateway-seeds", Script::new([Step::text("Hello.")]).repeat_last());
    assert_eq!(post(&address, &chat("scripted", &json!({"n": 3, "seed": 7}))).status, 200);
    let requests = upstream.requests();
    let seeds: std::collections::BTreeSet<_> =
        requests.iter().map(|request| request.body["seed"].as_u64().unwrap()).collect();
    assert_eq!(seeds, [7, 8, 9].into());
}

#[test]
fn absurd_counts_of_tokens_break_no_answer() {
    for (name, is_streamed) in [("gateway-tokens", false), ("gateway-tokens-stream", true)] {
        let step = Step::text("Hello.").usage(u64::MAX, u64::MAX);
        let (_server, address, _upstream) = gateway(name, Script::new([step]).repeat_last());
        let mut body = chat("scripted", &json!({"stream_options": {"include_usage": true}, "n": 2}));
        if is_streamed {
            body = streamed(body);
        }
        let answered = post(&address, &body);
        assert_eq!(answered.status, 200, "{}", answered.text);
        assert!(answered.text.contains(&format!("\"total_tokens\":{}", u64::MAX)), "{}", answered.text);
    }
}

#[test]
fn text_beside_a_call_is_left_out_under_a_contract() {
    let step = || Step::text("Let me look.").and_tool("save_person", json!({"name": "Ada", "age": 36}));
    let (_server, address, _upstream) = gateway("gateway-both", Script::new([step()]).repeat_last());
    let mut body = chat("scripted", &with_schema());
    let tools = with_tool(&json!("auto"));
    body.as_object_mut().unwrap().extend(tools.as_object().unwrap().clone());
    let message = &post(&address, &body).json()["choices"][0]["message"];
    assert_eq!(message["content"], Value::Null, "{message}");
    assert_eq!(message["tool_calls"][0]["function"]["name"], "save_person");
    let free = &post(&address, &chat("scripted", &tools)).json()["choices"][0]["message"];
    assert_eq!(free["content"], "Let me look.");
}

#[test]
fn all_calls_of_a_required_tool_are_returned_with_ids_of_their_own() {
    let step = || {
        Step::tool("save_person", json!({"name": "Ada", "age": 36}))
            .and_tool("save_person", json!({"name": "Bob", "age": 1}))
    };
    let (_server, address, _upstream) = gateway("gateway-required", Script::new([step()]).repeat_last());
    let mut body = chat("scripted", &with_tool(&json!("required")));
    let first = post(&address, &body).json()["choices"][0]["message"].clone();
    let calls = first["tool_calls"].as_array().unwrap();
    assert_eq!(calls.len(), 2, "{first}");
    // The server counts its calls anew in every reply.
    let answers =
        calls.iter().map(|call| json!({"role": "tool", "tool_call_id": call["id"], "content": "Saved."}));
    let answers: Vec<Value> = answers.collect();
    let messages = body["messages"].as_array_mut().unwrap();
    messages.push(first.clone());
    messages.extend(answers);
    let second = post(&address, &body).json()["choices"][0]["message"].clone();
    let ids: std::collections::BTreeSet<&str> = [&first, &second]
        .into_iter()
        .flat_map(|message| message["tool_calls"].as_array().unwrap())
        .map(|call| call["id"].as_str().unwrap())
        .collect();
    assert_eq!(ids.len(), 4, "{first} {second}");
}

#[test]
fn reasoning_is_never_the_answer() {
    let (_server, address, _upstream) = gateway(
        "gateway-reasoning",
        Script::new([Step::reasoning("Let me think.").finish("length")]).repeat_last(),
    );
    for body in [chat("scripted", &json!({})), streamed(chat("scripted", &json!({})))] {
        let answered = post(&address, &body);
        assert_eq!(answered.status, 200, "{}", answered.text);
        assert!(!answered.text.contains("Let me think"), "{}", answered.text);
        assert!(answered.text.contains("\"finish_reason\":\"length\""), "{}", answered.text);
    }
}

#[test]
fn truncated_texts_are_returned_for_every_choice() {
    let (_server, address, _upstream) =
        gateway("gateway-cut", Script::new([Step::text("Once upon").finish("length")]).repeat_last());
    for more in [json!({"n": 2}), with_tool(&json!("auto"))] {
        let answer = post(&address, &chat("scripted", &more)).json();
        for choice in answer["choices"].as_array().unwrap() {
            assert_eq!(
                (&choice["message"]["content"], &choice["finish_reason"]),
                (&json!("Once upon"), &json!("length"))
            );
        }
    }
}

#[test]
fn content_filter_has_its_own_finish_reason() {
    let filtered = || Step::text("I will tell").chunk_bytes(3).finish("content_filter");
    let (_server, address, _upstream) = gateway("gateway-filter", Script::new([filtered()]).repeat_last());
    let choice = &post(&address, &chat("scripted", &with_schema())).json()["choices"][0];
    assert_eq!(
        (&choice["message"]["content"], &choice["finish_reason"]),
        (&Value::Null, &json!("content_filter"))
    );
    let stream = post(&address, &streamed(chat("scripted", &json!({}))));
    let chunks = stream.chunks();
    assert_eq!(chunks.last().unwrap()["choices"][0]["finish_reason"], "content_filter", "{}", stream.text);
    assert_eq!(stream.events().last().unwrap(), "[DONE]");
}

#[test]
fn call_of_a_tool_that_may_not_be_called_is_no_answer() {
    let call = || Step::tool("save_person", json!({"name": "Ada", "age": 36}));
    let (_server, address, upstream) =
        gateway("gateway-none", [call(), Step::text("Ada is 36."), call(), Step::text("Ada is 36.")]);
    let body = chat("scripted", &with_tool(&json!("none")));
    assert_eq!(post(&address, &body).json()["choices"][0]["message"]["content"], "Ada is 36.");
    let stream = post(&address, &streamed(body));
    let content: String =
        stream.chunks().iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str()).collect();
    assert_eq!(content, "Ada is 36.", "{}", stream.text);
    assert_eq!(upstream.requests()[0].body["tools"], Value::Null);
}

#[test]
fn sampling_parameters_that_a_backend_lacks_are_refused_by_name() {
    let project = crate::support::Project::new("gateway-sampling")
        .file("slipform.toml", "[backends.echo]\nkind = \"command\"\ncommand = [\"cat\"]\n");
    let (_server, address) = crate::support::serve(&project, &[]);
    for (more, param) in [
        (json!({"seed": 1}), "seed"),
        (json!({"stop": "x"}), "stop"),
        (json!({"temperature": 0.5}), "temperature"),
    ] {
        let answered = post(&address, &chat("echo", &more));
        assert_eq!(
            (answered.status, &answered.json()["error"]["param"]),
            (400, &json!(param)),
            "{}",
            answered.text
        );
        assert!(answered.text.contains("`echo`"), "{}", answered.text);
    }
    // Defaults ask for nothing.
    let defaults = json!({"temperature": 1, "top_p": 1, "presence_penalty": 0});
    assert_eq!(post(&address, &chat("echo", &defaults)).status, 200);
}

#[test]
fn images_of_several_megabytes_reach_the_backend() {
    let (_server, address, upstream) = gateway("gateway-image", [Step::text("A cat.")]);
    let url = format!("data:image/png;base64,{}", "A".repeat(6 * 1024 * 1024));
    let mut body = chat("scripted", &json!({}));
    body["messages"][0]["content"] = json!([{"type": "image_url", "image_url": {"url": url}}]);
    let answered = post(&address, &body);
    assert_eq!(answered.status, 200, "{}", answered.text);
    assert_eq!(upstream.requests()[0].body["messages"][0]["content"][0]["image_url"]["url"], url);
}

#[test]
fn instructions_alone_are_what_the_model_answers() {
    let (_server, address, upstream) = gateway("gateway-instructions", [Step::text("Hello.")]);
    let mut body = chat("scripted", &json!({}));
    body["messages"] = json!([{"role": "system", "content": "Say hello."}]);
    assert_eq!(post(&address, &body).status, 200);
    assert_eq!(upstream.requests()[0].body["messages"], json!([{"role": "user", "content": "Say hello."}]));
}

#[test]
fn keywords_of_newer_drafts_are_enforced_without_a_declaration() {
    // Pydantic writes a tuple like this and names no draft.
    let pair = json!({
        "type": "object",
        "required": ["pair"],
        "properties": {
            "pair": {
                "type": "array",
                "prefixItems": [{"type": "string"}, {"type": "integer"}],
                "minItems": 2,
                "maxItems": 2,
            },
        },
    });
    let schema = json!({"name": "pair", "schema": pair});
    let function = json!({"name": "save", "parameters": pair});
    let (wrong, right) = (r#"{"pair": ["a", "b"]}"#, json!({"pair": ["a", 5]}));
    let (_server, address, upstream) = gateway(
        "gateway-drafts",
        [
            Step::text(wrong),
            Step::text(right.to_string()),
            Step::tool("save", serde_json::from_str::<Value>(wrong).unwrap()),
            Step::tool("save", right.clone()),
        ],
    );
    let format = json!({"response_format": {"type": "json_schema", "json_schema": schema}});
    let tools = json!({"tools": [{"type": "function", "function": function}]});
    let answered = post(&address, &chat("scripted", &format)).json();
    let content = answered["choices"][0]["message"]["content"].as_str().unwrap();
    assert_eq!(serde_json::from_str::<Value>(content).unwrap(), right);
    let answered = post(&address, &chat("scripted", &tools)).json();
    let call = &answered["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"];
    assert_eq!(serde_json::from_str::<Value>(call.as_str().unwrap()).unwrap(), right);
    assert_eq!(upstream.requests().len(), 4);
}

#[test]
fn names_descriptions_and_further_members_reach_the_backend() {
    let (_server, address, upstream) =
        gateway("gateway-members", [Step::text(r#"{"name": "Ada", "age": 36}"#), Step::text("{}")]);
    let mut format = with_schema();
    format["response_format"]["json_schema"]["description"] = json!("The person who is mentioned.");
    let mut body = chat("scripted", &format);
    body["messages"][0]["name"] = json!("grace");
    for (name, value) in [
        ("top_k", json!(20)),
        ("user", json!("u-1")),
        ("logit_bias", json!({"50256": -100})),
        ("chat_template_kwargs", json!({"enable_thinking": false})),
    ] {
        body[name] = value;
    }
    assert_eq!(post(&address, &body).status, 200);
    let sent = upstream.requests()[0].body.clone();
    assert_eq!(sent["messages"].as_array().unwrap().last().unwrap()["name"], "grace", "{sent}");
    assert!(sent.to_string().contains("The person who is mentioned."), "{sent}");
    assert_eq!((&sent["top_k"], &sent["user"]), (&json!(20), &json!("u-1")));
    assert_eq!(sent["logit_bias"], json!({"50256": -100}));
    assert_eq!(sent["chat_template_kwargs"], json!({"enable_thinking": false}));
    // Some servers take the schema of an object here.
    let object = json!({"response_format": {"type": "json_object", "schema": person()}, "slipform": {"max_retries": 0}});
    assert_eq!(post(&address, &chat("scripted", &object)).status, 422);
}

#[test]
fn description_of_a_forced_tool_reaches_a_backend_that_is_asked_for_text() {
    let (_server, address, upstream) =
        gateway("gateway-described", [Step::text(r#"{"name": "Ada", "age": 36}"#)]);
    let mut more = with_tool(&json!("required"));
    more["tools"][0]["function"]["description"] = json!("Names of persons have no titles.");
    more["slipform"] = json!({"strategy": "prompt"});
    let answered = post(&address, &chat("scripted", &more)).json();
    let call = &answered["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"];
    assert!(is_person(&serde_json::from_str(call.as_str().unwrap()).unwrap()), "{answered}");
    let sent = upstream.requests()[0].body.clone().to_string();
    assert!(sent.contains("Names of persons have no titles."), "{sent}");
}

#[test]
fn text_beside_a_corrected_call_is_the_same_with_and_without_streaming() {
    let script = || {
        [
            Step::text("Let me save that.").and_tool("save_person", json!({"name": "Ada"})),
            Step::text("Again.").and_tool("save_person", json!({"name": "Ada", "age": 36})),
            Step::text("Let me try.").and_tool("save_person", json!({"name": "Ada"})),
            Step::text("It cannot be saved."),
        ]
    };
    let body = chat("scripted", &with_tool(&json!("auto")));
    let texts = |name: &str, is_streamed: bool| -> Vec<String> {
        let (_server, address, upstream) = gateway(name, script());
        let ask = || {
            if !is_streamed {
                let answered = post(&address, &body).json();
                return answered["choices"][0]["message"]["content"].as_str().unwrap_or_default().to_owned();
            }
            let chunks = post(&address, &streamed(body.clone())).chunks();
            let deltas = chunks.iter().filter_map(|chunk| chunk["choices"][0]["delta"]["content"].as_str());
            deltas.collect()
        };
        let texts = vec![ask(), ask()];
        assert_eq!(upstream.requests().len(), 4);
        texts
    };
    let whole = texts("gateway-beside", false);
    assert_eq!(whole, ["Let me save that.", "Let me try.\n\nIt cannot be saved."]);
    assert_eq!(texts("gateway-beside-stream", true), whole);
}

#[test]
fn members_of_a_wrong_form_are_named() {
    let (_server, address, _) = gateway("gateway-forms", [Step::text("Hello.")]);
    for (member, value) in
        [("temperature", json!("0.7")), ("stop", json!(5)), ("messages", json!("Hi")), ("n", json!(-1))]
    {
        let mut body = chat("scripted", &json!({}));
        body[member] = value;
        let answered = post(&address, &body);
        assert_eq!((answered.status, &answered.json()["error"]["param"]), (400, &json!(member)));
    }
    for missing in ["model", "messages"] {
        let mut body = chat("scripted", &json!({}));
        body.as_object_mut().unwrap().remove(missing);
        assert_eq!(post(&address, &body).json()["error"]["param"], missing);
    }
    let mut body = chat("scripted", &json!({}));
    body["messages"][0]["function_call"] = json!({"name": "f", "arguments": "{}"});
    assert_eq!(post(&address, &body).json()["error"]["param"], "messages[0].function_call");
}

#[test]
fn digits_of_a_submitted_answer_are_kept() {
    let submitted = r#"{"total": 123456789.123456789123456789}"#;
    let body = json!({
        "choices": [{
            "index": 0,
            "finish_reason": "tool_calls",
            "message": {"content": null, "tool_calls": [{
                "id": "a", "type": "function", "function": {"name": "submit_result", "arguments": submitted},
            }]},
        }],
        // Figures that make no sense do not cost the answer.
        "usage": {"prompt_tokens": -1, "completion_tokens": 1.5},
    });
    let (_server, address, _upstream) = gateway("gateway-digits", [Step::status(200).body(body.to_string())]);
    let schema =
        json!({"type": "object", "required": ["total"], "properties": {"total": {"type": "number"}}});
    let more = json!({
        "response_format": {"type": "json_schema", "json_schema": {"name": "sum", "schema": schema}},
        "slipform": {"strategy": "tool"},
    });
    let answered = post(&address, &chat("scripted", &more)).json();
    assert_eq!(answered["choices"][0]["message"]["content"], submitted, "{answered}");
}

#[test]
fn arguments_are_objects_whatever_the_parameters_allow() {
    for (name, parameters) in [("gateway-any", json!({})), ("gateway-open", json!({"description": "Any."}))] {
        let (_server, address, _upstream) =
            gateway(name, [Step::tool("ping", json!(5)), Step::tool("ping", json!({}))]);
        let tool = json!({"type": "function", "function": {"name": "ping", "parameters": parameters}});
        let answered = post(&address, &chat("scripted", &json!({"tools": [tool]}))).json();
        let call = &answered["choices"][0]["message"]["tool_calls"][0]["function"];
        assert_eq!(call["arguments"], "{}", "{answered}");
    }
}
