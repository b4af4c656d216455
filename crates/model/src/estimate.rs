//! Tokens by rule of thumb, where a backend does not count them.

use slipform_types::{Format, Reply, Request, Usage};

/// What a token holds in English text and in JSON, on the average of today's tokenizers.
const BYTES_PER_TOKEN: u64 = 4;

/// The tokens of a text.
pub(crate) fn tokens(text: &str) -> u64 {
    (text.len() as u64).div_ceil(BYTES_PER_TOKEN)
}

/// The tokens that a model has to read for a request: prompt, conversation, tools and schema.
fn read(request: &Request) -> u64 {
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

/// The bytes that a model has written so far.
pub(crate) fn written_bytes(reply: &Reply) -> usize {
    let calls = reply.tool_calls.iter().map(|call| call.name.len() + call.arguments.len());
    reply.text.len() + reply.reasoning.len() + calls.sum::<usize>()
}

/// Fills in the usage of a reply that came without.
pub(crate) fn fill(reply: &mut Reply, request: &Request) {
    if reply.usage == Usage::default() {
        let output = (written_bytes(reply) as u64).div_ceil(BYTES_PER_TOKEN);
        reply.usage = Usage { input: read(request), output, estimated: true };
    }
}
