//! Reads journals from a position and then follows them, without gaps or duplicates.
//!
//! A reader subscribes before it reads, so it receives whatever is committed while it reads, and it skips
//! what it has already returned. A reader that lags reads the store again from its last position. Only
//! lagging readers query the store themselves; the [`Tail`](crate::Tail) reads it once for all others.

use std::collections::HashMap;
use std::sync::Arc;

use slipform_api::{Code, Error};
use slipform_store::{EventsPage, Position, StoredEvent};
use slipform_types::SessionId;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};

use super::{App, errors};
use crate::tail::Subscription;

/// Maximum number of events per read. They stay in memory until the client has received them.
const PAGE: usize = 50;

/// Maximum number of sessions whose owners a reader remembers.
const SESSIONS_MAX: usize = 1_024;

/// A batch of events, shared between subscribers.
pub(crate) type Events = Vec<Arc<StoredEvent>>;

/// Reads and follows the journal of one session.
pub(crate) struct SessionReader {
    app: App,
    session: SessionId,
    subscription: Subscription,
    /// `seq` of the last returned event.
    last: i64,
    is_behind: bool,
}

/// Reads and follows the journals of all sessions.
pub(crate) struct AllReader {
    app: App,
    subscription: Subscription,
    last: Position,
    is_behind: bool,
    /// Whether the caller may read the sessions seen so far. Empty if it may read all.
    readable: HashMap<SessionId, bool>,
}

impl App {
    /// Opens a reader for a session's journal after an event.
    ///
    /// # Errors
    /// Returns `SessionNotFound`, or `InvalidRequest` if `after` is beyond the last event.
    pub(crate) async fn read_session(&self, session: SessionId, after: i64) -> Result<SessionReader, Error> {
        let subscription = self.tail().subscribe(&session);
        let view = self.session(&session).await?;
        if after > view.last_seq {
            let message = format!(
                "session {session} has no event {after}; its last event is {}; if the database was restored from a \
                     backup, read the journal again with `after=0`",
                view.last_seq
            );
            return Err(Error::new(Code::InvalidRequest, message));
        }
        Ok(SessionReader { app: self.clone(), session, subscription, last: after, is_behind: true })
    }

    /// Opens a reader for all journals after a position. `None` starts with new events.
    ///
    /// # Errors
    /// Returns `InvalidRequest` if `after` is beyond the last event.
    pub(crate) async fn read_all(&self, after: Option<Position>) -> Result<AllReader, Error> {
        let subscription = self.tail().subscribe_all();
        let last = match after {
            Some(position) => {
                if self.store().is_beyond_end(position).await.map_err(errors::store)? {
                    return Err(beyond_end(position));
                }
                position
            }
            None => self.store().last_position().await.map_err(errors::store)?,
        };
        Ok(AllReader { app: self.clone(), subscription, last, is_behind: true, readable: HashMap::new() })
    }
}

/// The error for a position after the last event. A client would wait for events that were stored before it.
fn beyond_end(position: Position) -> Error {
    let message = format!(
        "no event {}-{} was ever stored; if the database was restored from a backup, read the journals again with \
         `after=0`",
        position.transaction, position.event
    );
    Error::new(Code::InvalidRequest, message)
}

impl SessionReader {
    /// Waits for the next events. Returns `None` when the session has been deleted. Cancel-safe.
    ///
    /// # Errors
    /// Fails if the store is unavailable.
    pub(crate) async fn next(&mut self) -> Result<Option<Events>, Error> {
        loop {
            if self.is_behind {
                let page = self.app.store().events(&self.session, self.last, PAGE).await;
                let EventsPage { events, has_more } = page.map_err(errors::store)?;
                self.is_behind = has_more;
                if let Some(last) = events.last() {
                    self.last = last.seq;
                    return Ok(Some(events.into_iter().map(Arc::new).collect()));
                }
            }
            match self.subscription.recv().await {
                Ok(event) if event.seq <= self.last => {}
                Ok(event) if event.seq == self.last + 1 => return Ok(Some(self.collect_ready(event))),
                Ok(_) | Err(RecvError::Lagged(_)) => self.is_behind = true,
                Err(RecvError::Closed) => {
                    self.subscription = self.app.tail().subscribe(&self.session);
                    self.is_behind = true;
                    let session = self.app.store().session(&self.session).await.map_err(errors::store)?;
                    if session.is_none() {
                        return Ok(None);
                    }
                }
            }
        }
    }

    /// Collects an event and those that already follow it.
    fn collect_ready(&mut self, event: Arc<StoredEvent>) -> Events {
        let mut events = vec![event];
        while events.len() < PAGE {
            match self.subscription.try_recv() {
                Ok(event) if event.seq == self.last + 1 + events.len() as i64 => events.push(event),
                Ok(event) if event.seq <= self.last => {}
                Err(TryRecvError::Empty) => break,
                // A gap: the missing events, including this one, are read from the store.
                Ok(_) | Err(TryRecvError::Lagged(_) | TryRecvError::Closed) => {
                    self.is_behind = true;
                    break;
                }
            }
        }
        self.last += events.len() as i64;
        events
    }
}

impl AllReader {
    /// Waits for the next events that the caller may read. Cancel-safe: events that are dropped with a cancelled call are
    /// read again.
    ///
    /// # Errors
    /// Fails if the store is unavailable.
    pub(crate) async fn next(&mut self) -> Result<Option<Events>, Error> {
        if self.app.authority.only_owner().is_none() {
            return self.next_of_all().await;
        }
        loop {
            let before = self.last;
            let Some(events) = self.next_of_all().await? else { return Ok(None) };
            let after = std::mem::replace(&mut self.last, before);
            let is_behind = std::mem::replace(&mut self.is_behind, true);
            let readable = self.readable_only(events).await?;
            (self.last, self.is_behind) = (after, is_behind);
            if !readable.is_empty() {
                return Ok(Some(readable));
            }
        }
    }

    /// Removes the events of sessions that the caller may not read.
    async fn readable_only(&mut self, mut events: Events) -> Result<Events, Error> {
        if self.readable.len() >= SESSIONS_MAX {
            self.readable.clear();
        }
        for event in &events {
            if !self.readable.contains_key(&event.session_id) {
                let session = self.app.store().session(&event.session_id).await.map_err(errors::store)?;
                let owner = session.and_then(|session| session.created_by);
                let may_read = self.app.authority.may_read(owner.as_deref());
                self.readable.insert(event.session_id.clone(), may_read);
            }
        }
        events.retain(|event| self.readable.get(&event.session_id) == Some(&true));
        Ok(events)
    }

    async fn next_of_all(&mut self) -> Result<Option<Events>, Error> {
        loop {
            if self.is_behind {
                let events = self.app.store().all_events(self.last, PAGE).await.map_err(errors::store)?;
                self.is_behind = events.len() == PAGE;
                if let Some(last) = events.last() {
                    self.last = last.position;
                    return Ok(Some(events.into_iter().map(Arc::new).collect()));
                }
            }
            match self.subscription.recv().await {
                Ok(event) if event.position <= self.last => {}
                Ok(event) => return Ok(Some(self.collect_ready(event))),
                Err(RecvError::Lagged(_)) => self.is_behind = true,
                Err(RecvError::Closed) => {
                    self.subscription = self.app.tail().subscribe_all();
                    self.is_behind = true;
                }
            }
        }
    }

    /// Collects an event and those that already follow it.
    fn collect_ready(&mut self, event: Arc<StoredEvent>) -> Events {
        self.last = event.position;
        let mut events = vec![event];
        while events.len() < PAGE {
            match self.subscription.try_recv() {
                Ok(event) if event.position <= self.last => {}
                Ok(event) => {
                    self.last = event.position;
                    events.push(event);
                }
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Lagged(_) | TryRecvError::Closed) => {
                    self.is_behind = true;
                    break;
                }
            }
        }
        events
    }
}
