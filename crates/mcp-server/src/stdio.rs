//! The server on standard input and output.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use rmcp::serve_server;
use rmcp::service::ServerInitializeError;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::sync::CancellationToken;

use crate::server::McpServer;

/// Serves one client until it closes its output. Runs that it started continue.
///
/// # Errors
/// Fails if the client's first message does not open a connection.
pub async fn serve_stdio<R, W>(server: McpServer, input: R, output: W) -> io::Result<()>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let input = ClosingInput { input, closing: server.closing().clone() };
    let running = match serve_server(server, (input, output)).await {
        Ok(running) => running,
        // The client left without a message.
        Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
        Err(error) => return Err(io::Error::other(error)),
    };
    running.waiting().await.map(drop).map_err(io::Error::other)
}

/// An input whose end closes the server, before the calls that wait for runs are told that they are cancelled: the end
/// of the input stops no runs.
struct ClosingInput<R> {
    input: R,
    closing: CancellationToken,
}

impl<R: AsyncRead + Unpin> AsyncRead for ClosingInput<R> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.input).poll_read(context, buffer);
        let is_end = match &read {
            Poll::Ready(Ok(())) => buffer.filled().len() == before && buffer.remaining() > 0,
            Poll::Ready(Err(_)) => true,
            Poll::Pending => false,
        };
        if is_end {
            self.closing.cancel();
        }
        read
    }
}
