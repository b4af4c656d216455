//! The conversation so far as a request shows it: earlier runs of the session, and the steps of this one.

use serde_json::Value;
use slipform_types::{BackendInfo, Message, Protocol, ToolCall};

use crate::callable::Callables;
use crate::envelope;
use crate::tool_state::{Answered, Turn};

/// A run of the session that is over.
#[derive(Debug, Clone)]
pub(crate) struct Past {
    pub(crate) input: String,
    pub(crate) turns: Vec<Turn>,
    pub(crate) answer: String,
}

/// How much of what tools answered a request shows, in characters: of each answer, and of all together. What is over
/// is left out, the oldest first, and the model is told so.
struct Room {
    each: usize,
    all: usize,
}

impl Room {
    fn of(backend: &BackendInfo) -> Room {
        match backend.small {
            // A context of 4,096 tokens has to hold the prompt, the tools, the schema and the answer too.
            true => Room { each: 1_500, all: 3_000 },
            false => Room { each: 60_000, all: 300_000 },
        }
    }
}

/// Less of an answer than this says nothing.
const CHARACTERS_MIN: usize = 80;

/// The shortest cut of a text inside an answer.
const TEXT_CHARACTERS_MIN: usize = 16;

/// Writes turns as messages.
pub(crate) struct ConversationWriter<'a> {
    pub(crate) callables: &'a Callables,
    pub(crate) protocol: Protocol,
    pub(crate) backend: &'a BackendInfo,
}

impl ConversationWriter<'_> {
    /// The earlier runs, and this one's steps up to now.
    pub(crate) fn write(&self, past: &[Past], first: Message, turns: &[Turn]) -> Vec<Message> {
        let mut room = Room::of(self.backend);
        // The newest answers are kept first: they are what the model goes on from.
        let mut now: Vec<Vec<Message>> = turns.iter().rev().map(|turn| self.turn(turn, &mut room)).collect();
        now.reverse();
        let mut before: Vec<Vec<Message>> = Vec::new();
        for run in past.iter().rev() {
            let mut messages = vec![Message::user(&run.input)];
            let mut steps: Vec<Vec<Message>> =
                run.turns.iter().rev().map(|turn| self.turn(turn, &mut room)).collect();
            steps.reverse();
            messages.extend(steps.into_iter().flatten());
            messages.push(Message::assistant(&run.answer, Vec::new()));
            before.push(messages);
        }
        before.reverse();
        before.into_iter().flatten().chain([first]).chain(now.into_iter().flatten()).collect()
    }

    fn turn(&self, turn: &Turn, room: &mut Room) -> Vec<Message> {
        let mut answers: Vec<String> =
            turn.calls.iter().rev().map(|call| shown(&call.answer, room)).collect();
        answers.reverse();
        match self.protocol {
            Protocol::Tools => self.as_calls(turn, &answers),
            Protocol::Actions => as_actions(turn, &answers),
        }
    }

    fn as_calls(&self, turn: &Turn, answers: &[String]) -> Vec<Message> {
        let wire = |call: &Answered| {
            self.callables.find(&call.name).map_or_else(|| call.name.clone(), |known| known.wire.clone())
        };
        let calls = turn.calls.iter().map(|call| ToolCall {
            id: call.id.clone(),
            name: wire(call),
            arguments: written(&call.arguments, self.backend),
        });
        // What was said in an envelope is in its call already.
        let said = if turn.protocol == Protocol::Tools { turn.said.as_str() } else { "" };
        let mut messages = vec![Message::assistant(said, calls.collect())];
        messages.extend(turn.calls.iter().zip(answers).map(|(call, answer)| Message::tool(&call.id, answer)));
        messages
    }
}

fn as_actions(turn: &Turn, answers: &[String]) -> Vec<Message> {
    let one = |(call, answer): (&Answered, &String)| {
        let said = match turn.protocol {
            Protocol::Actions if !turn.is_opening => turn.said.clone(),
            _ => envelope::written(call).to_string(),
        };
        [Message::assistant(said, Vec::new()), Message::user(envelope::returned(call, answer).to_string())]
    };
    turn.calls.iter().zip(answers).flat_map(one).collect()
}

/// Arguments as they were written; the longest texts of very long ones are cut, as the tool has had them.
fn written(arguments: &str, backend: &BackendInfo) -> String {
    let most = Room::of(backend).each;
    if arguments.chars().count() <= most {
        return arguments.to_owned();
    }
    match serde_json::from_str(arguments) {
        Ok(value @ Value::Object(_)) => fitting(&value, most).unwrap_or_else(|| "{}".to_owned()),
        _ => "{}".to_owned(),
    }
}

/// A value with its longest texts cut until it fits, if that is possible.
fn fitting(value: &Value, most: usize) -> Option<String> {
    let cuts = std::iter::successors(Some(most / 2), |cut| (*cut > TEXT_CHARACTERS_MIN).then_some(cut / 2));
    cuts.map(|cut| with_short_texts(value, cut).to_string()).find(|text| text.chars().count() <= most)
}

/// An answer as far as there is room for it. Of a structured one the longest texts are cut first, so that all of its
/// parts can be seen.
fn shown(answer: &str, room: &mut Room) -> String {
    let most = room.each.min(room.all);
    let length = answer.chars().count();
    if length <= most {
        room.all -= length;
        return answer.to_owned();
    }
    if most < CHARACTERS_MIN {
        return format!("(left out to save room: {length} characters)");
    }
    room.all -= most;
    if let Ok(value @ (Value::Object(_) | Value::Array(_))) = serde_json::from_str(answer)
        && let Some(text) = fitting(&value, most)
    {
        return text;
    }
    let kept: String = answer.chars().take(most).collect();
    format!("{kept}\n… ({} more characters were left out)", length - most)
}

/// A text as far as this many characters go.
pub(crate) fn fit(text: &str, characters: usize) -> String {
    shown(text, &mut Room { each: characters, all: characters })
}

fn with_short_texts(value: &Value, most: usize) -> Value {
    match value {
        Value::String(text) => match text.char_indices().nth(most) {
            Some((cut, _)) => Value::String(format!("{}…", &text[..cut])),
            None => value.clone(),
        },
        Value::Array(items) => items.iter().map(|item| with_short_texts(item, most)).collect(),
        Value::Object(members) => {
            members.iter().map(|(key, member)| (key.clone(), with_short_texts(member, most))).collect()
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn long_answers_keep_their_parts_and_short_ones_their_words() {
        let mut room = Room { each: 200, all: 300 };
        assert_eq!(shown("short", &mut room), "short");
        let long =
            json!([{"path": "a.rs", "text": "x".repeat(400)}, {"path": "b.rs", "text": "y".repeat(400)}]);
        let text = shown(&long.to_string(), &mut room);
        assert!(text.contains("a.rs") && text.contains("b.rs") && text.contains('…'), "{text}");
        assert!(text.chars().count() <= 200, "{text}");
        assert!(shown(&"z".repeat(500), &mut room).ends_with("more characters were left out)"));
        assert_eq!(shown(&"z".repeat(500), &mut room), "(left out to save room: 500 characters)");
    }
}
