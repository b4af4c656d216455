//! What a chat completions server answers, whole or in pieces, and put together in spite of its habits.

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

/// A reply being put together.
#[derive(Debug, Default)]
pub(crate) struct Chat {
    reply: Reply,
    refusal: String,
    finish: Option<String>,
    done: bool,
    pieces: u64,
    /// Where the latest call of each index stands.
    places: HashMap<usize, usize>,
}

#[derive(Deserialize)]
struct EventBody<'a> {
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
    /// In a reply that comes whole.
    #[serde(borrow, default)]
    message: Option<Piece<'a>>,
    /// In a stream.
    #[serde(borrow, default)]
    delta: Option<Piece<'a>>,
    /// The older completions protocol has its text here.
    #[serde(borrow, default)]
    text: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    finish_reason: Option<Cow<'a, str>>,
}

#[derive(Deserialize)]
struct Piece<'a> {
    #[serde(borrow, default, deserialize_with = "text")]
    content: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "text")]
    reasoning_content: Option<Cow<'a, str>>,
    /// The other name for it; some servers send both.
    #[serde(borrow, default, deserialize_with = "text")]
    reasoning: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "text")]
    refusal: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    tool_calls: Option<Vec<CallPiece<'a>>>,
}

#[derive(Deserialize)]
struct CallPiece<'a> {
    #[serde(default)]
    index: Option<usize>,
    #[serde(borrow, default)]
    id: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    function: Option<FunctionPiece<'a>>,
}

#[derive(Deserialize)]
struct FunctionPiece<'a> {
    #[serde(borrow, default)]
    name: Option<Cow<'a, str>>,
    #[serde(default)]
    arguments: Option<Value>,
}

#[derive(Deserialize)]
struct Counts {
    #[serde(default)]
    prompt_tokens: Option<u64>,
    #[serde(default)]
    completion_tokens: Option<u64>,
}

/// A text: a string, null, or a list of parts of which those of type `text` count.
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
    fn take(&mut self, data: &[u8]) -> Result<(), Error> {
        let body: EventBody<'_> = serde_json::from_slice(data).map_err(|error| Error::Incomplete {
            reason: format!("a part of the reply is not the JSON the protocol wants ({error})"),
        })?;
        if let Some(error) = body.error.filter(|error| !error.is_null()) {
            return Err(error_inside(&error));
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
        // Only the first choice is asked for.
        let mut choices = body.choices.into_iter().flatten();
        if let Some(choice) = choices.find(|choice| choice.index.is_none_or(|index| index == 0)) {
            self.choice(choice)?;
        }
        Ok(())
    }

    fn choice(&mut self, choice: Choice<'_>) -> Result<(), Error> {
        self.pieces += 1;
        if let Some(text) = choice.text {
            self.reply.text.push_str(&text);
        }
        if let Some(piece) = choice.message {
            self.piece(piece, true)?;
        }
        if let Some(piece) = choice.delta {
            self.piece(piece, false)?;
        }
        // A few servers send an empty reason while there is none.
        if let Some(reason) = choice.finish_reason.filter(|reason| !reason.is_empty()) {
            // What went wrong once stays wrong, whatever the server says after it.
            if self.finish.as_deref().is_none_or(|known| ending(known) == Ending::Well) {
                self.finish = Some(reason.into_owned());
            }
        }
        Ok(())
    }

    fn piece(&mut self, piece: Piece<'_>, whole: bool) -> Result<(), Error> {
        if let Some(content) = piece.content {
            self.reply.text.push_str(&content);
        }
        if let Some(reasoning) = piece.reasoning_content.or(piece.reasoning) {
            self.reply.reasoning.push_str(&reasoning);
        }
        if let Some(refusal) = piece.refusal {
            self.refusal.push_str(&refusal);
        }
        for call in piece.tool_calls.unwrap_or_default() {
            self.call(call, whole)?;
        }
        Ok(())
    }

    fn call(&mut self, piece: CallPiece<'_>, whole: bool) -> Result<(), Error> {
        let index = self.place(&piece, whole);
        if index >= TOOL_CALLS_MAX {
            return Err(Error::Incomplete { reason: format!("more than {TOOL_CALLS_MAX} tool calls") });
        }
        let calls = &mut self.reply.tool_calls;
        while calls.len() <= index {
            let id = format!("call_{}", calls.len());
            calls.push(ToolCall { id, name: String::new(), arguments: String::new() });
        }
        let call = &mut calls[index];
        if let Some(id) = piece.id.filter(|id| !id.is_empty()) {
            call.id = id.into_owned();
        }
        let Some(function) = piece.function else { return Ok(()) };
        // Most servers send the name once, some in every piece, some in pieces of its own.
        if let Some(name) = function.name
            && call.arguments.is_empty()
            && call.name != name
        {
            call.name.push_str(&name);
        }
        match function.arguments {
            Some(Value::String(arguments)) => call.arguments.push_str(&arguments),
            // Some servers give the arguments as an object.
            Some(Value::Null) | None => {}
            Some(arguments) => call.arguments.push_str(&arguments.to_string()),
        }
        Ok(())
    }

    /// Which call a piece belongs to: the one of its index. Where servers leave the index out, a piece begins a call if its id is a
    /// new one, or, without ids, if it has a name and the arguments before it are whole.
    fn place(&mut self, piece: &CallPiece<'_>, whole: bool) -> usize {
        let calls = &self.reply.tool_calls;
        if whole {
            return calls.len();
        }
        if let Some(index) = piece.index {
            // Some servers give parallel calls one index; an id of its own begins a call all the same.
            let id = piece.id.as_deref().filter(|id| !id.is_empty());
            let place = match self.places.get(&index).copied() {
                Some(place) if id.is_none_or(|id| !is_another(&calls[place], place, id)) => place,
                Some(_) => calls.len(),
                None => index.max(calls.len()),
            };
            self.places.insert(index, place);
            return place;
        }
        let Some(last) = calls.last() else { return 0 };
        let named = piece
            .function
            .as_ref()
            .is_some_and(|function| function.name.as_ref().is_some_and(|name| !name.is_empty()));
        let begins = match piece.id.as_deref().filter(|id| !id.is_empty()) {
            Some(id) => id != last.id,
            None => named && serde_json::from_str::<IgnoredAny>(&last.arguments).is_ok(),
        };
        if begins { calls.len() } else { calls.len() - 1 }
    }
}

/// Whether an id is that of another call than this one, whose id may not have been sent yet.
fn is_another(call: &ToolCall, place: usize, id: &str) -> bool {
    let is_ours = call.id == format!("call_{place}");
    let is_whole = serde_json::from_str::<IgnoredAny>(&call.arguments).is_ok();
    call.id != id && (!is_ours || is_whole)
}

/// An error that a server reports inside a reply that began well.
fn error_inside(error: &Value) -> Error {
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
            // Some servers keep a connection alive with empty events.
            b"" => Ok(()),
            b"[DONE]" => {
                self.done = true;
                Ok(())
            }
            data => self.take(data),
        }
    }

    fn whole(&mut self, body: &[u8]) -> Result<(), Error> {
        self.take(body)?;
        self.done = true;
        Ok(())
    }

    fn tokens(&self) -> u64 {
        self.pieces
    }

    fn reply(&self) -> &Reply {
        &self.reply
    }

    fn is_complete(&self) -> bool {
        self.finish.is_some()
    }

    fn is_done(&self) -> bool {
        self.done
    }

    fn finish(mut self) -> Result<Reply, Error> {
        if self.finish.is_none() && !self.done {
            return Err(Error::Incomplete {
                reason: "the stream ended without a finish_reason and without [DONE]".to_owned(),
            });
        }
        if self.pieces == 0 {
            return Err(Error::Incomplete { reason: "the reply holds no choices".to_owned() });
        }
        // Some servers count calls from 1, which leaves a gap.
        self.reply.tool_calls.retain(|call| !call.name.is_empty() || !call.arguments.is_empty());
        let reason = self.finish.unwrap_or_default();
        self.reply.stop = match ending(&reason) {
            _ if !self.refusal.is_empty() => StopReason::Refused { message: self.refusal },
            Ending::CutOff => StopReason::Length,
            Ending::Filtered => StopReason::Filtered,
            Ending::Broken => {
                return Err(Error::Incomplete { reason: format!("the server ended it with '{reason}'") });
            }
            Ending::Well if !self.reply.tool_calls.is_empty() => StopReason::ToolCalls,
            Ending::Well => StopReason::Finished,
        };
        Ok(self.reply)
    }
}

/// What a `finish_reason` means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    Well,
    CutOff,
    Filtered,
    Broken,
}

/// Servers have many words for the same few endings. One that nobody knows is taken for a good one.
fn ending(reason: &str) -> Ending {
    let reason = reason.to_ascii_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| reason.contains(word));
    if says(&["length", "max_token", "token_limit", "incomplete"]) {
        Ending::CutOff
    } else if says(&["filter", "safety", "recitation", "prohibited", "blocklist", "spii"]) {
        Ending::Filtered
    } else if says(&["abort", "error", "cancel", "timeout"]) {
        Ending::Broken
    } else {
        Ending::Well
    }
}

#[cfg(test)]
mod tests {
    use super::{Ending, ending};

    #[test]
    fn every_servers_words_for_an_ending_are_understood() {
        for (reason, meant) in [
            ("stop", Ending::Well),
            ("tool_calls", Ending::Well),
            ("eos", Ending::Well),
            ("", Ending::Well),
            ("length", Ending::CutOff),
            ("model_length", Ending::CutOff),
            ("MAX_TOKENS", Ending::CutOff),
            ("incomplete", Ending::CutOff),
            ("content_filter", Ending::Filtered),
            ("SAFETY", Ending::Filtered),
            ("abort", Ending::Broken),
            ("error", Ending::Broken),
        ] {
            assert_eq!(ending(reason), meant, "{reason}");
        }
    }
}
