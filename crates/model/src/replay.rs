//! Recorded replies as a backend: a file of JSON lines, answered in order.
//!
//! Tests and the examples in the documentation use it to run without a model.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::Deserialize;
use serde_json::Value;
use slipform_types::{Reply, StopReason, ToolCall, Usage};

use crate::config::BackendConfig;
use crate::error::Error;
use crate::{Backend, Call, CallFuture, estimate};

/// The largest file of replies, in bytes. Replies stay in memory; a larger file is refused.
const FILE_BYTES_MAX: u64 = 16 * 1024 * 1024;

/// Answers calls with the lines of a file.
#[derive(Debug)]
pub(crate) struct Replay {
    path: String,
    model: String,
    replies: Vec<Reply>,
    /// Number of calls so far.
    calls: AtomicUsize,
}

/// One line of the file.
#[derive(Deserialize)]
#[serde(untagged)]
enum Line {
    Text(String),
    Reply(RecordedReply),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RecordedReply {
    #[serde(default)]
    text: String,
    #[serde(default)]
    tool_calls: Vec<RecordedCall>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RecordedCall {
    name: String,
    #[serde(default)]
    arguments: Value,
}

impl Replay {
    /// Reads and checks the whole file.
    pub(crate) fn new(config: &BackendConfig) -> Result<Replay, Error> {
        let path = config.replies.clone().unwrap_or_default();
        let refused =
            |reason: String| Error::Settings(format!("backends.{}.replies: {path}: {reason}", config.name));
        let mut text = String::new();
        File::open(Path::new(&path))
            .and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text))
            .map_err(|error| refused(format!("cannot be read: {error}")))?;
        if text.len() as u64 > FILE_BYTES_MAX {
            return Err(refused(format!("has more than {FILE_BYTES_MAX} bytes; split it")));
        }
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let replies = lines
            .map(|(index, line)| {
                let expected = "write a JSON string, or an object with `text`, `tool_calls` or both";
                let value: Value = serde_json::from_str(line)
                    .map_err(|_| refused(format!("line {} is not JSON; {expected}", index + 1)))?;
                let read: Line = serde_json::from_value(value)
                    .map_err(|_| refused(format!("line {} is not a reply; {expected}", index + 1)))?;
                Ok(reply(read, index))
            })
            .collect::<Result<Vec<Reply>, Error>>()?;
        if replies.is_empty() {
            return Err(refused("holds no replies; write one JSON value per line".to_owned()));
        }
        let model = config.model.clone().unwrap_or_else(|| "replay".to_owned());
        Ok(Replay { path, model, replies, calls: AtomicUsize::new(0) })
    }

    fn next(&self, request: &str) -> Result<Reply, Error> {
        let index = self.calls.fetch_add(1, Ordering::SeqCst);
        let Some(recorded) = self.replies.get(index) else {
            let reason = format!("{} has no line for call {}; add a reply to it", self.path, index + 1);
            return Err(Error::Settings(reason));
        };
        let usage = Usage { input: estimate::tokens(request), ..recorded.usage };
        Ok(Reply { usage, model: self.model.clone(), ..recorded.clone() })
    }
}

fn reply(line: Line, index: usize) -> Reply {
    let recorded = match line {
        Line::Text(text) => RecordedReply { text, tool_calls: Vec::new() },
        Line::Reply(recorded) => recorded,
    };
    let tool_calls: Vec<ToolCall> = recorded
        .tool_calls
        .into_iter()
        .enumerate()
        .map(|(number, call)| ToolCall {
            id: format!("call_{}_{}", index + 1, number + 1),
            name: call.name,
            arguments: if call.arguments.is_null() { "{}".to_owned() } else { call.arguments.to_string() },
        })
        .collect();
    let stop = if tool_calls.is_empty() { StopReason::Finished } else { StopReason::ToolCalls };
    let output = estimate::tokens(&recorded.text)
        + tool_calls.iter().map(|call| estimate::tokens(&call.arguments)).sum::<u64>();
    let usage = Usage { input: 0, output, estimated: true };
    Reply { text: recorded.text, tool_calls, stop, usage, ..Reply::default() }
}

impl Backend for Replay {
    fn call<'a>(&'a self, call: Call<'a>) -> CallFuture<'a> {
        let request =
            call.request.messages.iter().map(|message| message.content.as_str()).collect::<String>();
        let reply = self.next(&request);
        if let Ok(reply) = &reply {
            call.watch.text(&reply.text);
        }
        Box::pin(std::future::ready(reply))
    }

    fn features(&self) -> &'static [&'static str] {
        &[]
    }
}
