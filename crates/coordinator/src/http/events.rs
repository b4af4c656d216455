//! Journals, in pages and as streams.

use axum::Json;
use axum::extract::{Extension, State};
use axum::http::HeaderMap;
use axum::response::Response;
use serde::Deserialize;
use slipform_api::{Code, Error, EventPage};
use slipform_store::Position;
use utoipa::IntoParams;

use super::context::Shared;
use super::errors::Refused;
use super::extract::{SessionAt, ValidQuery};
use super::guard::Pass;
use super::sessions::checked_limit;
use super::stream::{Reader, stream};

/// Which events of a session are wanted.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct EventsQuery {
    /// Those after this number.
    #[param(minimum = 0)]
    after: Option<i64>,
    /// How many at most; 100 where nothing is said.
    #[param(minimum = 1, maximum = 1_000)]
    limit: Option<i64>,
}

/// Where a session's stream begins.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct SessionStreamQuery {
    /// After this number; `Last-Event-ID` goes before it.
    #[param(minimum = 0)]
    after: Option<i64>,
}

/// Where the stream of all sessions begins.
#[derive(Debug, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(super) struct StreamQuery {
    /// After this id; 0 is the beginning. `Last-Event-ID` goes before it.
    #[param(pattern = "^(0|[0-9]{1,18}-[0-9]{1,18})$")]
    after: Option<String>,
}

/// Some of a session's journal.
#[utoipa::path(get, path = "/sessions/{session_id}/events", tag = "events",
    params(("session_id" = slipform_api::SessionIdText, Path), EventsQuery),
    responses((status = 200, description = "Events, oldest first.", body = EventPage)))]
pub(super) async fn list(
    State(context): Shared,
    SessionAt(session): SessionAt,
    ValidQuery(query): ValidQuery<EventsQuery>,
) -> Result<Json<EventPage>, Refused> {
    let (after, limit) = (checked_number(query.after.unwrap_or(0))?, checked_limit(query.limit)?);
    Ok(Json(context.app.events(&session, after, limit).await?))
}

/// A session's journal as it grows: `id` is an event's number, `event` its type, `data` the event.
#[utoipa::path(get, path = "/sessions/{session_id}/events/stream", tag = "events",
    params(("session_id" = slipform_api::SessionIdText, Path), SessionStreamQuery,
        ("Last-Event-ID" = Option<String>, Header, pattern = "^[0-9]{1,18}$", description = "The last event that was seen.")),
    responses((status = 200, description = "Server-sent events, without end.", content_type = "text/event-stream", body = String)))]
pub(super) async fn session_stream(
    State(context): Shared,
    SessionAt(session): SessionAt,
    ValidQuery(query): ValidQuery<SessionStreamQuery>,
    Extension(pass): Extension<Pass>,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    let after = match last_event_id(&headers)? {
        Some(id) => id.parse().map_err(|_| not_an_id(id))?,
        None => query.after.unwrap_or(0),
    };
    let reading = context.in_turn(context.app.read_session(session, checked_number(after)?)).await?;
    Ok(stream(context, pass, Reader::Session(reading)))
}

/// All journals as they grow. `id` is an event's place among all events.
#[utoipa::path(get, path = "/events/stream", tag = "events",
    params(StreamQuery, ("Last-Event-ID" = Option<String>, Header, pattern = "^(0|[0-9]{1,18}-[0-9]{1,18})$",
        description = "The last event that was seen. Without it, only what is new comes.")),
    responses((status = 200, description = "Server-sent events, without end.", content_type = "text/event-stream", body = String)))]
pub(super) async fn all_stream(
    State(context): Shared,
    ValidQuery(query): ValidQuery<StreamQuery>,
    Extension(pass): Extension<Pass>,
    headers: HeaderMap,
) -> Result<Response, Refused> {
    let after = last_event_id(&headers)?.or(query.after.as_deref());
    let after = after.map(|id| position(id).ok_or_else(|| not_an_id(id))).transpose()?;
    let reading = context.in_turn(context.app.read_all(after)).await?;
    Ok(stream(context, pass, Reader::All(reading)))
}

/// The last id that the client has seen. Browsers send an empty one where there was none.
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

fn checked_number(after: i64) -> Result<i64, Error> {
    match after {
        0.. => Ok(after),
        _ => Err(Error::new(Code::InvalidRequest, "events are numbered from 1; after must not be negative")),
    }
}

fn not_an_id(id: &str) -> Error {
    let shown: String = id.chars().take(40).collect();
    let message =
        format!("'{shown}' is not the id of an event of this stream; send the last one that you got");
    Error::new(Code::InvalidRequest, message)
}
