//! Spans of runs, calls and tools, under OpenTelemetry's names for generative AI. What is said in them is never recorded.

use slipform_model::Error;
use slipform_types::{BackendInfo, CallErrorKind, EventBody, Outcome, Reply};
use tracing::Span;
use tracing::field::Empty;

use crate::run_context::RunContext;

/// A run, for as long as this runner has it.
pub(crate) fn run(context: &RunContext) -> Span {
    let agent = context.blueprint.name.as_str();
    tracing::info_span!(
        "invoke_agent",
        otel.name = format!("invoke_agent {agent}"),
        gen_ai.operation.name = "invoke_agent",
        gen_ai.agent.name = agent,
        gen_ai.conversation.id = context.session_id.as_str(),
        gen_ai.output.type = if context.contract.is_some() { "json" } else { "text" },
        slipform.run_id = context.run_id.as_str(),
        error.type = Empty,
    )
}

/// How the run ended.
pub(crate) fn ended(span: &Span, outcome: &Outcome) {
    if let Outcome::Failed(failure) = outcome {
        span.record("error.type", failure.error.kind.name());
    }
}

/// A request to a model.
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

/// A model's answer.
pub(crate) fn replied(span: &Span, reply: &Reply) {
    span.record("gen_ai.usage.input_tokens", reply.usage.input);
    span.record("gen_ai.usage.output_tokens", reply.usage.output);
}

/// A call without an answer: the server's status code where there is one, else the kind of failure.
pub(crate) fn call_failed(span: &Span, error: &Error) {
    let error = error.to_call_error();
    match (error.status, error.kind) {
        (Some(status), _) => span.record("error.type", status.to_string()),
        (None, CallErrorKind::Unavailable) => span.record("error.type", "unavailable"),
        (None, CallErrorKind::Rejected) => span.record("error.type", "rejected"),
    };
}

/// Something that was not waited for.
pub(crate) fn cut(span: &Span, body: &EventBody) {
    match body {
        EventBody::StopRequested { .. } => span.record("error.type", "stopped"),
        _ => span.record("error.type", "timeout"),
    };
}

/// A tool that is called, or a program that is run.
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

/// A tool that gave no result.
pub(crate) fn tool_failed(span: &Span) {
    span.record("error.type", "tool_failed");
}
