//! Observes a run: keeps what the response needs, and passes text on as it is written.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use slipform_runner::{
    Deadline, LadderRung, ModelCall, ModelError, Progress, RunContext, StopSignal, Watch,
    estimated_input_tokens,
};
use slipform_schema::universal::is_universal_source;
use slipform_types::{BackendKind, CallError, EventBody, Format, Request, StopReason, StructuredOutput};

use tokio::time::Instant;

use crate::direct::Deltas;
use crate::usage::UsageMeter;

/// Why an answer would have begun again after a part of it was passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Restart {
    /// The connection to the backend was lost.
    AfterOutage,
    /// The reply was rejected.
    AfterRejection,
}

/// The facts of a run that its response needs.
#[derive(Debug, Default)]
pub(crate) struct Observed {
    /// The text of the last reply, as the model wrote it: its content, or the arguments of its only call.
    pub(crate) reply: Option<String>,
    /// Why the last reply ended.
    pub(crate) stop: Option<StopReason>,
    /// Whether the last reply made calls.
    pub(crate) has_calls: bool,
    /// The failure of the last call.
    pub(crate) call_error: Option<CallError>,
    /// The text that stays in the answer although a later reply completes it: what was passed on, or the text beside calls
    /// that have to be corrected. `None` otherwise.
    pub(crate) sent: Option<String>,
    /// Whether a part of the reply was passed on that is being written or was cut off.
    is_reply_open: bool,
    /// Whether the last reply is text as the model means it, without the form of an envelope.
    pub(crate) is_plain: bool,
    /// Why the run was stopped.
    pub(crate) restart: Option<Restart>,
}

/// The time that a client waits for the next piece of an answer.
pub(crate) struct ReadTime {
    /// The end of the run's time.
    pub(crate) deadline: Deadline,
    /// The time from one piece to the next.
    pub(crate) limit: Duration,
}

/// Observes a run.
pub(crate) struct Observer {
    deltas: Option<Deltas>,
    /// Whether the text of the current call is a part of the answer as soon as it is written.
    is_live: AtomicBool,
    stop: StopSignal,
    usage: Arc<UsageMeter>,
    /// Whether the text of the first reply stays although its calls have to be corrected. A client that reads the answer as it
    /// is written has read it, and any other gets the same answer.
    keeps_text: bool,
    /// Moves the end of the run with each piece that is passed on; `None` if the client limits the whole answer.
    time: Option<ReadTime>,
    /// Whether the text of the current call is a part of the answer.
    is_part: AtomicBool,
    /// The tokens of the current reply so far.
    writing: AtomicU64,
    /// The request that is being answered.
    asked: Mutex<Option<Arc<Request>>>,
    observed: Mutex<Observed>,
}

impl Observer {
    pub(crate) fn new(
        deltas: Option<Deltas>,
        stop: StopSignal,
        usage: Arc<UsageMeter>,
        keeps_text: bool,
        time: Option<ReadTime>,
    ) -> Observer {
        Observer {
            deltas,
            is_live: AtomicBool::new(false),
            stop,
            usage,
            keeps_text,
            time,
            is_part: AtomicBool::new(false),
            writing: AtomicU64::new(0),
            asked: Mutex::default(),
            observed: Mutex::default(),
        }
    }

    pub(crate) fn observed(&self) -> Observed {
        std::mem::take(&mut self.observed.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn change<T>(&self, change: impl FnOnce(&mut Observed) -> T) -> T {
        change(&mut self.observed.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn set_asked(&self, request: Option<Arc<Request>>) {
        *self.asked.lock().unwrap_or_else(PoisonError::into_inner) = request;
    }

    /// Stops a run whose answer would begin again after a part of it was passed on.
    fn refuse_restart(&self, restart: Restart, error: Option<CallError>) {
        self.change(|observed| {
            observed.restart.get_or_insert(restart);
            observed.call_error = error.or(observed.call_error.take());
            self.stop.request();
        });
    }
}

impl Drop for Observer {
    fn drop(&mut self) {
        // A cancelled call has used these.
        self.usage.add_output(self.writing.load(Ordering::Relaxed));
        let asked = self.asked.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        self.usage.add_input(asked.map_or(0, |request| estimated_input_tokens(&request)));
    }
}

impl Watch for Observer {
    fn tokens(&self, total: u64) {
        self.writing.store(total, Ordering::Relaxed);
    }

    fn text(&self, piece: &str) {
        if let Some(deltas) = self.deltas.as_ref().filter(|_| self.is_live.load(Ordering::Relaxed)) {
            self.change(|observed| {
                observed.is_reply_open = true;
                observed.sent.get_or_insert_default().push_str(piece);
            });
            if let Some(ReadTime { deadline, limit }) = &self.time {
                deadline.extend(Instant::now() + *limit);
            }
            // The client may be gone; then the run is cancelled.
            let _ = deltas.send(piece.to_owned());
        }
    }

    fn waiting(&self, _: Duration, error: &ModelError) {
        self.writing.store(0, Ordering::Relaxed);
        if self.change(|observed| observed.is_reply_open) {
            self.refuse_restart(Restart::AfterOutage, Some(error.to_call_error()));
        }
    }
}

impl Progress for Observer {
    fn calling(&self, context: &RunContext, call: &ModelCall) {
        self.usage.add_call();
        self.set_asked(Some(call.request.clone()));
        let has_contract = context.start().contract.is_some();
        let is_part = (self.deltas.is_some() || !has_contract)
            && context.rung(&call.backend).is_some_and(|rung| is_live_call(context, rung, &call.request));
        let (has_sent, is_reply_open) = self.change(|observed| {
            observed.is_plain = is_part && !has_contract;
            (observed.sent.is_some(), observed.is_reply_open)
        });
        if is_reply_open {
            self.refuse_restart(Restart::AfterOutage, None);
        } else if has_sent && has_contract {
            self.refuse_restart(Restart::AfterRejection, None);
        }
        // A text that was sent stays, and the model corrects its calls.
        let is_part = is_part && !has_sent;
        self.is_part.store(is_part, Ordering::Relaxed);
        self.is_live.store(is_part && self.deltas.is_some(), Ordering::Relaxed);
    }

    fn happened(&self, _: &RunContext, body: &EventBody) {
        match body {
            EventBody::Message { content, reply, .. } => {
                self.writing.store(0, Ordering::Relaxed);
                self.set_asked(None);
                self.usage.add_reply(&reply.usage);
                let is_kept = self.keeps_text && self.is_part.load(Ordering::Relaxed);
                self.change(|observed| {
                    observed.is_reply_open = false;
                    if is_kept
                        && observed.sent.is_none()
                        && !reply.tool_calls.is_empty()
                        && !content.is_empty()
                    {
                        observed.sent = Some(content.clone());
                    }
                    // A result that was submitted by a call keeps its text too.
                    observed.reply = Some(match reply.tool_calls.as_slice() {
                        [call] if content.is_empty() => call.arguments.clone(),
                        _ => content.clone(),
                    });
                    observed.call_error = None;
                    observed.stop = Some(reply.stop.clone());
                    observed.has_calls = !reply.tool_calls.is_empty();
                });
            }
            EventBody::CallFailed { error } => {
                self.set_asked(None);
                self.change(|observed| observed.call_error = Some(error.clone()));
            }
            _ => {}
        }
    }
}

/// Returns whether the text of a call is a part of the answer as soon as it is written. A free text is, unless the server
/// forces a form on it, or calls are written as text too. JSON is, if the embedded model writes it under the grammar of its
/// schema.
fn is_live_call(context: &RunContext, rung: &LadderRung, request: &Request) -> bool {
    let backend = &rung.tier.backend;
    let Some(contract) = &context.start().contract else {
        let offers_tools =
            context.start().conversation.as_ref().is_some_and(|kept| !kept.offered_tools().is_empty());
        let writes_calls_as_text =
            offers_tools && (request.tools.is_empty() || backend.kind == BackendKind::Embedded);
        return backend.structured_output != StructuredOutput::Universal && !writes_calls_as_text;
    };
    let has_grammar =
        || matches!(&request.format, Format::JsonSchema { schema, .. } if *schema == contract.schema);
    backend.kind == BackendKind::Embedded
        && request.tools.is_empty()
        && has_grammar()
        // Universal responses have rules beyond their schema.
        && !is_universal_source(&contract.schema)
}
