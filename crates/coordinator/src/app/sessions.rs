//! Reads, stops and deletes sessions.

use serde_json::json;
use slipform_api::{
    Code, Error, EventPage, EventsQuery, ResultView, RunView, SessionPage, SessionView, SessionsQuery,
};
use slipform_store::{Page, RunFilter, SessionFilter};
use slipform_types::{RunId, SessionId};

use super::paging::{event_number, page, page_size};
use super::runs::not_finished;
use super::submit::no_session;
use super::{App, errors, views};

/// Page size for scanning a session's runs.
const PAGE: usize = 500;

impl App {
    /// Returns a session.
    ///
    /// # Errors
    /// Returns `SessionNotFound` for an unknown id.
    pub async fn session(&self, session: &SessionId) -> Result<SessionView, Error> {
        let record = self.store().session(session).await.map_err(errors::store)?;
        let record = record.filter(|record| self.authority.may_read(record.created_by.as_deref()));
        record.map(views::session).ok_or_else(|| no_session(session))
    }

    /// Lists sessions, newest first.
    ///
    /// # Errors
    /// Returns `InvalidRequest` for an invalid page, and fails if the store is unavailable.
    pub async fn sessions(&self, query: SessionsQuery) -> Result<SessionPage, Error> {
        let page = page(query.after, query.limit)?;
        let filter = SessionFilter {
            owner: self.authority.only_owner().map(str::to_owned),
            agent_name: query.agent_name,
            status: query.status,
            parent_session_id: query.parent_session_id,
        };
        let listed = self.store().sessions(filter, page).await.map_err(errors::store)?;
        Ok(SessionPage {
            sessions: listed.items.into_iter().map(views::session).collect(),
            next: listed.next,
        })
    }

    /// Asks all runs of a session to stop, including queued ones, and returns the active run. If all have
    /// ended, returns the latest run unchanged.
    ///
    /// # Errors
    /// Returns `SessionNotFound` for an unknown id.
    pub async fn stop_session(&self, session: &SessionId) -> Result<RunView, Error> {
        let view = self.session(session).await?;
        let mut unfinished = self.unfinished_runs(session).await?;
        let active = unfinished.pop().unwrap_or(view.last_run_id);
        // Queued runs first, because the end of the active run would activate the next one.
        for queued in unfinished {
            self.stop_run(&queued).await?;
        }
        self.stop_run(&active).await
    }

    /// Returns the runs of a session that have not ended, newest first.
    async fn unfinished_runs(&self, session: &SessionId) -> Result<Vec<RunId>, Error> {
        let mut found = Vec::new();
        let mut after = None;
        loop {
            let filter = RunFilter { session_id: Some(session.clone()), ..RunFilter::default() };
            let page = Page { after, limit: PAGE };
            let page = self.store().runs(filter, page).await.map_err(errors::store)?;
            found.extend(page.items.into_iter().filter(|run| !run.status.is_ended()).map(|run| run.run_id));
            match page.next {
                Some(next) => after = Some(next),
                None => return Ok(found),
            }
        }
    }

    /// Deletes a session and its descendants.
    ///
    /// # Errors
    /// Returns `SessionNotFound`, or `SessionBusy` if a run has not ended or awaits a result from the
    /// session.
    pub async fn delete_session(&self, session: &SessionId) -> Result<(), Error> {
        self.authorize_session(session).await?;
        match self.store().delete_session(session).await.map_err(errors::store)? {
            None => Err(no_session(session)),
            Some(Ok(())) => {
                self.tail().close(session);
                Ok(())
            }
            Some(Err(run_id)) => {
                let owner = self.record(&run_id).await?.session_id;
                let busy = if owner == *session {
                    format!("session {session} is busy with run {run_id}")
                } else {
                    format!("session {session} is in use by run {run_id} of session {owner}")
                };
                let message = format!("{busy}; wait for its end or stop it first");
                Err(Error::new(Code::SessionBusy, message).with(json!({"run_id": run_id})))
            }
        }
    }

    /// Returns a page of a session's journal.
    ///
    /// # Errors
    /// Returns `SessionNotFound` for an unknown id, or `InvalidRequest` for an invalid page.
    pub async fn events(&self, session: &SessionId, query: EventsQuery) -> Result<EventPage, Error> {
        let (after, limit) = (event_number(query.after.unwrap_or(0))?, page_size(query.limit)?);
        self.authorize_session(session).await?;
        let page = self.store().events(session, after, limit).await.map_err(errors::store)?;
        if page.events.is_empty() {
            self.session(session).await?;
        }
        let (events, next) = views::journal(&page)?;
        Ok(EventPage { events, next })
    }

    /// Returns the result of the session's latest run.
    ///
    /// # Errors
    /// Returns `SessionNotFound`, or `NotFinished` if the run has not ended.
    pub async fn session_result(&self, session: &SessionId) -> Result<ResultView, Error> {
        self.authorize_session(session).await?;
        let details = self.store().latest_run_details(session).await.map_err(errors::store)?;
        let details = details.ok_or_else(|| no_session(session))?;
        let view = views::run(details)?;
        match view.result {
            Some(result) => {
                Ok(ResultView { run_id: view.run_id, status: view.status, error: view.error, result })
            }
            None => Err(not_finished(&view.run_id, view.status)),
        }
    }
}
