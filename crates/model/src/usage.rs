//! Tokens by rule of thumb, where a backend does not count.

use formwork_types::{Message, Reply, Request, Usage};

/// How many bytes of text make a token, roughly, in the languages and tokenizers in use.
const BYTES_PER_TOKEN: u64 = 4;

/// The tokens of a text.
pub(crate) fn estimated(text: &str) -> u64 {
    (text.len() as u64).div_ceil(BYTES_PER_TOKEN)
}

/// What a model wrote, where nobody counted it.
pub(crate) fn written(reply: &Reply) -> Usage {
    let calls = reply.tool_calls.iter().map(|call| estimated(&call.arguments)).sum::<u64>();
    let output = estimated(&reply.text) + estimated(&reply.reasoning) + calls;
    Usage { input: 0, output, estimated: true }
}

/// The reply with an estimate of what the model read, where the rest is an estimate too.
pub(crate) fn prompted(mut reply: Reply, request: &Request) -> Reply {
    if reply.usage.estimated {
        reply.usage.input = (prompt_bytes(request) as u64).div_ceil(BYTES_PER_TOKEN);
    }
    reply
}

/// The bytes of everything that a model is given to read.
fn prompt_bytes(request: &Request) -> usize {
    let said = |message: &Message| {
        let calls = message.tool_calls.iter().map(|call| call.name.len() + call.arguments.len());
        message.content.len() + calls.sum::<usize>()
    };
    let tools = request
        .tools
        .iter()
        .map(|tool| tool.name.len() + tool.description.len() + tool.parameters.to_string().len());
    request.system.as_ref().map_or(0, String::len)
        + request.messages.iter().map(said).sum::<usize>()
        + tools.sum::<usize>()
}
