//! Listening, and going down.

use std::io::ErrorKind;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use slipform_api::{Code, Error};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::context::Context;
use super::{connection, router};
use crate::app::App;

/// The longest body of a request. Prompts and schemas are shorter, and everything above is a mistake.
const BODY_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The longest body of a runner's request: what models and programs may say at once (16 MiB), several times over
/// where a failed run keeps it all.
const RUNNER_BODY_BYTES_MAX: usize = 64 * 1024 * 1024;

/// The most connections at a time. A thousand followers and their friends have room; each costs some 20 kB.
const CONNECTIONS_MAX: usize = 4_096;

/// The most requests that are answered at a time, without those that wait on purpose. More would only wait for the
/// database, and whoever waits for them would not know.
const REQUESTS_MAX: usize = 512;

/// The most connections that are told at a time why they are not wanted. The others are just closed.
const TURNED_AWAY_MAX: usize = 64;

/// How long a request's head may take, and how long a connection may be idle.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a request may take, except for those that wait on purpose.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a client may leave unread what it asked for.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// How often a stream shows that it lives. Proxies close what is silent for a minute.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// How long going down may take.
const DRAIN_LIMIT: Duration = Duration::from_secs(10);

/// How long to wait when the system has no room for another connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How a server listens and what it bears.
#[derive(Clone)]
pub struct ServerOptions {
    /// Where it listens; port 0 is any that is free.
    pub listen: SocketAddr,
    /// Whether everyone needs a token. Without, only this machine's own pages and programs are let in.
    pub needs_token: bool,
    /// A token of the scope `admin` that the database does not know, for commands on the same machine.
    pub admin_token: Option<String>,
    /// The longest body of a request.
    pub max_body_bytes: usize,
    /// The longest body of a runner's request.
    pub max_runner_body_bytes: usize,
    /// The most connections at a time.
    pub max_connections: usize,
    /// The most requests that are answered at a time, without those that wait on purpose.
    pub max_requests: usize,
    /// How long a request's head may take.
    pub header_timeout: Duration,
    /// How long a request may take, except for those that wait on purpose.
    pub request_timeout: Duration,
    /// How long a client may leave unread what it asked for.
    pub write_timeout: Duration,
    /// How often a stream shows that it lives.
    pub heartbeat: Duration,
    /// How long going down may take.
    pub drain_limit: Duration,
}

/// The token is not shown.
impl std::fmt::Debug for ServerOptions {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ServerOptions { listen, needs_token, max_connections, max_requests, .. } = self;
        formatter
            .debug_struct("ServerOptions")
            .field("listen", listen)
            .field("needs_token", needs_token)
            .field("max_connections", max_connections)
            .field("max_requests", max_requests)
            .finish_non_exhaustive()
    }
}

impl ServerOptions {
    /// The usual bounds; tokens wherever others can reach the address.
    pub fn new(listen: SocketAddr) -> ServerOptions {
        ServerOptions {
            listen,
            needs_token: !listen.ip().is_loopback(),
            admin_token: None,
            max_body_bytes: BODY_BYTES_MAX,
            max_runner_body_bytes: RUNNER_BODY_BYTES_MAX,
            max_connections: CONNECTIONS_MAX,
            max_requests: REQUESTS_MAX,
            header_timeout: HEADER_TIMEOUT,
            request_timeout: REQUEST_TIMEOUT,
            write_timeout: WRITE_TIMEOUT,
            heartbeat: HEARTBEAT,
            drain_limit: DRAIN_LIMIT,
        }
    }
}

/// The API over HTTP.
#[derive(Debug)]
pub struct Server;

impl Server {
    /// Listens. Nothing is answered until [`Bound::run`] is polled. Streams need somebody to poll the app's
    /// [`Tail`](crate::Tail) as well.
    ///
    /// # Errors
    /// When the address cannot be listened at.
    pub async fn bind(options: ServerOptions, app: App) -> Result<Bound, Error> {
        let listen = options.listen;
        let refused = |error: std::io::Error| {
            let reason = match error.kind() {
                ErrorKind::AddrInUse => "another program listens there already".to_owned(),
                ErrorKind::AddrNotAvailable => "this machine does not have that address".to_owned(),
                ErrorKind::PermissionDenied => "that port is for the administrator only".to_owned(),
                _ => error.to_string(),
            };
            let message =
                format!("cannot listen at {listen}: {reason}; choose another address with --listen");
            // Trying again later does not help: somebody has to choose.
            Error::new(Code::InvalidRequest, message)
        };
        let listener = TcpListener::bind(listen).await.map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        let context = Context::new(app, options);
        let router = router::router(&context);
        Ok(Bound { listener, address, context, router })
    }
}

/// A server that listens.
#[derive(Debug)]
pub struct Bound {
    listener: TcpListener,
    address: SocketAddr,
    context: Arc<Context>,
    router: Router,
}

impl Bound {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers until `shutdown` comes, and then ends what is open: streams and long polls at once, requests when they
    /// are answered, everything when the time for it is up.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        let Bound { listener, context, router, .. } = self;
        let room = Arc::new(Semaphore::new(context.options.max_connections));
        let farewells = Arc::new(Semaphore::new(TURNED_AWAY_MAX));
        let mut connections = JoinSet::new();
        let mut shutdown = pin!(shutdown);
        loop {
            let accepted = tokio::select! {
                () = &mut shutdown => break,
                Some(_) = connections.join_next() => continue,
                accepted = listener.accept() => accepted,
            };
            let Ok((stream, peer)) = accepted else {
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            };
            if let Ok(place) = room.clone().try_acquire_owned() {
                let served = connection::serve(stream, peer, context.clone(), router.clone());
                connections.spawn(async move {
                    served.await;
                    drop(place);
                });
            } else if let Ok(place) = farewells.clone().try_acquire_owned() {
                connections.spawn(async move {
                    connection::turn_away(stream).await;
                    drop(place);
                });
            }
        }
        drop(listener);
        context.drain();
        let ended = async { while connections.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(context.options.drain_limit, ended).await;
        connections.shutdown().await;
    }
}
