//! Builds responses.

use serde::Serialize;
use slipform_types::{Receipt, Tokens, ToolCall};

/// The answer of one choice.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Answer {
    pub(crate) run_id: String,
    /// The session of an agent's run.
    pub(crate) session_id: Option<String>,
    /// The text: exactly what was validated, if there is a contract.
    pub(crate) content: Option<String>,
    /// Why the model declined.
    pub(crate) refusal: Option<String>,
    pub(crate) tool_calls: Vec<ToolCall>,
    pub(crate) finish_reason: FinishReason,
    pub(crate) receipt: Receipt,
}

/// Why a model stopped, as clients read it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FinishReason {
    Stop,
    Length,
    ToolCalls,
    ContentFilter,
}

impl FinishReason {
    pub(crate) fn name(self) -> &'static str {
        match self {
            FinishReason::Stop => "stop",
            FinishReason::Length => "length",
            FinishReason::ToolCalls => "tool_calls",
            FinishReason::ContentFilter => "content_filter",
        }
    }
}

/// The members that all parts of a response share.
#[derive(Debug, Clone)]
pub(crate) struct Head {
    pub(crate) id: String,
    pub(crate) created: u64,
    pub(crate) model: String,
}

/// The response with all choices.
#[derive(Debug, Serialize)]
pub(crate) struct Completion<'a> {
    id: &'a str,
    object: &'static str,
    created: u64,
    model: &'a str,
    choices: Vec<Choice<'a>>,
    usage: UsageBody,
    slipform: Account<'a>,
}

#[derive(Debug, Serialize)]
struct Choice<'a> {
    index: usize,
    message: MessageBody<'a>,
    logprobs: (),
    finish_reason: &'static str,
}

#[derive(Debug, Serialize)]
struct MessageBody<'a> {
    role: &'static str,
    content: Option<&'a str>,
    refusal: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<CallBody<'a>>,
}

#[derive(Debug, Serialize)]
struct CallBody<'a> {
    id: &'a str,
    #[serde(rename = "type")]
    kind: &'static str,
    function: CalledFunction<'a>,
}

#[derive(Debug, Serialize)]
struct CalledFunction<'a> {
    name: &'a str,
    arguments: &'a str,
}

/// The tokens of all calls of all choices.
#[derive(Debug, Serialize)]
pub(crate) struct UsageBody {
    prompt_tokens: u64,
    completion_tokens: u64,
    total_tokens: u64,
}

/// The member `slipform`: the run and the receipt of a choice, or of each of several.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Account<'a> {
    One(RunAccount<'a>),
    Several { choices: Vec<RunAccount<'a>> },
}

#[derive(Debug, Serialize)]
pub(crate) struct RunAccount<'a> {
    run_id: &'a str,
    receipt: &'a Receipt,
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<&'a str>,
}

impl<'a> Completion<'a> {
    pub(crate) fn new(head: &'a Head, answers: &'a [Answer]) -> Completion<'a> {
        Completion {
            id: &head.id,
            object: "chat.completion",
            created: head.created,
            model: &head.model,
            choices: answers.iter().enumerate().map(|(index, answer)| choice(index, answer)).collect(),
            usage: usage(answers),
            slipform: account(answers),
        }
    }
}

fn choice(index: usize, answer: &Answer) -> Choice<'_> {
    let message = MessageBody {
        role: "assistant",
        content: answer.content.as_deref(),
        refusal: answer.refusal.as_deref(),
        tool_calls: answer.tool_calls.iter().map(tool_call).collect(),
    };
    Choice { index, message, logprobs: (), finish_reason: answer.finish_reason.name() }
}

fn tool_call(call: &ToolCall) -> CallBody<'_> {
    let function = CalledFunction { name: &call.name, arguments: &call.arguments };
    CallBody { id: &call.id, kind: "function", function }
}

/// Returns the tokens of all calls of all choices.
pub(crate) fn usage(answers: &[Answer]) -> UsageBody {
    let sum = |count: fn(&Tokens) -> u64| {
        answers.iter().map(|answer| count(&answer.receipt.tokens)).fold(0, u64::saturating_add)
    };
    let (input, output) = (sum(|tokens| tokens.input), sum(|tokens| tokens.output));
    UsageBody { prompt_tokens: input, completion_tokens: output, total_tokens: input.saturating_add(output) }
}

/// Returns the member `slipform`.
pub(crate) fn account(answers: &[Answer]) -> Account<'_> {
    match answers {
        [answer] => Account::One(run_account(answer)),
        several => Account::Several { choices: several.iter().map(run_account).collect() },
    }
}

fn run_account(answer: &Answer) -> RunAccount<'_> {
    let session_id = answer.session_id.as_deref();
    RunAccount { run_id: &answer.run_id, receipt: &answer.receipt, session_id }
}
