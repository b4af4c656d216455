//! The probe distinguishes servers that enforce a schema from servers that only accept it.

use expect_test::{Expect, expect};
use serde_json::{Value, json};
use slipform_model::Error;
use slipform_model::probe::{Verdict, probe};
use slipform_testkit::{Recorded, Script, ScriptedServer, Step};
use slipform_types::BackendKind::{self, Anthropic, Completions, OpenAi};

use crate::support::{config, kind_of, open};

/// The feature that a request uses.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Feature {
    Schema,
    Object,
    Tools,
    ForcedTools,
    Nothing,
}

fn feature(request: &Recorded) -> Feature {
    let body = &request.body;
    match body["response_format"]["type"].as_str() {
        Some("json_schema") => Feature::Schema,
        Some(_) => Feature::Object,
        None if body["output_config"].is_object() => Feature::Schema,
        None if body["tool_choice"].is_object() => Feature::ForcedTools,
        None if body["tools"].is_array() => Feature::Tools,
        None => Feature::Nothing,
    }
}

async fn probe_script(kind: BackendKind, script: Script) -> Result<Verdict, Error> {
    let server = ScriptedServer::start(script);
    let mut config = config(&server, kind);
    config.retries = 0;
    probe(open(&config).as_ref(), &|_| {}).await
}

/// Compares the verdict on a server that answers with `answer`, one feature per line.
async fn check(kind: BackendKind, mut answer: impl FnMut(Feature) -> Step + Send + 'static, expect: Expect) {
    let script = Script::respond(move |request, _| answer(feature(request)));
    let verdict = probe_script(kind, script).await.unwrap();
    let held = |held: Option<bool>| held.map_or("-", |held| if held { "held" } else { "broken" });
    let mut lines: Vec<String> = verdict
        .findings
        .iter()
        .map(|finding| {
            let (name, support) = (&finding.feature, finding.support.name());
            let marks = [finding.enumeration, finding.extra_property, finding.number_bound].map(held);
            format!("{name}: {support} ({}) {}", marks.join(", "), finding.evidence)
        })
        .collect();
    lines.push(format!("calls: {}", verdict.calls));
    let capabilities = &verdict.capabilities;
    let all =
        [capabilities.json_schema, capabilities.json_object, capabilities.tools, capabilities.forced_tools];
    let supports: Vec<_> = verdict.findings.iter().map(|finding| finding.support).collect();
    assert_eq!(all.to_vec(), supports, "the capabilities match the findings");
    expect.assert_eq(&lines.join("\n"));
}

/// A document that satisfies the schema.
fn valid_document() -> Value {
    json!({"colour": "red", "rating": 5})
}

/// The document that the prompt asks for, which violates the schema.
fn invalid_document() -> Value {
    json!({"colour": "ultraviolet", "rating": 99, "note": "hello"})
}

fn enforce(feature: Feature) -> Step {
    match feature {
        Feature::Tools | Feature::ForcedTools => Step::tool("describe_paint", valid_document()),
        _ => Step::json(&valid_document()),
    }
}

#[tokio::test]
async fn enforcing_server_is_enforced() {
    check(
        OpenAi,
        enforce,
        expect![[r#"
        json_schema: enforced (held, held, held) {"colour":"red","rating":5}
        json_object: enforced (held, held, held) {"colour":"red","rating":5}
        tools: enforced (held, held, held) {"colour":"red","rating":5}
        forced_tools: enforced (held, held, held) {"colour":"red","rating":5}
        calls: 4"#]],
    )
    .await;
    check(
        Anthropic,
        enforce,
        expect![[r#"
            json_schema: enforced (held, held, held) {"colour":"red","rating":5}
            json_object: ignored (-, -, -) (not supported by the protocol)
            tools: enforced (held, held, held) {"colour":"red","rating":5}
            forced_tools: enforced (held, held, held) {"colour":"red","rating":5}
            calls: 3"#]],
    )
    .await;
}

#[tokio::test]
async fn feature_missing_in_the_protocol_is_not_called() {
    check(
        Completions,
        enforce,
        expect![[r#"
        json_schema: enforced (held, held, held) {"colour":"red","rating":5}
        json_object: ignored (-, -, -) (not supported by the protocol)
        tools: ignored (-, -, -) (not supported by the protocol)
        forced_tools: ignored (-, -, -) (not supported by the protocol)
        calls: 1"#]],
    )
    .await;
}

#[tokio::test]
async fn command_backend_gets_one_plain_call() {
    let verdict = |script: &'static str| async move {
        let config = crate::command::config(&["sh", "-c", script]);
        let backend = slipform_model::connect(&config, &crate::command::environment).unwrap();
        probe(backend.as_ref(), &|_| {}).await
    };
    assert_eq!(verdict("echo ultraviolet").await.unwrap().calls, 1);
    assert_eq!(kind_of(&verdict("exit 1").await.unwrap_err()), "Program");
}

#[tokio::test]
async fn server_that_answers_with_text_is_ignored() {
    check(
        OpenAi,
        |_| Step::text("My favourite paint is ultraviolet!"),
        expect![[r#"
        json_schema: ignored (-, -, -) My favourite paint is ultraviolet!
        json_object: ignored (-, -, -) My favourite paint is ultraviolet!
        tools: ignored (-, -, -) My favourite paint is ultraviolet!
        forced_tools: ignored (-, -, -) My favourite paint is ultraviolet!
        calls: 4"#]],
    )
    .await;
}

#[tokio::test]
async fn server_that_rejects_formats_is_refused() {
    let answer = |feature| match feature {
        Feature::Schema => Step::status(400).body("'response_format' is not supported"),
        Feature::Object => Step::status(500).body("internal error"),
        other => enforce(other),
    };
    check(OpenAi, answer, expect![[r#"
        json_schema: refused (-, -, -) the backend refused the request with 400: 'response_format' is not supported
        json_object: refused (-, -, -) the backend answered 500: internal error
        tools: enforced (held, held, held) {"colour":"red","rating":5}
        forced_tools: enforced (held, held, held) {"colour":"red","rating":5}
        calls: 4"#]]).await;
}

#[tokio::test]
async fn server_that_answers_without_tool_call_ignores_tools() {
    let answer = |feature| match feature {
        Feature::Tools | Feature::ForcedTools => Step::json(&valid_document()),
        other => enforce(other),
    };
    check(
        OpenAi,
        answer,
        expect![[r#"
        json_schema: enforced (held, held, held) {"colour":"red","rating":5}
        json_object: enforced (held, held, held) {"colour":"red","rating":5}
        tools: ignored (-, -, -) {"colour":"red","rating":5}
        forced_tools: ignored (-, -, -) {"colour":"red","rating":5}
        calls: 4"#]],
    )
    .await;
}

#[tokio::test]
async fn server_that_violates_all_constraints_is_accepted() {
    let answer = |feature| match feature {
        Feature::Tools | Feature::ForcedTools => Step::tool("describe_paint", invalid_document()),
        _ => Step::json(&invalid_document()),
    };
    check(
        OpenAi,
        answer,
        expect![[r#"
        json_schema: accepted (broken, broken, broken) {"colour":"ultraviolet","rating":99,"note":"hello"}
        json_object: accepted (broken, broken, broken) {"colour":"ultraviolet","rating":99,"note":"hello"}
        tools: accepted (broken, broken, broken) {"colour":"ultraviolet","rating":99,"note":"hello"}
        forced_tools: accepted (broken, broken, broken) {"colour":"ultraviolet","rating":99,"note":"hello"}
        calls: 4"#]],
    )
    .await;
}

#[tokio::test]
async fn one_violated_constraint_downgrades_enforced_to_accepted() {
    let answer = |feature| match feature {
        Feature::Schema => Step::json(&json!({"colour": "green", "rating": 1, "note": "hello"})),
        Feature::Object => Step::json(&json!({"colour": "blue", "rating": 1})),
        // Some servers that enforce everything else ignore number bounds, so these do not count.
        _ => Step::tool("describe_paint", json!({"colour": "green", "rating": 99})),
    };
    check(
        OpenAi,
        answer,
        expect![[r#"
        json_schema: accepted (held, broken, held) {"colour":"green","rating":1,"note":"hello"}
        json_object: accepted (broken, held, held) {"colour":"blue","rating":1}
        tools: enforced (held, held, broken) {"colour":"green","rating":99}
        forced_tools: enforced (held, held, broken) {"colour":"green","rating":99}
        calls: 4"#]],
    )
    .await;
}

#[tokio::test]
async fn truncated_reply_is_unknown_or_ignored() {
    check(
        OpenAi,
        |_| Step::reasoning("Hm, ultraviolet…").finish("length"),
        expect![[r#"
            json_schema: unknown (-, -, -) (no answer within the token limit)
            json_object: unknown (-, -, -) (no answer within the token limit)
            tools: unknown (-, -, -) (no answer within the token limit)
            forced_tools: unknown (-, -, -) (no answer within the token limit)
            calls: 4"#]],
    )
    .await;
    check(
        OpenAi,
        |_| Step::text("{\"colour\": \"r").finish("length"),
        expect![[r#"
        json_schema: unknown (-, -, -) {"colour": "r
        json_object: unknown (-, -, -) {"colour": "r
        tools: unknown (-, -, -) (no answer within the token limit)
        forced_tools: unknown (-, -, -) (no answer within the token limit)
        calls: 4"#]],
    )
    .await;
    check(
        OpenAi,
        |_| Step::text("Well, my favourite").finish("length"),
        expect![[r#"
        json_schema: ignored (-, -, -) Well, my favourite
        json_object: ignored (-, -, -) Well, my favourite
        tools: ignored (-, -, -) Well, my favourite
        forced_tools: ignored (-, -, -) Well, my favourite
        calls: 4"#]],
    )
    .await;
}

#[tokio::test]
async fn server_that_rejects_all_features_gets_a_plain_call() {
    let answer = |feature| match feature {
        Feature::Nothing => Step::text("Ultraviolet."),
        _ => Step::status(422),
    };
    check(
        OpenAi,
        answer,
        expect![[r#"
        json_schema: refused (-, -, -) the backend refused the request with 422: scripted status 422
        json_object: refused (-, -, -) the backend refused the request with 422: scripted status 422
        tools: refused (-, -, -) the backend refused the request with 422: scripted status 422
        forced_tools: refused (-, -, -) the backend refused the request with 422: scripted status 422
        calls: 5"#]],
    )
    .await;
}

#[tokio::test]
async fn error_unrelated_to_a_feature_fails_the_probe() {
    for (status, expected) in [
        (400, "Rejected"),
        (401, "Rejected"),
        (403, "Rejected"),
        (404, "Rejected"),
        (429, "Busy"),
        (500, "Busy"),
        (503, "Busy"),
    ] {
        let script = Script::new([Step::status(status)]).repeat_last();
        let error = probe_script(OpenAi, script).await.unwrap_err();
        assert_eq!(kind_of(&error), expected, "{status}");
        assert!(error.to_string().contains(&format!("scripted status {status}")), "{error}");
    }
    let revoked = Script::new([Step::json(&valid_document()), Step::status(401)]);
    assert_eq!(kind_of(&probe_script(OpenAi, revoked).await.unwrap_err()), "Rejected", "a revoked key");
}

#[tokio::test]
async fn unreachable_server_fails_the_probe() {
    let server = ScriptedServer::start(Step::text("never"));
    let mut config = config(&server, OpenAi);
    config.retries = 0;
    drop(server);
    let error = probe(open(&config).as_ref(), &|_| {}).await.unwrap_err();
    assert_eq!(kind_of(&error), "Unreachable");
}

#[tokio::test]
async fn dialect_is_read_from_the_model_list() {
    let dialect = async |script: Script| probe_script(OpenAi, script).await.unwrap().dialect;
    let script = || Script::respond(|request, _| enforce(feature(request)));
    for (owner, expected) in [
        ("vllm", Some("vllm")),
        ("llamacpp", Some("llama.cpp")),
        ("library", Some("ollama")),
        ("organization_owner", Some("lmstudio")),
        ("unknown-owner", None),
    ] {
        assert_eq!(dialect(script().serving("m", owner)).await.as_deref(), expected, "{owner}");
    }
    assert_eq!(dialect(script().route("GET", "/v1/models", Step::status(404))).await, None);
    assert_eq!(dialect(script().route("GET", "/v1/models", Step::html())).await, None);
}
