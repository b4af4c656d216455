//! Sessions: looking, results, journals, stopping, deleting.

use formwork_api::{Code, Error, EventPage, ResultView, RunView, SchemaValidation, SessionPage, SessionView};
use formwork_store::{Finished, Page, RunFilter};
use formwork_types::{Body, Contract, Receipt, RunId, RunStatus, SessionId};
use serde_json::{Value, json};

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
                let owner = self.run(&run_id).await?.session_id;
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
        let finished = self.store().finished(session).await.map_err(errors::store)?;
        let finished = finished.ok_or_else(|| no_session(session))?;
        let run_id = &finished.run.run_id;
        if finished.end.is_none() {
            let status = finished.run.status.name();
            let message = format!("the run {run_id} of the session {session} has not ended: it is {status}");
            return Err(
                Error::new(Code::NotFinished, message).with(json!({"run_id": run_id, "status": status}))
            );
        }
        result_view(finished)
    }
}

fn result_view(finished: Finished) -> Result<ResultView, Error> {
    let Finished { run, start, result, end } = finished;
    let damaged = || Error::new(Code::Internal, format!("the journal of {} cannot be read", run.session_id));
    let read = |text: &str| serde_json::from_str::<Body>(text).map_err(|_| damaged());
    let Body::RunStart { contract, .. } = read(&start.body)? else { return Err(damaged()) };
    let (error, salvage, tried) = match end.as_ref().map(|end| read(&end.body)).transpose()? {
        Some(Body::RunCompleted { error, salvage, receipt, .. }) => (error, salvage, receipt),
        _ => return Err(damaged()),
    };
    let (result_text, result_data, receipt) =
        match result.as_ref().map(|event| read(&event.body)).transpose()? {
            Some(Body::Result { result_text, result_data, receipt }) => {
                (result_text, result_data, Some(receipt))
            }
            _ => (None, None, None),
        };
    let (is_valid, receipt) = (run.status == RunStatus::Completed, receipt.or(tried));
    let validation = contract
        .as_deref()
        .map(|contract| validation(contract, is_valid, run.retry_count, receipt.as_deref()));
    let text = result_text.clone().or_else(|| result_data.as_ref().map(Value::to_string));
    Ok(ResultView {
        run_id: run.run_id,
        status: run.status,
        result: text,
        validated_output: result_data.clone().filter(|_| contract.is_some()),
        schema_validation: validation.or_else(|| (!is_valid).then(without_contract)),
        receipt: receipt.map(|receipt| json!(receipt)),
        error: error.map(|error| json!(views::answering(*error, contract.as_deref().map(|it| &it.schema)))),
        salvage: salvage.map(|salvage| *salvage),
        result_text,
        result_data,
    })
}

fn validation(
    contract: &Contract,
    valid: bool,
    retry_count: i64,
    receipt: Option<&Receipt>,
) -> SchemaValidation {
    let source = serde_json::to_value(contract.source).unwrap_or_default();
    SchemaValidation {
        valid,
        schema_name: contract.schema_name.clone(),
        schema_source: source.as_str().unwrap_or_default().to_owned(),
        retry_count,
        strategy: receipt.and_then(|receipt| json!(receipt)["strategy"].as_str().map(str::to_owned)),
        repairs: receipt
            .into_iter()
            .flat_map(|receipt| &receipt.repairs)
            .map(|repair| json!(repair))
            .collect(),
    }
}

/// A failed run says that nothing is valid, whether or not there was a contract.
fn without_contract() -> SchemaValidation {
    SchemaValidation {
        valid: false,
        schema_name: None,
        schema_source: "none".to_owned(),
        retry_count: 0,
        strategy: None,
        repairs: Vec::new(),
    }
}
