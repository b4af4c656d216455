//! Handlers for journals, as pages and as streams.

use axum::Json;
use axum::extract::{Extension, State};
use axum::http::HeaderMap;
use axum::response::Response;
use serde::Deserialize;
use slipform_api::{Code, Error, EventPage, EventsQuery};
use slipform_store::Position;
use slipform_types::EventKind;
use utoipa::IntoParams;

use super::context::Shared;
use super::errors::ErrorResponse;
use super::extract::{CallerApp, SessionIdPath, ValidQuery};
use super::guard::RequestToken;
use super::stream::{EventFilter, Reader, stream};
use crate::app::event_number;

/// Query parameters of a session's stream.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct SessionStreamQuery {
    /// Start after this `seq`. `Last-Event-ID` takes precedence.
    #[param(minimum = 0)]
    after: Option<i64>,
}

/// Query parameters of the stream of all sessions.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct StreamQuery {
    /// Start after this event id; 0 starts at the beginning. `Last-Event-ID` takes precedence.
    #[param(pattern = "^(0|[0-9]{1,18}-[0-9]{1,18})$")]
    after: Option<String>,
    /// Only events of these types, separated by commas.
    #[param(pattern = "^[a-z_]+(,[a-z_]+)*$")]
    types: Option<String>,
    /// Whether `data` has only the envelope and the type, with `agent_name` for `run_start` and `status` for
    /// `run_completed`.
    #[serde(default)]
    summary: bool,
}

/// Reads a list of event types.
fn kinds(types: &str) -> Result<Vec<EventKind>, Error> {
    let kind = |name: &str| {
        EventKind::named(name).ok_or_else(|| {
            let shown: String = name.chars().take(40).collect();
            let known: Vec<&str> = EventKind::ALL.iter().map(|kind| kind.name()).collect();
            let message = format!("`types`: `{shown}` is not an event type; known are {}", known.join(", "));
            Error::new(Code::InvalidRequest, message)
        })
    };
    types.split(',').map(kind).collect()
}

/// Returns a page of a session's journal.
#[utoipa::path(get, path = "/sessions/{session_id}/events", tag = "events",
    params(("session_id" = slipform_api::SessionIdText, Path), EventsQuery),
    responses((status = 200, description = "Events, oldest first.", body = EventPage)))]
pub(super) async fn list(
    CallerApp(app): CallerApp,
    SessionIdPath(session): SessionIdPath,
    ValidQuery(query): ValidQuery<EventsQuery>,
) -> Result<Json<EventPage>, ErrorResponse> {
    Ok(Json(app.events(&session, query).await?))
}

/// Streams a session's journal as server-sent events: `id` is the event's `seq`, `event` its type, `data` the
/// event.
#[utoipa::path(get, path = "/sessions/{session_id}/events/stream", tag = "events",
    params(("session_id" = slipform_api::SessionIdText, Path), SessionStreamQuery,
        ("Last-Event-ID" = Option<String>, Header, pattern = "^[0-9]{1,18}$", description = "Id of the last received event.")),
    responses((status = 200, description = "An endless stream of server-sent events.", content_type = "text/event-stream", body = String)))]
pub(super) async fn session_stream(
    State(context): Shared,
    CallerApp(app): CallerApp,
    SessionIdPath(session): SessionIdPath,
    ValidQuery(query): ValidQuery<SessionStreamQuery>,
    Extension(token): Extension<RequestToken>,
    headers: HeaderMap,
) -> Result<Response, ErrorResponse> {
    let after = match last_event_id(&headers)? {
        Some(id) => id.parse().map_err(|_| not_an_id(id))?,
        None => query.after.unwrap_or(0),
    };
    let reading = context.with_permit(app.read_session(session, event_number(after)?)).await?;
    Ok(stream(context, token, Reader::Session(reading), EventFilter::default()))
}

/// Streams the journals of all sessions as server-sent events. `id` is the event's position among all events.
#[utoipa::path(get, path = "/events/stream", tag = "events",
    params(StreamQuery, ("Last-Event-ID" = Option<String>, Header, pattern = "^(0|[0-9]{1,18}-[0-9]{1,18})$",
        description = "Id of the last received event. Without it, only new events are sent.")),
    responses((status = 200, description = "An endless stream of server-sent events.", content_type = "text/event-stream", body = String)))]
pub(super) async fn all_stream(
    State(context): Shared,
    CallerApp(app): CallerApp,
    ValidQuery(query): ValidQuery<StreamQuery>,
    Extension(token): Extension<RequestToken>,
    headers: HeaderMap,
) -> Result<Response, ErrorResponse> {
    let after = last_event_id(&headers)?.or(query.after.as_deref());
    let after = after.map(|id| position(id).ok_or_else(|| not_an_id(id))).transpose()?;
    let filter =
        EventFilter { kinds: query.types.as_deref().map(kinds).transpose()?, is_summary: query.summary };
    let reading = context.with_permit(app.read_all(after)).await?;
    Ok(stream(context, token, Reader::All(reading), filter))
}

/// Returns the last event id that the client has received. Browsers send an empty one at first.
fn last_event_id(headers: &HeaderMap) -> Result<Option<&str>, Error> {
    match headers.get("last-event-id").map(axum::http::HeaderValue::to_str) {
        None | Some(Ok("")) => Ok(None),
        Some(Ok(id)) => Ok(Some(id)),
        Some(Err(_)) => Err(not_an_id("…")),
    }
}

fn position(id: &str) -> Option<Position> {
    if id == "0" {
        return Some(Position::default());
    }
    let number = |text: &str| text.parse().ok().filter(|number: &i64| *number >= 0);
    let (transaction, event) = id.split_once('-')?;
    Some(Position { transaction: number(transaction)?, event: number(event)? })
}

fn not_an_id(id: &str) -> Error {
    let shown: String = id.chars().take(40).collect();
    let message = format!("`{shown}` is not an event id of this stream; send the last id that you received");
    Error::new(Code::InvalidRequest, message)
}
