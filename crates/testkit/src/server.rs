//! The server: a thread with a runtime of its own, so that blocking and asynchronous tests can use it alike.

use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::net::TcpListener;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::oneshot;

use crate::connection::serve;
use crate::recorded::Recorded;
use crate::script::Script;
use crate::state::{Seen, State};
use crate::step::Step;

/// A model server that follows a [`Script`], on 127.0.0.1 and a free port. It stops when dropped.
pub struct ScriptedServer {
    address: SocketAddr,
    state: Arc<State>,
    runtime: Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl ScriptedServer {
    /// Starts with these steps, or with a script. Connections are accepted from here on.
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

    /// Starts with replies that depend on the request and on how many model requests came before it.
    pub fn respond(responder: impl FnMut(&Recorded, usize) -> Step + Send + 'static) -> Self {
        Self::start(Script::respond(responder))
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// `http://127.0.0.1:PORT/v1`, as clients of chat completions want it.
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// `http://127.0.0.1:PORT`, as clients of messages want it.
    pub fn root_url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The model requests so far, in order of arrival.
    pub fn requests(&self) -> Vec<Arc<Recorded>> {
        self.state.seen().requests.clone()
    }

    /// All other requests so far: lists of models, routes, and paths that are not there.
    pub fn other_requests(&self) -> Vec<Arc<Recorded>> {
        self.state.seen().other_requests.clone()
    }

    /// How many model requests found no step and were answered with 599.
    pub fn unexpected(&self) -> usize {
        self.state.seen().unexpected
    }

    /// The highest number of model requests that were handled at the same time.
    pub fn max_in_flight(&self) -> usize {
        self.state.seen().max_in_flight
    }

    /// How many replies a client did not wait for.
    pub fn abandoned(&self) -> usize {
        self.state.seen().abandoned
    }

    /// How many connections clients opened.
    pub fn connections(&self) -> usize {
        self.state.seen().connections
    }

    /// Blocks until so many model requests have arrived. Panics after 30 seconds.
    pub fn wait_for_requests(&self, count: usize) {
        self.state.wait(&requests(count), |seen| seen.received >= count);
    }

    /// Like [`ScriptedServer::wait_for_requests`], without blocking, on any runtime and under any clock.
    pub async fn wait_for_requests_async(&self, count: usize) {
        self.wait_async(requests(count), move |seen| seen.received >= count).await;
    }

    /// Blocks until so many replies were abandoned by their clients. Panics after 30 seconds.
    pub fn wait_for_abandoned(&self, count: usize) {
        self.state.wait(&abandoned(count), |seen| seen.abandoned >= count);
    }

    /// Like [`ScriptedServer::wait_for_abandoned`], without blocking.
    pub async fn wait_for_abandoned_async(&self, count: usize) {
        self.wait_async(abandoned(count), move |seen| seen.abandoned >= count).await;
    }

    /// Waits on the server's own runtime, because a test's runtime may have stopped its clock.
    async fn wait_async(&self, what: String, holds: impl Fn(&Seen) -> bool + Send + Sync + 'static) {
        let state = self.state.clone();
        let waiting = self.runtime.spawn(async move { state.wait_async(&what, holds).await });
        if let Err(error) = waiting.await {
            match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(error) => panic!("the server stopped while a test waited: {error}"),
            }
        }
    }
}

impl Drop for ScriptedServer {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            // An error means that the thread has ended already.
            let _ = stop.send(());
        }
        if let Some(thread) = self.thread.take() {
            // A panic was reported when it happened, and a second one here would abort the test run.
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
        // Small writes go out at once: a pause of the kernel's would be measured as the client's.
        if stream.set_nodelay(true).is_ok() {
            state.note_connection();
            tokio::spawn(serve(stream, state.clone()));
        }
    }
}
