//! Serves one connection.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::{Uri, header};
use axum::response::IntoResponse as _;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use slipform_api::{Code, Error};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::context::Context;
use super::errors::{RETRY_AFTER_SECONDS, refusal};
use super::limits::is_runner_request;
use super::mounted::Mount;
use super::{catch_panic, guard};

/// Maximum size of a request head.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// Time limit for sending a rejection.
const REJECT_TIMEOUT: Duration = Duration::from_secs(1);

/// The requests that a connection may send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// All requests.
    Any,
    /// Only those of runners and health checks, because the connections for others are in use.
    Reserved,
}

impl Use {
    fn check(self, uri: &Uri) -> Result<(), Error> {
        if self == Use::Any || is_runner_request(uri) || matches!(uri.path(), "/healthz" | "/readyz") {
            return Ok(());
        }
        Err(Error::new(Code::Unavailable, "too many connections; retry in a moment"))
    }
}

/// Serves requests until the connection closes or the server shuts down.
pub(super) async fn serve<S>(stream: S, peer: SocketAddr, allowed: Use, context: Arc<Context>, router: Router)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let options = &context.options;
    let io = TokioIo::new(stream);
    let router = TowerToHyperService::new(router);
    let service = service_fn({
        let context = context.clone();
        move |request: Request<Incoming>| {
            let (context, router) = (context.clone(), router.clone());
            let form = Mount::error_form(&context.options.mounts, request.uri().path());
            // Boxed, so that a connection between two requests does not hold the memory of one.
            let answered = Box::pin(async move {
                if let Err(error) = allowed.check(request.uri()) {
                    let close = [(header::CONNECTION, "close")];
                    return (close, refusal(form, error)).into_response();
                }
                match guard::admit(&context, peer.ip(), request).await {
                    // The router's error type is `Infallible`.
                    Ok(request) => router.call(request).await.unwrap_or_else(|never| match never {}),
                    Err(error) => refusal(form, error),
                }
            });
            async move { Ok::<_, Infallible>(catch_panic::catch_panic(form, answered).await) }
        }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(options.header_timeout).max_buf_size(HEAD_BYTES_MAX);
    let mut connection = pin!(builder.serve_connection(io, service));
    // A broken connection needs no handling: the client retries.
    tokio::select! {
        _ = connection.as_mut() => return,
        () = context.drain_started() => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

/// Rejects a connection because the limit is reached.
pub(super) async fn reject(mut stream: TcpStream) {
    let body = r#"{"error":"Unavailable","message":"too many connections; retry in a moment","details":null,"status_code":503}"#;
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
         retry-after: {RETRY_AFTER_SECONDS}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    let send = async {
        stream.write_all(answer.as_bytes()).await?;
        stream.shutdown().await?;
        // Reads the request before closing: closing with unread data would reset the connection and discard
        // the response.
        let mut rest = [0; 1_024];
        while stream.read(&mut rest).await? > 0 {}
        std::io::Result::Ok(())
    };
    let _ = tokio::time::timeout(REJECT_TIMEOUT, send).await;
}
