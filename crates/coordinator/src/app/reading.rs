//! Journals read from a place on, and then followed: nothing is left out and nothing comes twice.
//!
//! A reader follows before it reads: whatever is committed while it reads is told as well, and what it has read already
//! is left out. One that falls behind reads again from where it was. The store is read once for all that follow, and by
//! a reader itself only while it catches up.

use std::sync::Arc;

use slipform_api::{Code, Error};
use slipform_store::{Position, StoredEvent};
use slipform_types::SessionId;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};

use super::{App, errors};
use crate::tail::Following;

/// The most events that are read at once. They are in memory until the client has taken them.
const PAGE: usize = 50;

/// Events as they are handed on; whoever follows shares them.
pub(crate) type Events = Vec<Arc<StoredEvent>>;

/// A session's journal, read and followed.
pub(crate) struct SessionReader {
    app: App,
    session: SessionId,
    following: Following,
    /// The last event that was handed on.
    last: i64,
    is_behind: bool,
}

/// All journals, read and followed.
pub(crate) struct AllReader {
    app: App,
    following: Following,
    last: Position,
    is_behind: bool,
}

impl App {
    /// A session's journal after an event.
    ///
    /// # Errors
    /// When there is no such session, or it has no such event yet.
    pub(crate) async fn read_session(&self, session: SessionId, after: i64) -> Result<SessionReader, Error> {
        let following = self.tail().follow(&session);
        let view = self.session(&session).await?;
        if after > view.last_seq {
            let message =
                format!("the session {session} has no event {after}; its last is {}", view.last_seq);
            return Err(Error::new(Code::InvalidRequest, message));
        }
        Ok(SessionReader { app: self.clone(), session, following, last: after, is_behind: true })
    }

    /// All journals after a position; what is new where there is none.
    ///
    /// # Errors
    /// When the store does not answer.
    pub(crate) async fn read_all(&self, after: Option<Position>) -> Result<AllReader, Error> {
        let following = self.tail().follow_all();
        let last = match after {
            Some(position) => position,
            None => self.store().last_position().await.map_err(errors::store)?,
        };
        Ok(AllReader { app: self.clone(), following, last, is_behind: true })
    }
}

impl SessionReader {
    /// What comes next, and waits for it. Nothing more comes where the session is deleted. Giving up waiting loses
    /// nothing.
    ///
    /// # Errors
    /// When the store does not answer.
    pub(crate) async fn next(&mut self) -> Result<Option<Events>, Error> {
        loop {
            if self.is_behind {
                let events = self.app.store().events(&self.session, self.last, PAGE).await;
                let events = events.map_err(errors::store)?;
                self.is_behind = events.len() == PAGE;
                if let Some(last) = events.last() {
                    self.last = last.seq;
                    return Ok(Some(events.into_iter().map(Arc::new).collect()));
                }
            }
            match self.following.recv().await {
                Ok(event) if event.seq <= self.last => {}
                Ok(event) if event.seq == self.last + 1 => return Ok(Some(self.gather(event))),
                Ok(_) | Err(RecvError::Lagged(_)) => self.is_behind = true,
                Err(RecvError::Closed) => {
                    self.following = self.app.tail().follow(&self.session);
                    self.is_behind = true;
                    let session = self.app.store().session(&self.session).await.map_err(errors::store)?;
                    if session.is_none() {
                        return Ok(None);
                    }
                }
            }
        }
    }

    /// An event, and those that have followed it already: they go on together.
    fn gather(&mut self, event: Arc<StoredEvent>) -> Events {
        let mut events = vec![event];
        while events.len() < PAGE {
            match self.following.try_recv() {
                Ok(event) if event.seq == self.last + 1 + events.len() as i64 => events.push(event),
                Ok(event) if event.seq <= self.last => {}
                Err(TryRecvError::Empty) => break,
                // What is missing is read from the store, and so is this one.
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
    /// What comes next, and waits for it. Giving up waiting loses nothing.
    ///
    /// # Errors
    /// When the store does not answer.
    pub(crate) async fn next(&mut self) -> Result<Option<Events>, Error> {
        loop {
            if self.is_behind {
                let events = self.app.store().all_events(self.last, PAGE).await.map_err(errors::store)?;
                self.is_behind = events.len() == PAGE;
                if let Some(last) = events.last() {
                    self.last = last.position;
                    return Ok(Some(events.into_iter().map(Arc::new).collect()));
                }
            }
            match self.following.recv().await {
                Ok(event) if event.position <= self.last => {}
                Ok(event) => return Ok(Some(self.gather(event))),
                Err(RecvError::Lagged(_)) => self.is_behind = true,
                Err(RecvError::Closed) => {
                    self.following = self.app.tail().follow_all();
                    self.is_behind = true;
                }
            }
        }
    }

    /// An event, and those that have followed it already: they go on together.
    fn gather(&mut self, event: Arc<StoredEvent>) -> Events {
        self.last = event.position;
        let mut events = vec![event];
        while events.len() < PAGE {
            match self.following.try_recv() {
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
