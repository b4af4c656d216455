//! What every test needs: a backend that talks to a scripted server.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use formwork_model::{Backend, BackendConfig, Call, Error, Watch, connect};
use formwork_testkit::{ScriptedServer, Step};
use formwork_types::{BackendKind, Message, Reply, Request};
use tokio::sync::Notify;

/// Settings for a server of this kind, with no wait before a repeat.
pub(crate) fn config(kind: BackendKind, server: &ScriptedServer) -> BackendConfig {
    let mut config = BackendConfig::new("mine", kind);
    config.base_url = Some(match kind {
        BackendKind::Anthropic => server.root_url(),
        _ => server.base_url(),
    });
    config.model = Some("model-7b".to_owned());
    config.retry_base_seconds = 0.0;
    config
}

/// The same, without repeats.
pub(crate) fn once(kind: BackendKind, server: &ScriptedServer) -> BackendConfig {
    BackendConfig { retries: 0, ..config(kind, server) }
}

/// A backend that sees no variables.
pub(crate) fn backend(config: &BackendConfig) -> Arc<dyn Backend> {
    connect(config, &|_| None).unwrap()
}

/// A request that says hello.
pub(crate) fn hello() -> Request {
    Request { messages: vec![Message::user("Hello")], ..Request::default() }
}

/// Says hello to a backend with these settings.
pub(crate) async fn call(config: &BackendConfig) -> Result<Reply, Error> {
    backend(config).call(Call::new(&hello())).await
}

/// Says hello to a server of this kind that follows these steps, without repeats.
pub(crate) async fn reply(kind: BackendKind, step: Step) -> Result<Reply, Error> {
    let server = ScriptedServer::start(step);
    call(&once(kind, &server)).await
}

/// Keeps the waits that it is told of.
#[derive(Default)]
pub(crate) struct Waits {
    told: Mutex<Vec<Duration>>,
    changed: Notify,
}

impl Waits {
    /// All of them so far.
    pub(crate) fn all(&self) -> Vec<Duration> {
        self.told.lock().unwrap().clone()
    }

    /// Ends when there is one.
    pub(crate) async fn first(&self) {
        self.changed.notified().await;
    }
}

impl Watch for Waits {
    fn waiting(&self, wait: Duration, _: &Error) {
        self.told.lock().unwrap().push(wait);
        self.changed.notify_one();
    }
}
