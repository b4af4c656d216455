//! Parses chat completions responses, streamed or complete, and tolerates common deviations of servers.

use std::borrow::Cow;
use std::collections::HashMap;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Value, json};
use slipform_types::{Reply, StopReason, ToolCall, Usage};

use super::TOOL_CALLS_MAX;
use crate::error::Error;
use crate::error_text::{blames_request, server_message};
use crate::http::Assemble;
use crate::sse::Event;

/// Assembles a [`Reply`] from stream events or a complete body.
#[derive(Debug, Default)]
pub(crate) struct Chat {
    reply: Reply,
    refusal: String,
    finish_reason: Option<String>,
    /// Set by `[DONE]`, or by a complete body.
    is_done: bool,
    choices: u64,
    /// Maps the `index` in the stream to the position of its latest call in `reply`.
    call_positions: HashMap<usize, usize>,
}

/// A complete response, or one event of a stream.
#[derive(Deserialize)]
struct ResponseBody<'a> {
    #[serde(borrow, default)]
    model: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    choices: Option<Vec<Choice<'a>>>,
    #[serde(default)]
    usage: Option<Counts>,
    #[serde(default)]
    error: Option<Value>,
}

#[derive(Deserialize)]
struct Choice<'a> {
    #[serde(default)]
    index: Option<u64>,
    /// Present in a complete response.
    #[serde(borrow, default)]
    message: Option<Message<'a>>,
    /// Present in a stream.
    #[serde(borrow, default)]
    delta: Option<Message<'a>>,
    /// The text in the legacy completions API.
    #[serde(borrow, default)]
    text: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    finish_reason: Option<Cow<'a, str>>,
}

/// A message, or the part of one that an event adds.
#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow, default, deserialize_with = "text")]
    content: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "text")]
    reasoning_content: Option<Cow<'a, str>>,
    /// An alternative name of `reasoning_content`. Some servers send both.
    #[serde(borrow, default, deserialize_with = "text")]
    reasoning: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "text")]
    refusal: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    tool_calls: Option<Vec<CallDelta<'a>>>,
    /// The call of servers that know no `tool_calls`.
    #[serde(borrow, default)]
    function_call: Option<FunctionDelta<'a>>,
}

#[derive(Deserialize)]
struct CallDelta<'a> {
    #[serde(default)]
    index: Option<usize>,
    #[serde(borrow, default)]
    id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    function: Option<FunctionDelta<'a>>,
}

#[derive(Deserialize)]
struct FunctionDelta<'a> {
    #[serde(borrow, default)]
    name: Option<Cow<'a, str>>,
    #[serde(default)]
    arguments: Option<Value>,
}

#[derive(Deserialize)]
struct Counts {
    #[serde(default, deserialize_with = "count")]
    prompt_tokens: Option<u64>,
    #[serde(default, deserialize_with = "count")]
    completion_tokens: Option<u64>,
}

/// Deserializes a number of tokens. One that makes no sense counts as missing, because the answer is worth more.
fn count<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    Value::deserialize(deserializer).map(|value| value.as_u64())
}

/// Deserializes a text: a string, null, or a list of parts, of which those with a `text` are joined.
fn text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Cow<'de, str>>, D::Error> {
    struct Text;

    impl<'de> Visitor<'de> for Text {
        type Value = Option<Cow<'de, str>>;

        fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            formatter.write_str("a text, null or a list of parts")
        }

        fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
            Ok(Some(Cow::Borrowed(text)))
        }

        fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
            Ok(Some(Cow::Owned(text.to_owned())))
        }

        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(None)
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Self::Value, A::Error> {
            let mut all = String::new();
            while let Some(part) = parts.next_element::<Value>()? {
                all.push_str(part["text"].as_str().or_else(|| part.as_str()).unwrap_or_default());
            }
            Ok(Some(Cow::Owned(all)))
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
            Ok(None)
        }
    }

    deserializer.deserialize_any(Text)
}

impl Chat {
    fn apply(&mut self, data: &[u8]) -> Result<(), Error> {
        let body: ResponseBody<'_> = serde_json::from_slice(data).map_err(|error| Error::Incomplete {
            reason: format!("a part of the reply is not the expected JSON ({error})"),
        })?;
        if let Some(error) = body.error.filter(|error| !error.is_null()) {
            return Err(embedded_error(&error));
        }
        if let Some(model) = body.model
            && self.reply.model.is_empty()
        {
            self.reply.model = model.into_owned();
        }
        if let Some(Counts { prompt_tokens, completion_tokens }) = body.usage {
            let (input, output) = (prompt_tokens.unwrap_or_default(), completion_tokens.unwrap_or_default());
            self.reply.usage = Usage { input, output, estimated: false };
        }
        // Requests ask for one choice only.
        let mut choices = body.choices.into_iter().flatten();
        if let Some(choice) = choices.find(|choice| choice.index.is_none_or(|index| index == 0)) {
            self.add_choice(choice)?;
        }
        Ok(())
    }

    fn add_choice(&mut self, choice: Choice<'_>) -> Result<(), Error> {
        self.choices += 1;
        if let Some(text) = choice.text {
            self.reply.text.push_str(&text);
        }
        if let Some(message) = choice.message {
            self.add_message(message, true)?;
        }
        if let Some(message) = choice.delta {
            self.add_message(message, false)?;
        }
        // Some servers send an empty reason in every event before the last.
        if let Some(reason) = choice.finish_reason.filter(|reason| !reason.is_empty()) {
            // A reason that reports a failure is not replaced by a later one.
            if self.finish_reason.as_deref().is_none_or(|known| classify(known) == Finish::Normal) {
                self.finish_reason = Some(reason.into_owned());
            }
        }
        Ok(())
    }

    fn add_message(&mut self, message: Message<'_>, is_complete: bool) -> Result<(), Error> {
        if let Some(content) = message.content {
            self.reply.text.push_str(&content);
        }
        if let Some(reasoning) = message.reasoning_content.or(message.reasoning) {
            self.reply.reasoning.push_str(&reasoning);
        }
        if let Some(refusal) = message.refusal {
            self.refusal.push_str(&refusal);
        }
        let calls = message.tool_calls.unwrap_or_default();
        let single = message.function_call.filter(|_| calls.is_empty()).map(|function| CallDelta {
            index: Some(0),
            id: None,
            function: Some(function),
        });
        for call in calls.into_iter().chain(single) {
            self.add_call(call, is_complete)?;
        }
        Ok(())
    }

    fn add_call(&mut self, delta: CallDelta<'_>, is_complete: bool) -> Result<(), Error> {
        let index = self.call_position(&delta, is_complete);
        if index >= TOOL_CALLS_MAX {
            return Err(Error::Incomplete { reason: format!("more than {TOOL_CALLS_MAX} tool calls") });
        }
        let calls = &mut self.reply.tool_calls;
        while calls.len() <= index {
            let id = format!("call_{}", calls.len());
            calls.push(ToolCall { id, name: String::new(), arguments: String::new() });
        }
        let call = &mut calls[index];
        if let Some(id) = delta.id.filter(|id| !id.is_empty()) {
            call.id = id.into_owned();
        }
        let Some(function) = delta.function else { return Ok(()) };
        // Most servers send the name once, some in every delta, some split over several deltas.
        if let Some(name) = function.name
            && call.arguments.is_empty()
            && call.name != name
        {
            call.name.push_str(&name);
        }
        match function.arguments {
            Some(Value::String(arguments)) => call.arguments.push_str(&arguments),
            Some(Value::Null) | None => {}
            // Some servers send the arguments as an object.
            Some(arguments) => call.arguments.push_str(&arguments.to_string()),
        }
        Ok(())
    }

    /// Returns the position of the call that a delta belongs to, which the `index` determines.
    ///
    /// Some servers omit the index. A delta then starts a new call if its id is new or, without ids, if it has
    /// a name and the arguments of the previous call are complete.
    fn call_position(&mut self, delta: &CallDelta<'_>, is_complete: bool) -> usize {
        let calls = &self.reply.tool_calls;
        if is_complete {
            return calls.len();
        }
        if let Some(index) = delta.index {
            // Some servers use one index for all parallel calls. A different id then starts a new call.
            let id = delta.id.as_deref().filter(|id| !id.is_empty());
            let position = match self.call_positions.get(&index).copied() {
                Some(known) if id.is_none_or(|id| !is_another(&calls[known], known, id)) => known,
                Some(_) => calls.len(),
                None => index.max(calls.len()),
            };
            self.call_positions.insert(index, position);
            return position;
        }
        let Some(last) = calls.last() else { return 0 };
        let has_name = delta
            .function
            .as_ref()
            .is_some_and(|function| function.name.as_ref().is_some_and(|name| !name.is_empty()));
        let is_new = match delta.id.as_deref().filter(|id| !id.is_empty()) {
            Some(id) => id != last.id,
            None => has_name && serde_json::from_str::<IgnoredAny>(&last.arguments).is_ok(),
        };
        if is_new { calls.len() } else { calls.len() - 1 }
    }
}

/// Returns whether `id` belongs to a different call than `call`, whose own id may not have arrived yet.
fn is_another(call: &ToolCall, position: usize, id: &str) -> bool {
    let has_generated_id = call.id == format!("call_{position}");
    let has_full_arguments = serde_json::from_str::<IgnoredAny>(&call.arguments).is_ok();
    call.id != id && (!has_generated_id || has_full_arguments)
}

/// Converts an `error` object that a server sends inside a response with status 200.
fn embedded_error(error: &Value) -> Error {
    let message = server_message(json!({"error": error}).to_string().as_bytes());
    let code = error.get("code").or_else(|| error.get("status")).and_then(Value::as_u64);
    let status = code.and_then(|code| u16::try_from(code).ok());
    if blames_request(error) {
        Error::Rejected { status: status.unwrap_or(400), message }
    } else {
        Error::Busy { status: status.unwrap_or(500), message, retry_after: None }
    }
}

impl Assemble for Chat {
    fn event(&mut self, event: &Event<'_>) -> Result<(), Error> {
        match event.data.trim_ascii() {
            // Some servers send empty events as keep-alives.
            b"" => Ok(()),
            b"[DONE]" => {
                self.is_done = true;
                Ok(())
            }
            data => self.apply(data),
        }
    }

    fn full_body(&mut self, body: &[u8]) -> Result<(), Error> {
        self.apply(body)?;
        self.is_done = true;
        Ok(())
    }

    fn tokens(&self) -> u64 {
        self.choices
    }

    fn reply(&self) -> &Reply {
        &self.reply
    }

    fn is_complete(&self) -> bool {
        self.finish_reason.is_some()
    }

    fn is_done(&self) -> bool {
        self.is_done
    }

    fn finish(mut self) -> Result<Reply, Error> {
        if self.finish_reason.is_none() && !self.is_done {
            return Err(Error::Incomplete {
                reason: "the stream ended without a finish_reason and without [DONE]".to_owned(),
            });
        }
        if self.choices == 0 {
            return Err(Error::Incomplete { reason: "it has no `choices`".to_owned() });
        }
        // Some servers number calls from 1, which leaves an empty call at position 0.
        self.reply.tool_calls.retain(|call| !call.name.is_empty() || !call.arguments.is_empty());
        let reason = self.finish_reason.unwrap_or_default();
        self.reply.stop = match classify(&reason) {
            _ if !self.refusal.is_empty() => StopReason::Refused { message: self.refusal },
            Finish::Truncated => StopReason::Length,
            Finish::Filtered => StopReason::Filtered,
            Finish::Failed => {
                return Err(Error::Incomplete { reason: format!("its finish_reason is '{reason}'") });
            }
            Finish::Normal if !self.reply.tool_calls.is_empty() => StopReason::ToolCalls,
            Finish::Normal => StopReason::Finished,
        };
        Ok(self.reply)
    }
}

/// The class of a `finish_reason`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Finish {
    Normal,
    Truncated,
    Filtered,
    Failed,
}

/// Classifies a `finish_reason`. Servers use different names; an unknown one counts as normal.
fn classify(reason: &str) -> Finish {
    let reason = reason.to_ascii_lowercase();
    let contains_any = |words: &[&str]| words.iter().any(|word| reason.contains(word));
    if contains_any(&["length", "max_token", "token_limit", "incomplete"]) {
        Finish::Truncated
    } else if contains_any(&["filter", "safety", "recitation", "prohibited", "blocklist", "spii"]) {
        Finish::Filtered
    } else if contains_any(&["abort", "error", "cancel", "timeout"]) {
        Finish::Failed
    } else {
        Finish::Normal
    }
}

#[cfg(test)]
mod tests {
    use super::{Finish, classify};

    #[test]
    fn classify_knows_the_finish_reasons_of_common_servers() {
        for (reason, expected) in [
            ("stop", Finish::Normal),
            ("tool_calls", Finish::Normal),
            ("eos", Finish::Normal),
            ("", Finish::Normal),
            ("length", Finish::Truncated),
            ("model_length", Finish::Truncated),
            ("MAX_TOKENS", Finish::Truncated),
            ("incomplete", Finish::Truncated),
            ("content_filter", Finish::Filtered),
            ("SAFETY", Finish::Filtered),
            ("abort", Finish::Failed),
            ("error", Finish::Failed),
        ] {
            assert_eq!(classify(reason), expected, "{reason}");
        }
    }
}
