//! A key goes into one header and comes out nowhere.

use std::sync::Arc;

use formwork_model::{Backend, BackendConfig, Call, Error, connect};
use formwork_testkit::{ScriptedServer, Step};
use formwork_types::BackendKind;

use crate::support::{config, hello};

const CANARY: &str = "sk-Canary-0123456789-ABCDEF";
const KINDS: [BackendKind; 3] = [BackendKind::OpenAi, BackendKind::Completions, BackendKind::Anthropic];

fn keyed(kind: BackendKind, server: &ScriptedServer) -> Arc<dyn Backend> {
    let mut config = config(kind, server);
    config.api_key_env = Some("KEY".to_owned());
    config.retries = 0;
    connect(&config, &|name| (name == "KEY").then(|| CANARY.to_owned())).unwrap()
}

/// Not even the start of the key may be there, which a cut in the wrong place would leave.
fn check(what: &str, shown: &str) {
    assert!(!shown.to_ascii_lowercase().contains("canary"), "{what}: {shown}");
}

#[tokio::test]
async fn an_error_never_shows_the_key() {
    let far = |characters: usize| format!("{}{CANARY}", "x".repeat(characters - 12));
    let event = |message: &str| {
        format!("data: {{\"error\":{{\"type\":\"e\",\"message\":\"{message}\"}},\"type\":\"error\"}}")
    };
    for kind in KINDS {
        for step in [
            Step::status(401).body(format!("{{\"error\":{{\"message\":\"bad key Bearer {CANARY}\"}}}}")),
            Step::status(400).body(format!("Authorization: Bearer {CANARY}")),
            Step::status(500).body(format!("x-api-key: {CANARY}")),
            Step::status(400).body(far(1_000)),
            Step::status(503).body(far(1_000)),
            Step::redirect(&format!("http://elsewhere/?key={CANARY}")),
            Step::status(200).content_type(&format!("text/{CANARY}")).body("page"),
            Step::html().body(format!("<p>{CANARY}</p>")),
            Step::html().body(far(200)),
            Step::status(200).body(format!("{{\"choices\": \"{CANARY}\", \"content\": \"{CANARY}\"}}")),
            Step::text("x").error_after(1, CANARY),
            Step::text("x").malformed_chunk(1, &event(CANARY)),
            Step::text("x").malformed_chunk(1, &event(&far(1_000))),
            Step::text("x").malformed_chunk(1, &format!("data: \"{CANARY}\"")),
        ] {
            let server = ScriptedServer::start(step);
            let error = keyed(kind, &server).call(Call::new(&hello())).await.unwrap_err();
            check("Display", &error.to_string());
            check("Debug", &format!("{error:?}"));
            check("journal", &format!("{:?}", error.to_call_error()));
            assert!(server.requests()[0].headers.iter().any(|(_, value)| value.contains(CANARY)));
        }
    }
}

#[tokio::test]
async fn a_reply_never_shows_the_key() {
    for kind in KINDS {
        for step in [
            Step::text(format!("your key is {CANARY}, is it?")).chunk_bytes(4),
            Step::text(CANARY).plain_only(),
            Step::reasoning(CANARY).and_text("x"),
            Step::tool("read", format!("{{\"key\":\"{CANARY}\"}}")).chunk_bytes(4),
            Step::tool(CANARY, "{}"),
            Step::text("x").model(CANARY),
            Step::refusal(format!("I will not tell {CANARY}")),
        ] {
            let server = ScriptedServer::start(step);
            let reply = keyed(kind, &server).call(Call::new(&hello())).await.unwrap();
            check("reply", &format!("{reply:?}"));
        }
    }
}

#[tokio::test]
async fn a_backend_never_shows_the_key() {
    let server = ScriptedServer::start([]);
    for kind in KINDS {
        let backend = keyed(kind, &server);
        check("Debug", &format!("{backend:?} {backend:#?}"));
    }
}

#[test]
fn an_address_with_a_password_is_refused_without_showing_it() {
    for url in [
        "http://user:canary@host/v1",
        "http://canary@host/v1",
        "http://user:canary@host:notaport/v1",
        "ftp://user:canary@host/v1",
        "user:canary@host/v1",
        "http://user:canary@",
    ] {
        let mut config = BackendConfig::new("mine", BackendKind::OpenAi);
        config.base_url = Some(url.to_owned());
        let Err(Error::Settings(message)) = connect(&config, &|_| None) else { panic!("{url} was taken") };
        assert!(message.starts_with("backends.mine.base_url: "), "{message}");
        check(url, &message);
    }
}

#[test]
fn a_variable_that_is_not_set_is_named() {
    for value in [None, Some(""), Some(" \n")] {
        let mut config = BackendConfig::new("mine", BackendKind::OpenAi);
        config.api_key_env = Some("MY_KEY".to_owned());
        let error = connect(&config, &|_| value.map(str::to_owned)).unwrap_err();
        let start = "backends.mine.api_key_env: the variable MY_KEY is not set";
        assert!(error.to_string().starts_with(start), "{error}");
    }
}

#[test]
fn a_key_that_no_header_can_carry_is_refused_without_showing_it() {
    for kind in KINDS {
        let mut config = BackendConfig::new("mine", kind);
        config.api_key_env = Some("KEY".to_owned());
        let error = connect(&config, &|_| Some("canary\u{7}canary".to_owned())).unwrap_err();
        check("error", &error.to_string());
        assert!(matches!(error, Error::Settings(_)), "{error}");
    }
}
