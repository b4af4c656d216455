//! The connection to one server, shared by its tools.

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{ClientCapabilities, ClientConfig, Implementation};
use rmcp::service::{ClientInitializeError, Peer, RoleClient, RunningService, ServiceError};
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::streamable_http_client::StreamableHttpError;
use slipform_process::{Pipes, Program, anchor_command};
use slipform_types::McpServer;

use super::heard::Heard;
use super::side::Side;
use super::stdio::Overheard;
use super::{Limits, Surroundings, http};
use crate::Error;

/// What the server was doing when it failed at its greeting.
const GREETING: &str = "before it had introduced itself as an MCP server";

/// A server that has introduced itself. Dropping it ends the session, and the program where the server is
/// one.
pub(crate) struct Connection {
    service: RunningService<RoleClient, ClientConfig>,
    pub(crate) side: Side,
    pub(crate) limits: Limits,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("Connection").field(&self.side.server()).finish()
    }
}

/// How the greeting ended, unless it took too long.
type Greeting = Result<RunningService<RoleClient, ClientConfig>, ClientInitializeError>;

impl Connection {
    /// Starts or reaches the server and exchanges greetings.
    pub(crate) async fn open(
        name: &str,
        server: &McpServer,
        surroundings: &Surroundings,
    ) -> Result<Connection, Error> {
        let limits = surroundings.limits;
        let heard = Arc::new(Heard::default());
        let (side, greeting) = match server {
            McpServer::Command { command } => {
                let (program, pipes) = Program {
                    argv: anchor_command(command, surroundings.policy.root.as_deref(), &surroundings.folder),
                    folder: surroundings.folder.clone(),
                    environment: surroundings.environment.clone(),
                }
                .spawn()
                .map_err(|error| Error::Server {
                    server: name.to_owned(),
                    reason: format!("is a program that does not start: {error}"),
                })?;
                let side = Side::of_program(name, heard.clone(), program, &surroundings.environment);
                (side, within(limits.connect, greet_program(pipes, heard, limits)).await)
            }
            McpServer::Url { url } => {
                let url = http::address(name, url)?;
                let side = Side::of_address(name, heard.clone(), &url);
                let transport = http::transport(name, &url, heard, limits)?;
                let greeting = within(limits.connect, rmcp::serve_client(introduction(), transport)).await;
                (side, greeting)
            }
        };
        match greeting {
            Some(Ok(service)) => Ok(Connection { service, side, limits }),
            Some(Err(error)) => Err(ungreeted(&side, error).await),
            None => Err(side.silent(GREETING, limits.connect)),
        }
    }

    /// Where requests are sent.
    pub(crate) fn peer(&self) -> &Peer<RoleClient> {
        self.service.peer()
    }

    /// Why a request has no answer, in this crate's words. What the server itself says of it is
    /// [`Error::Failed`].
    pub(crate) async fn unanswered(&self, error: ServiceError, during: &str) -> Error {
        match error {
            ServiceError::McpError(error) => Error::Failed(self.side.words(&error.message)),
            ServiceError::TransportClosed => self.side.lost(during).await,
            ServiceError::TransportSend(error) => match of_http(&*error.error) {
                Some(reason) => self.side.error(&format!("{reason} ({during})")),
                None => self.side.lost(during).await,
            },
            ServiceError::UnexpectedResponse => {
                self.side.error(&format!("answered with something that MCP does not know {during}"))
            }
            other => self.side.error(&format!("failed {during}: {other}")),
        }
    }
}

async fn within<T>(limit: Duration, greeting: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(limit, greeting).await.ok()
}

async fn greet_program(pipes: Pipes, heard: Arc<Heard>, limits: Limits) -> Greeting {
    let lines = Overheard::new(pipes.stdout, heard, limits.message_bytes_max);
    let transport =
        AsyncRwTransport::new_client(lines, pipes.stdin).with_max_line_length(limits.message_bytes_max);
    rmcp::serve_client(introduction(), transport).await
}

/// Who we are. Nothing is offered that a server could ask for.
fn introduction() -> ClientConfig {
    ClientConfig::new(
        ClientCapabilities::default(),
        Implementation::new("slipform", env!("CARGO_PKG_VERSION")),
    )
}

/// Why the greeting failed.
async fn ungreeted(side: &Side, error: ClientInitializeError) -> Error {
    match error {
        ClientInitializeError::ConnectionClosed(_) => side.lost(GREETING).await,
        ClientInitializeError::TransportError { error, .. } => match of_http(&*error.error) {
            Some(reason) => side.error(&reason),
            None => side.lost(GREETING).await,
        },
        ClientInitializeError::JsonRpcError(error) => {
            side.error(&format!("refused the greeting: {}", error.message.trim()))
        }
        other => side.error(&format!("does not greet as MCP servers do: {other}")),
    }
}

/// What our own HTTP client, or the protocol above it, said.
fn of_http(error: &(dyn std::error::Error + 'static)) -> Option<String> {
    match error.downcast_ref::<StreamableHttpError<Error>>()? {
        StreamableHttpError::Client(Error::Server { reason, .. }) => Some(reason.clone()),
        StreamableHttpError::SessionExpired => Some("has forgotten the session".to_owned()),
        other => Some(format!("does not speak MCP over HTTP as expected: {other}")),
    }
}
