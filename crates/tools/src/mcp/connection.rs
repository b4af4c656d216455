//! The connection to one server, shared by its tools.

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{ClientCapabilities, ClientConfig, Implementation};
use rmcp::service::{ClientInitializeError, Peer, RoleClient, RunningService, ServiceError};
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::streamable_http_client::StreamableHttpError;
use slipform_process::{Pipes, Program, anchor_command};
use slipform_types::McpServer;

use super::diagnostics::Diagnostics;
use super::server::ServerHandle;
use super::stdio::MonitoredReader;
use super::{Limits, ToolContext, http};
use crate::Error;
use crate::project::package_caches;

/// Completes error messages about a failed handshake.
const DURING_HANDSHAKE: &str = "before it had introduced itself as an MCP server";

/// An initialized connection. Dropping it ends the session and kills the server's program, if it has one.
pub(crate) struct Connection {
    service: RunningService<RoleClient, ClientConfig>,
    pub(crate) server: ServerHandle,
    pub(crate) limits: Limits,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_tuple("Connection").field(&self.server.name()).finish()
    }
}

/// The outcome of the handshake, unless it timed out.
type Handshake = Result<RunningService<RoleClient, ClientConfig>, ClientInitializeError>;

impl Connection {
    /// Starts or reaches the server and performs the handshake.
    pub(crate) async fn open(
        name: &str,
        server: &McpServer,
        context: &ToolContext,
    ) -> Result<Connection, Error> {
        let limits = context.limits;
        let diagnostics = Arc::new(Diagnostics::default());
        let (server, handshake) = match server {
            McpServer::Command { command } => {
                let mut access = context.policy.program_access(&context.folder, command);
                // Package managers install servers when they start them.
                access.iter_mut().for_each(|access| access.writable.extend(package_caches()));
                let (program, pipes) = Program {
                    argv: anchor_command(command, context.policy.root.as_deref(), &context.folder),
                    folder: context.folder.clone(),
                    environment: context.environment.clone(),
                    access,
                }
                .spawn()
                .map_err(|error| Error::Server {
                    server: name.to_owned(),
                    reason: format!("is a program that does not start: {error}"),
                })?;
                let server =
                    ServerHandle::for_program(name, diagnostics.clone(), program, &context.environment);
                (server, with_timeout(limits.connect, stdio_handshake(pipes, diagnostics, limits)).await)
            }
            McpServer::Url { url } => {
                let url = http::parse_url(name, url)?;
                let server = ServerHandle::for_url(name, diagnostics.clone(), &url);
                let transport = http::transport(name, &url, diagnostics, limits)?;
                let handshake =
                    with_timeout(limits.connect, rmcp::serve_client(client_config(), transport)).await;
                (server, handshake)
            }
        };
        match handshake {
            Some(Ok(service)) => Ok(Connection { service, server, limits }),
            Some(Err(error)) => Err(handshake_error(&server, error).await),
            None => Err(server.timed_out(DURING_HANDSHAKE, limits.connect)),
        }
    }

    /// Returns the peer that sends requests.
    pub(crate) fn peer(&self) -> &Peer<RoleClient> {
        self.service.peer()
    }

    /// Converts the error of a request. An error that the server itself reported becomes [`Error::Failed`].
    pub(crate) async fn request_error(&self, error: ServiceError, during: &str) -> Error {
        match error {
            ServiceError::McpError(error) => Error::Failed(self.server.redacted(&error.message)),
            ServiceError::TransportClosed => self.server.connection_lost(during).await,
            ServiceError::TransportSend(error) => match http_error_text(&*error.error) {
                Some(reason) => self.server.error(&format!("{reason} ({during})")),
                None => self.server.connection_lost(during).await,
            },
            ServiceError::UnexpectedResponse => {
                self.server.error(&format!("answered with something that MCP does not know {during}"))
            }
            other => self.server.error(&format!("failed {during}: {other}")),
        }
    }
}

async fn with_timeout<T>(limit: Duration, handshake: impl Future<Output = T>) -> Option<T> {
    tokio::time::timeout(limit, handshake).await.ok()
}

async fn stdio_handshake(pipes: Pipes, diagnostics: Arc<Diagnostics>, limits: Limits) -> Handshake {
    let lines = MonitoredReader::new(pipes.stdout, diagnostics, limits.message_bytes_max);
    let transport =
        AsyncRwTransport::new_client(lines, pipes.stdin).with_max_line_length(limits.message_bytes_max);
    rmcp::serve_client(client_config(), transport).await
}

/// Returns the client's identity. It offers no capabilities that a server could request.
fn client_config() -> ClientConfig {
    ClientConfig::new(
        ClientCapabilities::default(),
        Implementation::new("slipform", env!("CARGO_PKG_VERSION")),
    )
}

/// Converts the error of a handshake.
async fn handshake_error(server: &ServerHandle, error: ClientInitializeError) -> Error {
    match error {
        ClientInitializeError::ConnectionClosed(_) => server.connection_lost(DURING_HANDSHAKE).await,
        ClientInitializeError::TransportError { error, .. } => match http_error_text(&*error.error) {
            Some(reason) => server.error(&reason),
            None => server.connection_lost(DURING_HANDSHAKE).await,
        },
        ClientInitializeError::JsonRpcError(error) => {
            server.error(&format!("refused the greeting: {}", error.message.trim()))
        }
        other => server.error(&format!("does not greet as MCP servers do: {other}")),
    }
}

/// Returns the message of an error from our HTTP client or rmcp's HTTP transport; `None` for other errors.
fn http_error_text(error: &(dyn std::error::Error + 'static)) -> Option<String> {
    match error.downcast_ref::<StreamableHttpError<Error>>()? {
        StreamableHttpError::Client(Error::Server { reason, .. }) => Some(reason.clone()),
        StreamableHttpError::SessionExpired => Some("has forgotten the session".to_owned()),
        other => Some(format!("does not speak MCP over HTTP as expected: {other}")),
    }
}
