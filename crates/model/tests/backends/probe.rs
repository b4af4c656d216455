//! The probe tells servers that enforce from servers that pretend.

use expect_test::{Expect, expect};
use serde_json::{Value, json};
use slipform_model::Error;
use slipform_model::probe::{Verdict, probe};
use slipform_testkit::{Recorded, Script, ScriptedServer, Step};
use slipform_types::BackendKind::{self, Anthropic, Completions, OpenAi};

use crate::support::{config, kind_of, open};

/// What a request asks the server to enforce.
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

async fn examine(kind: BackendKind, script: Script) -> Result<Verdict, Error> {
    let server = ScriptedServer::start(script);
    let mut config = config(&server, kind);
    config.retries = 0;
    probe(open(&config).as_ref(), &|_| {}).await
}

/// The verdict on a server that answers like this, a feature a line.
async fn check(kind: BackendKind, mut answer: impl FnMut(Feature) -> Step + Send + 'static, expect: Expect) {
    let script = Script::respond(move |request, _| answer(feature(request)));
    let verdict = examine(kind, script).await.unwrap();
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
    assert_eq!(all.to_vec(), supports, "the short form says the same");
    expect.assert_eq(&lines.join("\n"));
}

fn kept() -> Value {
    json!({"colour": "red", "rating": 5})
}

/// What the prompt asks for against the schema.
fn lured() -> Value {
    json!({"colour": "ultraviolet", "rating": 99, "note": "hello"})
}

fn enforce(feature: Feature) -> Step {
    match feature {
        Feature::Tools | Feature::ForcedTools => Step::tool("describe_paint", kept()),
        _ => Step::json(&kept()),
    }
}

#[tokio::test]
async fn a_server_that_enforces() {
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
            json_object: ignored (-, -, -) (the protocol has no place for it)
            tools: enforced (held, held, held) {"colour":"red","rating":5}
            forced_tools: enforced (held, held, held) {"colour":"red","rating":5}
            calls: 3"#]],
    )
    .await;
}

#[tokio::test]
async fn what_the_protocol_cannot_say_is_not_asked() {
    check(
        Completions,
        enforce,
        expect![[r#"
        json_schema: enforced (held, held, held) {"colour":"red","rating":5}
        json_object: ignored (-, -, -) (the protocol has no place for it)
        tools: ignored (-, -, -) (the protocol has no place for it)
        forced_tools: ignored (-, -, -) (the protocol has no place for it)
        calls: 1"#]],
    )
    .await;
}

#[tokio::test]
async fn a_program_is_only_tried() {
    let verdict = |script: &'static str| async move {
        let config = crate::command::config(&["sh", "-c", script]);
        let backend = slipform_model::connect(&config, &crate::command::environment).unwrap();
        probe(backend.as_ref(), &|_| {}).await
    };
    assert_eq!(verdict("echo ultraviolet").await.unwrap().calls, 1);
    assert_eq!(kind_of(&verdict("exit 1").await.unwrap_err()), "Program");
}

#[tokio::test]
async fn a_server_that_ignores_everything() {
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
async fn a_server_that_refuses_formats() {
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
async fn a_server_that_ignores_tools() {
    let answer = |feature| match feature {
        Feature::Tools | Feature::ForcedTools => Step::json(&kept()),
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
async fn a_server_that_gives_the_form_without_the_constraints() {
    let answer = |feature| match feature {
        Feature::Tools | Feature::ForcedTools => Step::tool("describe_paint", lured()),
        _ => Step::json(&lured()),
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
async fn one_broken_constraint_is_enough() {
    let answer = |feature| match feature {
        Feature::Schema => Step::json(&json!({"colour": "green", "rating": 1, "note": "hello"})),
        Feature::Object => Step::json(&json!({"colour": "blue", "rating": 1})),
        // Bounds of numbers are known to be left out by servers that enforce the rest.
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
async fn a_model_that_only_thought_says_nothing_about_the_server() {
    check(
        OpenAi,
        |_| Step::reasoning("Hm, ultraviolet…").finish("length"),
        expect![[r#"
            json_schema: unknown (-, -, -) (the tokens ran out before an answer)
            json_object: unknown (-, -, -) (the tokens ran out before an answer)
            tools: unknown (-, -, -) (the tokens ran out before an answer)
            forced_tools: unknown (-, -, -) (the tokens ran out before an answer)
            calls: 4"#]],
    )
    .await;
    check(
        OpenAi,
        |_| Step::text("{\"colour\": \"r").finish("length"),
        expect![[r#"
        json_schema: unknown (-, -, -) {"colour": "r
        json_object: unknown (-, -, -) {"colour": "r
        tools: unknown (-, -, -) (the tokens ran out before an answer)
        forced_tools: unknown (-, -, -) (the tokens ran out before an answer)
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
async fn a_server_that_refuses_all_features_is_asked_a_plain_question() {
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
async fn what_has_nothing_to_do_with_features_is_an_error() {
    for (status, expected) in [
        (400, "Rejected"),
        (401, "Rejected"),
        (403, "Rejected"),
        (404, "Rejected"),
        (429, "Busy"),
        (500, "Busy"),
        (503, "Busy"),
    ] {
        let error = examine(OpenAi, Script::new([Step::status(status)]).repeat_last()).await.unwrap_err();
        assert_eq!(kind_of(&error), expected, "{status}");
        assert!(error.to_string().contains(&format!("scripted status {status}")), "{error}");
    }
    let late = Script::new([Step::json(&kept()), Step::status(401)]);
    assert_eq!(kind_of(&examine(OpenAi, late).await.unwrap_err()), "Rejected", "a key that is withdrawn");
}

#[tokio::test]
async fn a_server_that_is_down_is_an_error() {
    let server = ScriptedServer::start(Step::text("never"));
    let mut config = config(&server, OpenAi);
    config.retries = 0;
    drop(server);
    let error = probe(open(&config).as_ref(), &|_| {}).await.unwrap_err();
    assert_eq!(kind_of(&error), "Unreachable");
}

#[tokio::test]
async fn servers_say_whose_rules_they_follow() {
    let dialect = async |script: Script| examine(OpenAi, script).await.unwrap().dialect;
    let script = || Script::respond(|request, _| enforce(feature(request)));
    for (owner, expected) in [
        ("vllm", Some("vllm")),
        ("llamacpp", Some("llama.cpp")),
        ("library", Some("ollama")),
        ("organization_owner", Some("lmstudio")),
        ("somebody", None),
    ] {
        assert_eq!(dialect(script().serving("m", owner)).await.as_deref(), expected, "{owner}");
    }
    assert_eq!(dialect(script().route("GET", "/v1/models", Step::status(404))).await, None);
    assert_eq!(dialect(script().route("GET", "/v1/models", Step::html())).await, None);
}
