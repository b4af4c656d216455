//! Sessions: looking, results, journals, stopping, deleting.

use serde_json::json;
use slipform_api::{Code, Error, EventPage, ResultView, RunView, SessionPage, SessionView};
use slipform_store::{Page, RunFilter};
use slipform_types::{RunId, SessionId};

use super::runs::not_finished;
use super::submit::no_session;
use super::{App, errors, views};

/// The most runs that are looked through at once.
const PAGE: usize = 500;

impl App {
    /// A session.
    ///
    /// # Errors
    /// When there is none.
    pub async fn session(&self, session: &SessionId) -> Result<SessionView, Error> {
        let record = self.store().session(session).await.map_err(errors::store)?;
        record.map(views::session).ok_or_else(|| no_session(session))
    }

    /// Sessions, newest first.
    ///
    /// # Errors
    /// When the store does not answer.
    pub async fn sessions(&self, page: Page) -> Result<SessionPage, Error> {
        let listed = self.store().sessions(page).await.map_err(errors::store)?;
        Ok(SessionPage {
            sessions: listed.items.into_iter().map(views::session).collect(),
            next: listed.next,
        })
    }

    /// Asks the session's run to stop, with those that it waits for and those that wait for it, and gives that run.
    /// Where all have ended, the latest stays as it is.
    ///
    /// # Errors
    /// When there is no such session.
    pub async fn stop_session(&self, session: &SessionId) -> Result<RunView, Error> {
        let view = self.session(session).await?;
        let mut going_on = self.going_on(session).await?;
        let active = going_on.pop().unwrap_or(view.last_run_id);
        // Those that wait go first: the end of the active one would begin the next.
        for queued in going_on {
            self.stop_run(&queued).await?;
        }
        self.stop_run(&active).await
    }

    /// The runs of a session that have not ended, newest first.
    async fn going_on(&self, session: &SessionId) -> Result<Vec<RunId>, Error> {
        let mut found = Vec::new();
        let mut after = None;
        loop {
            let filter = RunFilter { session_id: Some(session.clone()), ..RunFilter::default() };
            let page = self.runs(filter, Page { after, limit: PAGE }).await?;
            found.extend(page.runs.into_iter().filter(|run| !run.status.is_ended()).map(|run| run.run_id));
            match page.next {
                Some(next) => after = Some(next),
                None => return Ok(found),
            }
        }
    }

    /// Deletes a session with all that it led to.
    ///
    /// # Errors
    /// When there is none, or one of its runs has not ended.
    pub async fn delete_session(&self, session: &SessionId) -> Result<(), Error> {
        match self.store().delete_session(session).await.map_err(errors::store)? {
            None => Err(no_session(session)),
            Some(Ok(())) => {
                self.tail().end(session);
                Ok(())
            }
            Some(Err(run_id)) => {
                let owner = self.record(&run_id).await?.session_id;
                let busy = match owner == *session {
                    true => format!("the session {session} is busy with {run_id}"),
                    false => format!("the session {session} is in use by {run_id} of the session {owner}"),
                };
                let message = format!("{busy}; wait for its end, or stop it first");
                Err(Error::new(Code::SessionBusy, message).with(json!({"run_id": run_id})))
            }
        }
    }

    /// Some of a session's journal.
    ///
    /// # Errors
    /// When there is no such session.
    pub async fn events(&self, session: &SessionId, after: i64, limit: usize) -> Result<EventPage, Error> {
        let limit = limit.clamp(1, 1_000);
        let events = self.store().events(session, after, limit).await.map_err(errors::store)?;
        if events.is_empty() {
            self.session(session).await?;
        }
        let next = events.last().filter(|_| events.len() == limit).map(|event| event.seq);
        let events = events.iter().map(views::raw).collect::<Result<_, _>>()?;
        Ok(EventPage { events, next })
    }

    /// What came of the session's latest run.
    ///
    /// # Errors
    /// When there is no such session, or its run has not ended.
    pub async fn result(&self, session: &SessionId) -> Result<ResultView, Error> {
        let finished = self.store().latest_run_details(session).await.map_err(errors::store)?;
        let finished = finished.ok_or_else(|| no_session(session))?;
        let view = views::run(finished)?;
        match view.result {
            Some(result) => {
                Ok(ResultView { run_id: view.run_id, status: view.status, error: view.error, result })
            }
            None => Err(not_finished(&view.run_id, view.status)),
        }
    }
}
