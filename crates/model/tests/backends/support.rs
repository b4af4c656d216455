//! Shared helpers: a backend for a scripted server, a sample request, and outcomes as text.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use slipform_model::{Backend, BackendConfig, Call, Error, Watch, connect};
use slipform_testkit::{Script, ScriptedServer};
use slipform_types::{BackendKind, Message, Reply, Request};
use tokio::sync::Notify;

/// The kinds of backend that use HTTP.
pub(crate) const HTTP: [BackendKind; 3] =
    [BackendKind::OpenAi, BackendKind::Completions, BackendKind::Anthropic];

/// Returns settings for a scripted server, with retries that do not wait.
pub(crate) fn config(server: &ScriptedServer, kind: BackendKind) -> BackendConfig {
    let mut config = BackendConfig::new("mine", kind);
    config.base_url = Some(server.base_url());
    config.model = Some("m".to_owned());
    config.retry_base_seconds = 0.0;
    config
}

/// Creates the backend in an empty environment.
pub(crate) fn open(config: &BackendConfig) -> Arc<dyn Backend> {
    connect(config, &|_| None).unwrap()
}

pub(crate) fn question() -> Request {
    Request { messages: vec![Message::user("Which colour?")], ..Request::default() }
}

/// Sends the sample request.
pub(crate) async fn ask(backend: &dyn Backend) -> Result<Reply, Error> {
    backend.call(Call::new(&question())).await
}

/// Sends the sample request to a new server with this script. `set` changes the settings first.
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

/// Formats an outcome on one line: the reply as JSON, or the error's variant and message.
pub(crate) fn shown(outcome: &Result<Reply, Error>) -> String {
    match outcome {
        Ok(reply) => serde_json::to_string(reply).unwrap(),
        Err(error) => format!("{}: {error}", kind_of(error)),
    }
}

/// Returns the name of the error's variant.
pub(crate) fn kind_of(error: &Error) -> String {
    format!("{error:?}").chars().take_while(char::is_ascii_alphabetic).collect()
}

/// A watch that records the wait before each retry and the error that caused it.
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
