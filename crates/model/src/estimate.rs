//! Estimates token counts for backends that do not report usage.

use slipform_types::{Format, Reply, Request, Usage};

/// The average size of a token of English text or JSON in current tokenizers.
const BYTES_PER_TOKEN: u64 = 4;

/// Estimates the tokens of a text.
pub(crate) fn tokens(text: &str) -> u64 {
    (text.len() as u64).div_ceil(BYTES_PER_TOKEN)
}

/// Estimates the input tokens of a request: system prompt, messages, tools and schema.
pub fn input_tokens(request: &Request) -> u64 {
    let system = request.system.as_deref().map_or(0, tokens);
    let messages: u64 = request
        .messages
        .iter()
        .map(|message| {
            let calls = message.tool_calls.iter().map(|call| tokens(&call.name) + tokens(&call.arguments));
            tokens(&message.content) + calls.sum::<u64>()
        })
        .sum();
    let tools: u64 = request
        .tools
        .iter()
        .map(|tool| tokens(&tool.name) + tokens(&tool.description) + tokens(&tool.parameters.to_string()))
        .sum();
    let schema = match &request.format {
        Format::JsonSchema { schema, .. } | Format::JsonObject { schema: Some(schema) } => {
            tokens(&schema.to_string())
        }
        Format::Text | Format::JsonObject { schema: None } => 0,
    };
    system + messages + tools + schema
}

/// Returns the size of a possibly partial reply: text, reasoning and tool calls.
pub(crate) fn written_bytes(reply: &Reply) -> usize {
    let calls = reply.tool_calls.iter().map(|call| call.name.len() + call.arguments.len());
    reply.text.len() + reply.reasoning.len() + calls.sum::<usize>()
}

/// Sets an estimated usage on a reply without usage.
pub(crate) fn fill_usage(reply: &mut Reply, request: &Request) {
    if reply.usage == Usage::default() {
        let output = (written_bytes(reply) as u64).div_ceil(BYTES_PER_TOKEN);
        reply.usage = Usage { input: input_tokens(request), output, estimated: true };
    }
}
