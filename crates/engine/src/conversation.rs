//! The conversation so far as a request shows it: earlier runs of the session, and the steps of this one.

use formwork_types::{BackendInfo, Message, Protocol, ToolCall};

use crate::acting::{Answered, Turn};
use crate::callable::Callables;
use crate::envelope;

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

/// Writes turns as messages.
pub(crate) struct Writer<'a> {
    pub(crate) callables: &'a Callables,
    pub(crate) protocol: Protocol,
    pub(crate) backend: &'a BackendInfo,
}

impl Writer<'_> {
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
            arguments: call.arguments.clone(),
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
            Protocol::Actions => turn.said.clone(),
            Protocol::Tools => envelope::written(call).to_string(),
        };
        [Message::assistant(said, Vec::new()), Message::user(envelope::returned(call, answer).to_string())]
    };
    turn.calls.iter().zip(answers).flat_map(one).collect()
}

/// An answer as far as there is room for it.
fn shown(answer: &str, room: &mut Room) -> String {
    let most = room.each.min(room.all);
    let length = answer.chars().count();
    room.all = room.all.saturating_sub(length.min(room.each));
    if length <= most {
        return answer.to_owned();
    }
    let kept: String = answer.chars().take(most).collect();
    let rest = length - most;
    match most {
        0 => format!("(left out to save room: {length} characters)"),
        _ => format!("{kept}\n… ({rest} more characters were left out)"),
    }
}
