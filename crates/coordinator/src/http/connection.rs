//! One connection.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::response::IntoResponse as _;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::{Service as _, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::context::Context;
use super::errors::{RETRY_AFTER_SECONDS, Refused};
use super::write_timeout::Patient;
use super::{catch_panic, guard};

/// The longest head of a request. Longer ones are refused by the connection.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// How long somebody who is turned away may take to read why.
const FAREWELL: Duration = Duration::from_secs(1);

/// Answers what is asked over a connection, until either side has enough.
pub(super) async fn serve(stream: TcpStream, peer: SocketAddr, context: Arc<Context>, router: Router) {
    // Small answers should not wait for more to come. Where the system refuses, they wait.
    let _ = stream.set_nodelay(true);
    let options = &context.options;
    let io = TokioIo::new(Patient::new(stream, options.write_timeout));
    let router = TowerToHyperService::new(router);
    let service = service_fn({
        let context = context.clone();
        move |request: Request<Incoming>| {
            let (context, router) = (context.clone(), router.clone());
            let answered = async move {
                match guard::admit(&context, peer.ip(), request).await {
                    // It never fails: what is wrong is an answer.
                    Ok(request) => router.call(request).await.unwrap_or_else(|never| match never {}),
                    Err(error) => Refused(error).into_response(),
                }
            };
            async { Ok::<_, Infallible>(catch_panic::catch_panic(answered).await) }
        }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(options.header_timeout).max_buf_size(HEAD_BYTES_MAX);
    let mut connection = pin!(builder.serve_connection(io, service));
    // A connection that breaks is the client's affair: it has the answer, or it asks again.
    tokio::select! {
        _ = connection.as_mut() => return,
        () = context.drained() => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

/// Says that there is no room for another connection.
pub(super) async fn turn_away(mut stream: TcpStream) {
    let body = r#"{"error":"Unavailable","message":"there are too many connections; try again in a moment","details":null,"status_code":503}"#;
    let answer = format!(
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
         retry-after: {RETRY_AFTER_SECONDS}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    );
    let farewell = async {
        stream.write_all(answer.as_bytes()).await?;
        stream.shutdown().await?;
        // Closing before the request was read would take the answer away again.
        let mut rest = [0; 1_024];
        while stream.read(&mut rest).await? > 0 {}
        std::io::Result::Ok(())
    };
    let _ = tokio::time::timeout(FAREWELL, farewell).await;
}
