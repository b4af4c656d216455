//! Tracing spans of runs, calls and tools, with OpenTelemetry's names. They never contain prompts, replies or
//! arguments.

use std::sync::OnceLock;

use slipform_model::Error;
use slipform_types::{BackendInfo, CallErrorKind, EventBody, Outcome, Reply, TraceParent};
use tracing::Span;
use tracing::field::Empty;

use crate::run_context::RunContext;

/// Connects the spans of this process with the traces of others. The exporter of the spans implements it.
pub trait TraceLinks: Send + Sync {
    /// Makes a span the child of a span in another process.
    fn set_parent(&self, span: &Span, parent: &TraceParent);
    /// Returns the position of a span in its trace; `None` if the span is not recorded.
    fn position(&self, span: &Span) -> Option<TraceParent>;
}

static LINKS: OnceLock<Box<dyn TraceLinks>> = OnceLock::new();

/// Connects spans with other processes, once per process. Without links, runs pass on the `traceparent` of their caller
/// unchanged.
pub fn set_trace_links(links: Box<dyn TraceLinks>) {
    // Later ones would split the traces of the process.
    let _ = LINKS.set(links);
}

/// Returns the `traceparent` that a request inside a span has.
pub(crate) fn trace_parent(span: &Span, of_caller: Option<&TraceParent>) -> Option<TraceParent> {
    let own = LINKS.get().and_then(|links| links.position(span));
    own.or_else(|| of_caller.cloned())
}

/// Creates the span of a run, which lasts for one attempt.
pub(crate) fn run(context: &RunContext) -> Span {
    let span = new_run(context);
    if let (Some(links), Some(parent)) = (LINKS.get(), &context.start().overrides.trace_parent) {
        links.set_parent(&span, parent);
    }
    span
}

fn new_run(context: &RunContext) -> Span {
    let agent = context.blueprint().name.as_str();
    tracing::info_span!(
        "invoke_agent",
        otel.name = format!("invoke_agent {agent}"),
        gen_ai.operation.name = "invoke_agent",
        gen_ai.agent.name = agent,
        gen_ai.conversation.id = context.session_id().as_str(),
        gen_ai.output.type = if context.start().contract.is_some() { "json" } else { "text" },
        slipform.run_id = context.assignment.run_id.as_str(),
        error.type = Empty,
    )
}

/// Records the run's error type, if it failed.
pub(crate) fn record_outcome(span: &Span, outcome: &Outcome) {
    if let Outcome::Failed(failure) = outcome {
        span.record("error.type", failure.error.kind.name());
    }
}

/// Creates the span of a model call.
pub(crate) fn chat(backend: &BackendInfo) -> Span {
    let model = backend.model.as_str();
    tracing::info_span!(
        "chat",
        otel.name = format!("chat {model}"),
        otel.kind = "client",
        gen_ai.operation.name = "chat",
        gen_ai.provider.name = backend.kind.name(),
        gen_ai.request.model = model,
        gen_ai.usage.input_tokens = Empty,
        gen_ai.usage.output_tokens = Empty,
        error.type = Empty,
    )
}

/// Records the token usage of a reply.
pub(crate) fn record_usage(span: &Span, reply: &Reply) {
    span.record("gen_ai.usage.input_tokens", reply.usage.input);
    span.record("gen_ai.usage.output_tokens", reply.usage.output);
}

/// Records the error of a call: the HTTP status if the server sent one, else the kind of failure.
pub(crate) fn record_call_error(span: &Span, error: &Error) {
    let error = error.to_call_error();
    match (error.status, error.kind) {
        (Some(status), _) => span.record("error.type", status.to_string()),
        (None, CallErrorKind::Unavailable) => span.record("error.type", "unavailable"),
        (None, CallErrorKind::Rejected) => span.record("error.type", "rejected"),
    };
}

/// Records that a stop or a deadline interrupted the call.
pub(crate) fn record_interruption(span: &Span, body: &EventBody) {
    match body {
        EventBody::StopRequested { .. } => span.record("error.type", "stopped"),
        _ => span.record("error.type", "timeout"),
    };
}

/// Creates the span of a tool call or a program.
pub(crate) fn tool(name: &str, call_id: &str) -> Span {
    tracing::info_span!(
        "execute_tool",
        otel.name = format!("execute_tool {name}"),
        gen_ai.operation.name = "execute_tool",
        gen_ai.tool.name = name,
        gen_ai.tool.call.id = call_id,
        error.type = Empty,
    )
}

/// Records that a tool failed.
pub(crate) fn record_tool_failure(span: &Span) {
    span.record("error.type", "tool_failed");
}
