//! Encodes a stream's events, with the faults that concern the events themselves.

use crate::protocol::{Context, Event, Protocol};
use crate::step::{Answer, StreamFaults};

/// Encodes an answer. Each element is one chunk, as the faults count them.
pub(crate) fn encode(
    protocol: Protocol,
    answer: &Answer,
    context: &Context,
    faults: &StreamFaults,
) -> Vec<Vec<u8>> {
    let mut events = protocol.events(answer, context);
    if faults.without_done {
        events.retain(|event| !event.done);
    }
    if let Some((chunks, message)) = &faults.error_after {
        events.truncate(*chunks);
        events.push(protocol.error_event(message));
    }
    let mut blocks: Vec<String> = events.iter().map(|event| block(event, faults)).collect();
    for (after, line) in &faults.malformed {
        blocks.insert((*after).min(blocks.len()), format!("{line}\n\n"));
    }
    blocks.into_iter().map(|block| finish(protocol, &block, faults)).collect()
}

fn block(event: &Event, faults: &StreamFaults) -> String {
    let space = if faults.without_space { "" } else { " " };
    let data = &event.data;
    match event.name {
        Some(name) => format!("event:{space}{name}\ndata:{space}{data}\n\n"),
        None => format!("data:{space}{data}\n\n"),
    }
}

fn finish(protocol: Protocol, block: &str, faults: &StreamFaults) -> Vec<u8> {
    let ping = match protocol {
        _ if !faults.pings => "",
        Protocol::Messages => ": ping\n\nevent: ping\ndata: {\"type\":\"ping\"}\n\n",
        Protocol::ChatCompletions | Protocol::Completions => ": ping\n\n",
    };
    let text = format!("{ping}{block}");
    // JSON escapes line breaks, so every line break here ends a line of the stream.
    if faults.crlf { text.replace('\n', "\r\n").into_bytes() } else { text.into_bytes() }
}
