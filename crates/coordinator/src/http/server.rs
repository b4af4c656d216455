//! Accepts connections and shuts down gracefully.

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

use super::connection::Use;
use super::context::Context;
use super::mounted::Mount;
use super::places::{Peer, Places};
use super::tls::{Tls, TlsFiles};
use super::{connection, mounted, router, tls};
use crate::app::App;

/// Maximum size of a request body. Prompts and schemas are far smaller.
const BODY_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Maximum size of a runner's request body. A failed run can contain several model or program outputs of up
/// to 16 MiB.
const RUNNER_BODY_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Maximum number of connections. Leaves room for a thousand streams; each connection costs about 20 kB.
const CONNECTIONS_MAX: usize = 8_192;

/// Maximum number of concurrent short requests. More would only queue for the database without the callers
/// knowing.
const REQUESTS_MAX: usize = 512;

/// The part of the connections that is kept for runners and health checks when all others are in use.
const RESERVED_DIVISOR: usize = 16;

/// Maximum number of bytes of bodies in memory, for callers and for runners each. Requests beyond it are refused.
const BODY_BYTES_IN_FLIGHT_MAX: usize = 256 * 1024 * 1024;

/// Maximum number of concurrent rejections. Further connections are closed without a response.
const REJECTIONS_MAX: usize = 64;

/// Time limit for a request head, and for idle connections.
const HEADER_TIMEOUT: Duration = Duration::from_secs(30);

/// Time limit for a request, except long polls and streams.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Maximum time that a client may leave a response unread.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// Interval of stream heartbeats. Proxies close connections that are silent for a minute.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// Time limit for a graceful shutdown.
const DRAIN_LIMIT: Duration = Duration::from_secs(10);

/// Delay after a failed accept, for example when the system is out of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Options of a server.
#[derive(Clone)]
pub struct ServerOptions {
    /// Address to listen on; port 0 selects a free port.
    pub listen: SocketAddr,
    /// Whether every request needs a token. Otherwise only requests from this machine are accepted.
    pub needs_token: bool,
    /// An `admin` token that is not in the database, for commands on the same machine.
    pub admin_token: Option<String>,
    /// The certificate for HTTPS; `None` for plain HTTP.
    pub tls: Option<TlsFiles>,
    /// The paths of mounted routers.
    pub mounts: Vec<Mount>,
    /// Maximum size of a request body.
    pub max_body_bytes: usize,
    /// Maximum size of a runner's request body.
    pub max_runner_body_bytes: usize,
    /// Maximum number of bytes of bodies in memory, for callers and for runners each.
    pub max_body_bytes_in_flight: usize,
    /// Maximum number of connections.
    pub max_connections: usize,
    /// Maximum number of concurrent short requests.
    pub max_requests: usize,
    /// Time limit for a request head.
    pub header_timeout: Duration,
    /// Time limit for a request, except long polls and streams.
    pub request_timeout: Duration,
    /// Maximum time that a client may leave a response unread.
    pub write_timeout: Duration,
    /// Interval of stream heartbeats.
    pub heartbeat: Duration,
    /// Time limit for a graceful shutdown.
    pub drain_limit: Duration,
}

/// Hides the token.
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
    /// Default limits. Requires tokens unless the address is a loopback address.
    pub fn new(listen: SocketAddr) -> ServerOptions {
        ServerOptions {
            listen,
            needs_token: !listen.ip().is_loopback(),
            admin_token: None,
            tls: None,
            mounts: Vec::new(),
            max_body_bytes: BODY_BYTES_MAX,
            max_runner_body_bytes: RUNNER_BODY_BYTES_MAX,
            max_body_bytes_in_flight: BODY_BYTES_IN_FLIGHT_MAX,
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

/// The HTTP server.
#[derive(Debug)]
pub struct Server;

impl Server {
    /// Binds the address. Requests are served when [`Bound::run`] is polled. Streams also need the app's
    /// [`Tail`](crate::Tail) to be polled.
    ///
    /// # Errors
    /// Fails if the address cannot be bound, or the certificate cannot be used.
    pub async fn bind(options: ServerOptions, app: App) -> Result<Bound, Error> {
        let listen = options.listen;
        let tls = options.tls.clone().map(Tls::open).transpose()?.map(Arc::new);
        let refused = |error: std::io::Error| {
            let reason = match error.kind() {
                ErrorKind::AddrInUse => "the address is in use".to_owned(),
                ErrorKind::AddrNotAvailable => "this machine does not have this address".to_owned(),
                ErrorKind::PermissionDenied => "this port requires administrator rights".to_owned(),
                _ => error.to_string(),
            };
            let message =
                format!("cannot listen on {listen}: {reason}; choose another address with --listen");
            // Not transient: the user must choose another address.
            Error::new(Code::InvalidRequest, message)
        };
        let listener = TcpListener::bind(listen).await.map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        let context = Context::new(app, options);
        let router = router::router(&context);
        Ok(Bound { listener, address, tls, context, router })
    }
}

/// A bound server.
#[derive(Debug)]
pub struct Bound {
    listener: TcpListener,
    address: SocketAddr,
    tls: Option<Arc<Tls>>,
    context: Arc<Context>,
    router: Router,
}

impl Bound {
    /// Adds routes behind the guard and the limits of this server. Their handlers find the [`Caller`](slipform_api::Caller)
    /// among the extensions of a request.
    #[must_use]
    pub fn mount(self, router: Router) -> Bound {
        let router = self.router.merge(mounted::limited(router, &self.context));
        Bound { router, ..self }
    }

    /// Returns the bound address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `shutdown` completes. Then ends streams and long polls at once, lets requests finish, and
    /// closes the remaining connections after the time limit.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        let Bound { listener, tls, context, router, .. } = self;
        let reserved = context.options.max_connections / RESERVED_DIVISOR;
        let places = Places::new(context.options.max_connections - reserved);
        let reserved = Places::new(reserved);
        let rejections = Arc::new(Semaphore::new(REJECTIONS_MAX));
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
            // Proxies connect from this machine for many clients.
            let holder = if peer.ip().is_loopback() { Peer::Local } else { Peer::of_address(peer.ip()) };
            let place = places.take(holder).map(|place| (place, Use::Any));
            let place = place.or_else(|_| reserved.take(holder).map(|place| (place, Use::Reserved)));
            if let Ok((place, allowed)) = place {
                let served = tls::serve(tls.clone(), stream, peer, allowed, context.clone(), router.clone());
                // A future that is moved into another takes its memory twice.
                let served = Box::pin(served);
                connections.spawn(async move {
                    served.await;
                    drop(place);
                });
            } else if tls.is_none()
                && let Ok(permit) = rejections.clone().try_acquire_owned()
            {
                connections.spawn(async move {
                    connection::reject(stream).await;
                    drop(permit);
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
