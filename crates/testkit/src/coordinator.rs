//! A coordinator on a real socket.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use serde_json::{Value, json};
use slipform_coordinator::http::{Server, ServerOptions};
use slipform_coordinator::{App, AppOptions, Registry, Scope, TokenRequest};
use slipform_store::{Options, Store};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// A project without files.
const NO_PROJECT: &str = "/nonexistent";

/// A coordinator on 127.0.0.1 and a free port, with an event tail and without a sweeper or runner. The test's runtime
/// runs it.
#[derive(Debug)]
pub struct TestServer {
    /// The address that the server listens on.
    pub address: SocketAddr,
    /// The service behind the server.
    pub app: App,
    shutdown: Option<oneshot::Sender<()>>,
    served: JoinHandle<()>,
    tail: JoinHandle<()>,
}

impl TestServer {
    /// Starts a server with a store in memory and no project.
    pub async fn open() -> TestServer {
        TestServer::with(|_| {}).await
    }

    /// Starts a server with changed options.
    pub async fn with(change: impl FnOnce(&mut ServerOptions)) -> TestServer {
        TestServer::with_project(Path::new(NO_PROJECT), change).await
    }

    /// Starts a server for the agents and schemas of a project.
    pub async fn with_project(project: &Path, change: impl FnOnce(&mut ServerOptions)) -> TestServer {
        TestServer::start(app(memory().await, project, AppOptions::default()), change).await
    }

    /// Starts a server with this store and no project.
    pub async fn with_store(store: Store) -> TestServer {
        TestServer::start(app(store, Path::new(NO_PROJECT), AppOptions::default()), |_| {}).await
    }

    /// Starts a server with this store, no project, and changed options.
    pub async fn with_store_and(store: Store, change: impl FnOnce(&mut ServerOptions)) -> TestServer {
        TestServer::start(app(store, Path::new(NO_PROJECT), AppOptions::default()), change).await
    }

    /// Starts a server whose service has changed options.
    pub async fn with_app(change: impl FnOnce(&mut AppOptions)) -> TestServer {
        let mut options = AppOptions::default();
        change(&mut options);
        TestServer::start(app(memory().await, Path::new(NO_PROJECT), options), |_| {}).await
    }

    async fn start(app: App, change: impl FnOnce(&mut ServerOptions)) -> TestServer {
        let mut options = ServerOptions::new("127.0.0.1:0".parse().expect("an address"));
        change(&mut options);
        let bound = Server::bind(options, app.clone()).await.expect("a free port on 127.0.0.1");
        let address = bound.address();
        let (shutdown, requested) = oneshot::channel::<()>();
        let served = tokio::spawn(bound.run(async {
            let _ = requested.await;
        }));
        let tail = app.tail().clone();
        let tail = tokio::spawn(async move { tail.run().await });
        TestServer { address, app, shutdown: Some(shutdown), served, tail }
    }

    /// Starts the shutdown.
    pub fn shut_down(&mut self) {
        let shutdown = self.shutdown.take().expect("the first shutdown");
        shutdown.send(()).expect("a running server");
    }

    /// Waits until the server has stopped.
    pub async fn stopped(self) {
        self.served.await.expect("no panic in the server");
        self.tail.abort();
    }

    /// Creates a token.
    pub async fn token(&self, scope: Scope) -> String {
        self.limited_token(&TokenRequest::new("a test", scope)).await
    }

    /// Creates a token with limits.
    pub async fn limited_token(&self, request: &TokenRequest) -> String {
        self.app.create_token(request).await.expect("a token").token
    }

    /// Saves an agent; `more` is merged into its blueprint.
    pub async fn agent(&self, name: &str, more: Value) {
        let mut blueprint = json!({"name": name, "description": "An agent.", "system_prompt": "Be brief."});
        for (key, value) in more.as_object().expect("an object") {
            blueprint[key] = value.clone();
        }
        self.app.create_agent(&blueprint).await.expect("a valid agent");
    }

    /// Returns another service on the same store, like that of another process.
    pub fn another_app(&self, options: AppOptions) -> App {
        app(self.app.store().clone(), Path::new(NO_PROJECT), options)
    }
}

fn app(store: Store, project: &Path, options: AppOptions) -> App {
    App::new(store, Arc::new(Registry::read(project)), options)
}

async fn memory() -> Store {
    Store::open("sqlite::memory:", &Options::default()).await.expect("a store")
}
