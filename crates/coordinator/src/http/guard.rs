//! The guard before all handlers: where a request comes from, whose token it shows, and what that may do.

use std::net::IpAddr;
use std::time::Duration;

use axum::http::{HeaderMap, Method, Request, header};
use slipform_api::{Code, Error};

use super::context::Context;
use super::origin;
use crate::app::Scope;

/// How often the token of an open stream is looked at, where there are no heartbeats in between. What is remembered
/// about tokens makes it one question for all streams of a token.
const PASS_LOOK_EVERY: Duration = Duration::from_secs(2);

/// Who sent a request, for the handlers that answer some less than others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Visitor {
    /// An administrator.
    Admin,
    /// A caller, or a runner.
    Known,
    /// Anyone, where a token is needed and none was shown.
    Stranger,
}

impl Visitor {
    fn of(scope: Scope) -> Visitor {
        if scope == Scope::Admin { Visitor::Admin } else { Visitor::Known }
    }
}

/// The token that a request was let in with, for what goes on after it was answered.
#[derive(Clone)]
pub(super) struct Pass(Option<String>);

impl Pass {
    /// Comes when the token is revoked; never where there is none.
    pub(super) async fn revoked(&self, context: &Context) {
        let Some(token) = &self.0 else { return std::future::pending().await };
        let pause = context.options.heartbeat.min(PASS_LOOK_EVERY);
        loop {
            tokio::time::sleep(pause).await;
            // A database that does not answer has revoked nothing.
            if let Ok(true) = context.tokens.is_revoked(&context.app, token).await {
                return;
            }
        }
    }
}

/// Lets a request in with what is known of who sent it, or says why not.
pub(super) async fn admit<B>(
    context: &Context,
    peer: IpAddr,
    mut request: Request<B>,
) -> Result<Request<B>, Error> {
    if !context.options.needs_token {
        origin::check(request.uri(), request.headers())?;
    }
    let needed = needed(request.method(), request.uri().path());
    let token = bearer(request.headers()).map(|token| token.map(str::to_owned));
    let pass = Pass(token.as_ref().ok().cloned().flatten());
    let scope = match token {
        Ok(None) => None,
        Ok(Some(token)) => Some(context.tokens.scope(&context.app, &token, peer).await),
        Err(error) => Some(Err(error)),
    };
    let visitor = visitor(context, needed, scope)?;
    request.extensions_mut().insert(pass);
    request.extensions_mut().insert(visitor);
    Ok(request)
}

/// Who asks, by the scope that is needed and the one of the token that is shown.
fn visitor(
    context: &Context,
    needed: Option<Scope>,
    scope: Option<Result<Option<Scope>, Error>>,
) -> Result<Visitor, Error> {
    match (needed, scope) {
        // Whoever asks whether the server lives gets an answer, whatever else is wrong.
        (None, Some(Ok(Some(scope)))) => Ok(Visitor::of(scope)),
        (_, None) if !context.options.needs_token => Ok(Visitor::Known),
        (None, _) => Ok(Visitor::Stranger),
        (Some(_), None) => Err(unauthorized("this server needs a token: send 'Authorization: Bearer sf_…'")),
        (Some(_), Some(Err(error))) => Err(error),
        (Some(_), Some(Ok(None))) => Err(unauthorized("the token is not known, or was revoked")),
        (Some(needed), Some(Ok(Some(scope)))) if scope.covers(needed) => Ok(Visitor::of(scope)),
        (Some(needed), Some(Ok(Some(scope)))) => {
            let message = format!(
                "this needs a token of the scope '{}', and yours is of '{}'",
                needed.name(),
                scope.name()
            );
            Err(Error::new(Code::Forbidden, message))
        }
    }
}

/// The scope that a request needs; none where anybody may ask.
fn needed(method: &Method, path: &str) -> Option<Scope> {
    let is_read = matches!(*method, Method::GET | Method::HEAD);
    let is_question = *method == Method::POST && path.ends_with("/validate");
    let first = path.trim_start_matches('/').split('/').next().unwrap_or_default();
    match first {
        "healthz" | "readyz" if is_read => None,
        "runner" => Some(Scope::Runner),
        "agents" | "schemas" if !is_read && !is_question => Some(Scope::Admin),
        _ => Some(Scope::Caller),
    }
}

/// The token that a request shows.
fn bearer(headers: &HeaderMap) -> Result<Option<&str>, Error> {
    let Some(value) = headers.get(header::AUTHORIZATION) else { return Ok(None) };
    let token =
        value.to_str().ok().and_then(|value| value.split_once(' ')).map(|(kind, token)| (kind, token.trim()));
    match token {
        Some((kind, token)) if kind.eq_ignore_ascii_case("bearer") && !token.is_empty() => Ok(Some(token)),
        _ => Err(unauthorized("the header Authorization is not understood; write 'Bearer sf_…'")),
    }
}

fn unauthorized(message: &str) -> Error {
    Error::new(Code::Unauthorized, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changes_agents_needs_an_administrator() {
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
            assert_eq!(needed(&method, path), scope, "{method} {path}");
        }
    }
}
