//! Authenticates and authorizes requests before they reach a handler.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderMap, Method, Request, header};
use slipform_api::{Code, Error};

use super::context::Context;
use super::mounted::Mount;
use super::origin::{self, Scheme};
use super::places::Peer;
use crate::app::{Grant, Scope};

/// Maximum interval between token checks of an open stream. The token cache makes it one query for all
/// streams of a token.
const TOKEN_CHECK_INTERVAL_MAX: Duration = Duration::from_secs(2);

/// The sender of a request, for handlers that depend on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Requester {
    /// Sent a valid token.
    Token(Arc<Grant>),
    /// Sent no token where none is required.
    Local,
    /// Sent no valid token where one is required.
    Anonymous,
}

/// The token of a request, for checks after the response has started.
#[derive(Clone)]
pub(super) struct RequestToken(Option<String>);

impl RequestToken {
    /// Completes when the token is revoked; never without a token.
    pub(super) async fn revoked(&self, context: &Context) {
        let Some(token) = &self.0 else { return std::future::pending().await };
        let pause = context.options.heartbeat.min(TOKEN_CHECK_INTERVAL_MAX);
        loop {
            tokio::time::sleep(pause).await;
            // An unavailable database does not end the stream.
            if let Ok(true) = context.tokens.is_revoked(&context.app, token).await {
                return;
            }
        }
    }
}

/// Checks origin and token, and attaches the sender to the request.
pub(super) async fn admit<B>(
    context: &Context,
    peer: IpAddr,
    mut request: Request<B>,
) -> Result<Request<B>, Error> {
    if !context.options.needs_token {
        let scheme = if context.options.tls.is_some() { Scheme::Https } else { Scheme::Http };
        origin::check(scheme, request.uri(), request.headers())?;
    }
    let required = required_scope(request.method(), request.uri().path());
    let mount = Mount::of(&context.options.mounts, request.uri().path());
    let takes_foreign_keys = mount.is_some_and(|mount| mount.takes_foreign_keys);
    let token = match bearer(request.headers()) {
        Ok(None) if takes_foreign_keys => Ok(api_key(request.headers())),
        token => token,
    };
    let token = token.map(|token| token.map(str::to_owned));
    let request_token = RequestToken(token.as_ref().ok().cloned().flatten());
    let grant = match token {
        Ok(None) => None,
        // Such clients always send a key, even where none is needed.
        Ok(Some(token)) if takes_foreign_keys && !context.options.needs_token => {
            context.tokens.known(&context.app, &token).await.map(Ok)
        }
        Err(_) if takes_foreign_keys && !context.options.needs_token => None,
        Ok(Some(token)) => Some(context.tokens.grant(&context.app, &token, peer).await),
        Err(error) => Some(Err(error)),
    };
    let request_token = RequestToken(request_token.0.filter(|_| grant.is_some()));
    // A token that is not valid names no peer: its sender could send others.
    let is_valid = matches!(grant, Some(Ok(_)));
    let peer = match (&request_token.0, is_valid) {
        (Some(token), true) => Peer::of_token(token),
        _ if !context.options.needs_token => Peer::Local,
        _ => Peer::of_address(peer),
    };
    let requester = requester(context, required, grant)?;
    request.extensions_mut().insert(peer);
    request.extensions_mut().insert(request_token);
    request.extensions_mut().insert(requester);
    Ok(request)
}

/// Decides who sent the request, from the required scope and what the token permits.
fn requester(
    context: &Context,
    required: Option<Scope>,
    grant: Option<Result<Arc<Grant>, Error>>,
) -> Result<Requester, Error> {
    match (required, grant) {
        // Health checks are answered for any sender.
        (None, Some(Ok(grant))) => Ok(Requester::Token(grant)),
        (_, None) if !context.options.needs_token => Ok(Requester::Local),
        (None, _) => Ok(Requester::Anonymous),
        (Some(_), None) => {
            Err(unauthorized("this server requires a token; send `Authorization: Bearer sf_…`"))
        }
        (Some(_), Some(Err(error))) => Err(error),
        (Some(required), Some(Ok(grant))) if grant.scope.covers(required) => Ok(Requester::Token(grant)),
        (Some(required), Some(Ok(grant))) => {
            let message = format!(
                "this request requires a token with scope `{}`; yours has scope `{}`",
                required.name(),
                grant.scope.name()
            );
            Err(Error::new(Code::Forbidden, message))
        }
    }
}

/// Returns the scope that a request requires; `None` for public endpoints.
fn required_scope(method: &Method, path: &str) -> Option<Scope> {
    let is_read = matches!(*method, Method::GET | Method::HEAD);
    let is_check = *method == Method::POST && path.ends_with("/validate");
    let first = path.trim_start_matches('/').split('/').next().unwrap_or_default();
    match first {
        "healthz" | "readyz" if is_read => None,
        "" | "ui" if is_read => None,
        // Its handler refuses senders without a token; every scope may use it.
        "whoami" if is_read => None,
        "runner" => Some(Scope::Runner),
        "agents" | "schemas" if !is_read && !is_check => Some(Scope::Admin),
        _ => Some(Scope::Caller),
    }
}

/// Returns the key in the header that some clients of other APIs use instead of a bearer token.
fn api_key(headers: &HeaderMap) -> Option<&str> {
    headers.get("x-api-key")?.to_str().ok().map(str::trim).filter(|key| !key.is_empty())
}

/// Returns the bearer token of a request.
fn bearer(headers: &HeaderMap) -> Result<Option<&str>, Error> {
    let Some(value) = headers.get(header::AUTHORIZATION) else { return Ok(None) };
    let token =
        value.to_str().ok().and_then(|value| value.split_once(' ')).map(|(kind, token)| (kind, token.trim()));
    match token {
        Some((kind, token)) if kind.eq_ignore_ascii_case("bearer") && !token.is_empty() => Ok(Some(token)),
        _ => Err(unauthorized("invalid `Authorization` header; send `Bearer sf_…`")),
    }
}

fn unauthorized(message: &str) -> Error {
    Error::new(Code::Unauthorized, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changing_agents_and_schemas_requires_admin_scope() {
        let cases = [
            (Method::GET, "/healthz", None),
            (Method::GET, "/readyz", None),
            (Method::POST, "/readyz", Some(Scope::Caller)),
            (Method::POST, "/runner/claim", Some(Scope::Runner)),
            (Method::GET, "/runners", Some(Scope::Caller)),
            (Method::GET, "/agents/x", Some(Scope::Caller)),
            (Method::POST, "/agents", Some(Scope::Admin)),
            (Method::PATCH, "/agents/x", Some(Scope::Admin)),
            (Method::POST, "/agents/validate", Some(Scope::Caller)),
            (Method::DELETE, "/agents/validate", Some(Scope::Admin)),
            (Method::DELETE, "/schemas/x", Some(Scope::Admin)),
            (Method::POST, "/schemas/validate", Some(Scope::Caller)),
            (Method::POST, "/runs", Some(Scope::Caller)),
            (Method::GET, "/metrics", Some(Scope::Caller)),
        ];
        for (method, path, scope) in cases {
            assert_eq!(required_scope(&method, path), scope, "{method} {path}");
        }
    }
}
