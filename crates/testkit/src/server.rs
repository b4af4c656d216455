//! The server: a thread with its own runtime, usable from blocking and async tests.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::net::TcpListener;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::oneshot;

use crate::connection::serve;
use crate::recorded::Recorded;
use crate::script::Script;
use crate::state::{State, Statistics};
use crate::step::Step;

/// A model server that follows a [`Script`], on 127.0.0.1 and a free port. Dropping it stops the server.
pub struct ScriptedServer {
    address: SocketAddr,
    state: Arc<State>,
    runtime: Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl ScriptedServer {
    /// Starts a server with these steps or this script. It accepts connections when this returns.
    pub fn start(script: impl Into<Script>) -> Self {
        let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a free port on 127.0.0.1");
        listener.set_nonblocking(true).expect("a listener that does not block");
        let address = listener.local_addr().expect("the listener's address");
        let state = Arc::new(State::new(script.into()));
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel();
        let thread = {
            let state = state.clone();
            let run = move || run(&runtime, listener, &state, stopped);
            std::thread::Builder::new().name("scripted-server".to_owned()).spawn(run).expect("a thread")
        };
        Self { address, state, runtime: handle, stop: Some(stop), thread: Some(thread) }
    }

    /// Starts a server whose replies depend on the request and the number of model requests before it.
    pub fn respond(responder: impl FnMut(&Recorded, usize) -> Step + Send + 'static) -> Self {
        Self::start(Script::respond(responder))
    }

    /// Returns the address that the server listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns `http://127.0.0.1:PORT/v1`, the base URL for chat completions.
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// Returns `http://127.0.0.1:PORT`, the base URL for messages.
    pub fn root_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the model requests so far, in order of arrival.
    pub fn requests(&self) -> Vec<Arc<Recorded>> {
        self.state.statistics().requests.clone()
    }

    /// Returns all other requests so far: model lists, routes and unknown paths.
    pub fn other_requests(&self) -> Vec<Arc<Recorded>> {
        self.state.statistics().other_requests.clone()
    }

    /// Returns the number of model requests without a step, which were answered with 599.
    pub fn unexpected(&self) -> usize {
        self.state.statistics().unexpected
    }

    /// Returns the highest number of concurrent model requests.
    pub fn max_in_flight(&self) -> usize {
        self.state.statistics().max_in_flight
    }

    /// Returns the number of replies that a client did not wait for.
    pub fn abandoned(&self) -> usize {
        self.state.statistics().abandoned
    }

    /// Returns the number of connections that clients opened.
    pub fn connections(&self) -> usize {
        self.state.statistics().connections
    }

    /// Blocks until this many model requests have arrived. Panics after [`WAIT_MAX`](crate::WAIT_MAX).
    pub fn wait_for_requests(&self, count: usize) {
        self.state.wait(&requests(count), |statistics| statistics.received >= count);
    }

    /// Waits like [`ScriptedServer::wait_for_requests`] without blocking, on any runtime and with a paused
    /// clock.
    pub async fn wait_for_requests_async(&self, count: usize) {
        self.wait_async(requests(count), move |statistics| statistics.received >= count).await;
    }

    /// Blocks until clients have abandoned this many replies. Panics after [`WAIT_MAX`](crate::WAIT_MAX).
    pub fn wait_for_abandoned(&self, count: usize) {
        self.state.wait(&abandoned(count), |statistics| statistics.abandoned >= count);
    }

    /// Waits like [`ScriptedServer::wait_for_abandoned`] without blocking.
    pub async fn wait_for_abandoned_async(&self, count: usize) {
        self.wait_async(abandoned(count), move |statistics| statistics.abandoned >= count).await;
    }

    /// Waits on the server's own runtime, because the test's clock may be paused.
    async fn wait_async(&self, what: String, is_met: impl Fn(&Statistics) -> bool + Send + Sync + 'static) {
        let state = self.state.clone();
        let waiting = self.runtime.spawn(async move { state.wait_async(&what, is_met).await });
        if let Err(error) = waiting.await {
            match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(error) => panic!("the server stopped while the test was waiting: {error}"),
            }
        }
    }
}

impl Drop for ScriptedServer {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            // An error means that the thread has already ended.
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            // The panic was already reported; a second one here would abort the test process.
            let _ = thread.join();
        }
    }
}

impl std::fmt::Debug for ScriptedServer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("ScriptedServer").field("address", &self.address).finish_non_exhaustive()
    }
}

fn requests(count: usize) -> String {
    format!("{count} model requests")
}

fn abandoned(count: usize) -> String {
    format!("{count} abandoned replies")
}

fn run(
    runtime: &Runtime,
    listener: std::net::TcpListener,
    state: &Arc<State>,
    stopped: oneshot::Receiver<()>,
) {
    runtime.block_on(async {
        let listener = TcpListener::from_std(listener).expect("a listener for the runtime");
        tokio::select! {
            _ = stopped => {}
            () = accept(&listener, state) => {}
        }
    });
}

async fn accept(listener: &TcpListener, state: &Arc<State>) {
    while let Ok((stream, _)) = listener.accept().await {
        // Disable Nagle's algorithm: its delay would be measured as the client's.
        if stream.set_nodelay(true).is_ok() {
            state.record_connection();
            tokio::spawn(serve(stream, state.clone()));
        }
    }
}
