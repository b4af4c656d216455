//! What the tests share: a backend at a scripted server, a question, and outcomes as text.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use slipform_model::{Backend, BackendConfig, Call, Error, Watch, connect};
use slipform_testkit::{Script, ScriptedServer};
use slipform_types::{BackendKind, Message, Reply, Request};
use tokio::sync::Notify;

/// The kinds that speak HTTP.
pub(crate) const HTTP: [BackendKind; 3] =
    [BackendKind::OpenAi, BackendKind::Completions, BackendKind::Anthropic];

/// A backend of this kind at this server, which repeats without waiting.
pub(crate) fn config(server: &ScriptedServer, kind: BackendKind) -> BackendConfig {
    let mut config = BackendConfig::new("mine", kind);
    config.base_url = Some(server.base_url());
    config.model = Some("m".to_owned());
    config.retry_base_seconds = 0.0;
    config
}

/// The backend, in an environment without variables.
pub(crate) fn open(config: &BackendConfig) -> Arc<dyn Backend> {
    connect(config, &|_| None).unwrap()
}

pub(crate) fn question() -> Request {
    Request { messages: vec![Message::user("Which colour?")], ..Request::default() }
}

/// Asks the question.
pub(crate) async fn ask(backend: &dyn Backend) -> Result<Reply, Error> {
    backend.call(Call::new(&question())).await
}

/// Asks the question of a server with this script.
pub(crate) async fn ask_script(
    kind: BackendKind,
    script: impl Into<Script>,
    set: impl FnOnce(&mut BackendConfig),
) -> (ScriptedServer, Result<Reply, Error>) {
    let server = ScriptedServer::start(script);
    let mut config = config(&server, kind);
    set(&mut config);
    let outcome = ask(open(&config).as_ref()).await;
    (server, outcome)
}

/// An outcome on one line: the reply as JSON, or the error's kind and words.
pub(crate) fn shown(outcome: &Result<Reply, Error>) -> String {
    match outcome {
        Ok(reply) => serde_json::to_string(reply).unwrap(),
        Err(error) => format!("{}: {error}", kind_of(error)),
    }
}

/// The variant's name.
pub(crate) fn kind_of(error: &Error) -> String {
    format!("{error:?}").chars().take_while(char::is_ascii_alphabetic).collect()
}

/// A watcher that writes down how long the call is about to wait, and why.
#[derive(Default)]
pub(crate) struct Waits {
    pub(crate) seen: Mutex<Vec<(Duration, String)>>,
    pub(crate) first: Notify,
}

impl Watch for Waits {
    fn waiting(&self, wait: Duration, error: &Error) {
        self.seen.lock().unwrap().push((wait, error.to_string()));
        self.first.notify_one();
    }
}
