//! Tracing spans of runs, calls and tools, with OpenTelemetry's names. They never contain prompts, replies or
//! arguments.

use slipform_model::Error;
use slipform_types::{BackendInfo, CallErrorKind, EventBody, Outcome, Reply};
use tracing::Span;
use tracing::field::Empty;

use crate::run_context::RunContext;

/// Creates the span of a run, which lasts for one attempt.
pub(crate) fn run(context: &RunContext) -> Span {
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
