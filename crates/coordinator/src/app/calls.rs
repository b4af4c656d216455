//! Lists the model calls of a run from its journal.

use slipform_api::{CallList, CallOutcome, CallView, Code, Error, ReplySource, ReplyView};
use slipform_extract::{Outcome, extract};
use slipform_schema::Schema;
use slipform_store::StoredEvent;
use slipform_types::{
    Contract, Event, EventBody, EventKind, Reply, RunId, RunStatus, SUBMIT_RESULT, SessionId, TierBackend,
};

use super::{App, errors, extraction, views};

/// Maximum size of a journal whose calls are listed, in bytes.
const JOURNAL_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Maximum size of all requests in a list, in bytes. Later calls have none.
const REQUESTS_BYTES_MAX: usize = 16 * 1024 * 1024;

/// Maximum number of lists that are made at the same time.
pub(super) const LISTS_MAX: usize = 2;

/// Number of events per read.
const PAGE: usize = 50;

impl App {
    /// Returns the model calls of a run.
    ///
    /// # Errors
    /// Returns `RunNotFound` for an unknown id, and `PayloadTooLarge` if the journal is too long.
    pub async fn calls(&self, run: &RunId) -> Result<CallList, Error> {
        let record = self.record(run).await?;
        // A list holds a whole journal and more in memory.
        let _place = self.inner.call_lists.acquire().await;
        let stored = self.journal_of(&record.session_id, run).await?;
        let (app, run) = (self.clone(), run.clone());
        let list = move || {
            let events = stored.iter().map(decode).collect::<Result<Vec<Event>, Error>>()?;
            drop(stored);
            let contract = events.iter().find_map(|event| match &event.body {
                EventBody::RunStart { contract, .. } if event.run_id == run => Some(contract.clone()),
                _ => None,
            });
            let contract = contract.flatten();
            let schema = contract.as_ref().map(|contract| app.inner.schemas.compile(&contract.schema));
            let schema = schema.transpose().map_err(|error| errors::invalid_schema(&error))?;
            let mut list = Calls { contract: contract.as_deref(), schema, ..Calls::default() };
            for event in events.iter().filter(|event| event.run_id == run) {
                list.fold(event);
            }
            let mut calls = list.calls;
            if let Some(derive) = app.options().derive_requests {
                for (seq, request) in derive(&events, &run, REQUESTS_BYTES_MAX) {
                    if let Some(call) = calls.iter_mut().find(|call| call.seq == seq) {
                        call.request = Some(request);
                    }
                }
            }
            Ok::<CallList, Error>(CallList { calls })
        };
        self.inner.check_pool.run(list).await?
    }

    /// Reads the journal of a session up to the end of a run. Earlier runs are part of its conversation.
    async fn journal_of(&self, session: &SessionId, run: &RunId) -> Result<Vec<StoredEvent>, Error> {
        let (mut events, mut after, mut bytes) = (Vec::new(), 0, 0);
        loop {
            let page = self.store().events(session, after, PAGE).await.map_err(errors::store)?;
            for stored in page.events {
                bytes += stored.body.len();
                if bytes > JOURNAL_BYTES_MAX {
                    let message = format!(
                        "the journal of session {session} has more than {} MiB; read it with \
                         GET /sessions/{session}/events",
                        JOURNAL_BYTES_MAX / 1024 / 1024
                    );
                    return Err(Error::new(Code::PayloadTooLarge, message));
                }
                let is_end = stored.run_id == *run && stored.kind == EventKind::RunCompleted;
                after = stored.seq;
                events.push(stored);
                if is_end {
                    return Ok(events);
                }
            }
            if !page.has_more {
                return Ok(events);
            }
        }
    }
}

fn decode(stored: &StoredEvent) -> Result<Event, Error> {
    serde_json::from_str(&views::event(stored)).map_err(|error| {
        let (seq, session) = (stored.seq, &stored.session_id);
        Error::new(Code::Internal, format!("event {seq} of {session} is invalid: {error}"))
    })
}

/// Collects the calls of one run.
#[derive(Default)]
struct Calls<'c> {
    contract: Option<&'c Contract>,
    schema: Option<Schema>,
    ladder: Vec<TierBackend>,
    /// The tier that is asked; `None` for the first.
    tier: Option<String>,
    calls: Vec<CallView>,
}

impl Calls<'_> {
    fn fold(&mut self, event: &Event) {
        match &event.body {
            EventBody::AttemptStarted { ladder, .. } => self.ladder.clone_from(ladder),
            EventBody::Message { content, reply, asked, .. } => {
                let mut call = self.begin(event);
                call.asked.clone_from(asked);
                let reply = Reply { text: content.clone(), ..(**reply).clone() };
                self.read_reply(&mut call, &reply);
                call.reply = Some(reply_view(reply));
                self.calls.push(call);
            }
            EventBody::CallFailed { error } => {
                let mut call = self.begin(event);
                (call.error, call.outcome) = (Some(error.clone()), CallOutcome::Failed);
                self.calls.push(call);
            }
            EventBody::PlanCreated { .. } => {
                // The reply was read as a plan, which has a schema of its own.
                if let Some(call) = self.calls.last_mut() {
                    (call.source, call.source_text, call.extraction) = (None, None, None);
                }
            }
            EventBody::ValidationFailed { errors, consequence, correction, .. } => {
                if let Some(call) = self.calls.last_mut() {
                    call.outcome = CallOutcome::Rejected;
                    call.violations.clone_from(errors);
                    call.consequence = Some(consequence.clone());
                    call.correction.clone_from(correction);
                }
            }
            EventBody::Escalated { to, reason, errors, .. } => {
                self.tier = Some(to.clone());
                if let Some(call) = self.calls.last_mut() {
                    call.consequence.get_or_insert_with(|| format!("escalated to {to}: {reason}"));
                    if call.outcome == CallOutcome::Continued {
                        call.outcome = CallOutcome::Rejected;
                        call.violations.clone_from(errors);
                        if errors.is_empty() {
                            call.violations = reason.lines().map(str::to_owned).collect();
                        }
                    }
                }
            }
            EventBody::RunCompleted { status, .. } => {
                let call = self.calls.last_mut().filter(|call| call.outcome == CallOutcome::Continued);
                if let Some(call) = call {
                    let is_completed = *status == RunStatus::Completed;
                    call.outcome = if is_completed { CallOutcome::Accepted } else { CallOutcome::Rejected };
                }
            }
            _ => {}
        }
    }

    /// Begins a call with what was asked.
    fn begin(&self, event: &Event) -> CallView {
        let is_asked = |tier: &&TierBackend| self.tier.as_ref().is_none_or(|name| tier.tier == *name);
        let tier = self.ladder.iter().find(is_asked);
        CallView {
            seq: event.seq,
            number: u32::try_from(self.calls.len() + 1).unwrap_or(u32::MAX),
            timestamp: event.timestamp.clone(),
            tier: tier.map(|tier| tier.tier.clone()),
            backend: tier.map(|tier| tier.backend.name.clone()),
            model: tier.map(|tier| tier.backend.model.clone()).filter(|model| !model.is_empty()),
            asked: None,
            request: None,
            reply: None,
            error: None,
            source: None,
            source_text: None,
            extraction: None,
            violations: Vec::new(),
            outcome: CallOutcome::Continued,
            consequence: None,
            correction: None,
        }
    }

    /// Looks for the result in a reply, as the run did.
    fn read_reply(&self, call: &mut CallView, reply: &Reply) {
        let Some(contract) = self.contract else { return };
        let submitted = reply.tool_calls.iter().find(|call| call.name == SUBMIT_RESULT);
        let (source, text) = match submitted {
            Some(submitted) => (ReplySource::SubmitResult, &submitted.arguments),
            // Another tool was called instead of an answer.
            None if !reply.tool_calls.is_empty() && reply.text.trim().is_empty() => return,
            None => (ReplySource::Text, &reply.text),
        };
        let options = extraction::options(&contract.options);
        // A patch holds parts of the result, which do not satisfy the whole contract.
        let is_patch = call.asked.as_ref().is_some_and(|asked| asked.contains("patch"));
        let schema = self.schema.as_ref().filter(|_| !is_patch);
        let found = match extract(text, schema, &options) {
            Outcome::Valid(found) => Some(found),
            Outcome::Invalid { candidate, .. } => Some(candidate),
            Outcome::NotFound { .. } | Outcome::TooLong { .. } => None,
        };
        call.extraction = Some(extraction::view(text, found, options.mode));
        (call.source, call.source_text) = (Some(source), Some(text.clone()));
    }
}

fn reply_view(reply: Reply) -> ReplyView {
    let stop = serde_json::to_value(&reply.stop).unwrap_or_default();
    ReplyView {
        text: reply.text,
        reasoning: Some(reply.reasoning).filter(|text| !text.is_empty()),
        tool_calls: reply.tool_calls,
        stop_reason: stop["reason"].as_str().unwrap_or_default().to_owned(),
        usage: reply.usage,
    }
}
