//! Writes the conversation as messages: earlier runs of the session and the steps of this run.

use std::collections::HashMap;

use serde_json::Value;
use slipform_types::{BackendInfo, Message, Protocol, Role, ToolCall};

use crate::callable::Callables;
use crate::envelope;
use crate::tool_loop::{AnsweredCall, Turn};

/// A finished run of the session.
#[derive(Debug, Clone)]
pub(crate) struct PastRun {
    pub(crate) input: String,
    pub(crate) turns: Vec<Turn>,
    pub(crate) answer: String,
}

/// The character limits for tool answers in a request: per answer and in total. The oldest answers
/// are dropped first, with a note to the model.
struct CharacterBudget {
    per_answer: usize,
    total: usize,
}

impl CharacterBudget {
    fn of(backend: &BackendInfo) -> CharacterBudget {
        if backend.small {
            // A context of 4,096 tokens has to hold the prompt, the tools, the schema and the answer too.
            CharacterBudget { per_answer: 1_500, total: 3_000 }
        } else {
            CharacterBudget { per_answer: 60_000, total: 300_000 }
        }
    }
}

/// An answer is dropped rather than cut to fewer characters than this.
const CHARACTERS_MIN: usize = 80;

/// The smallest length to which a text inside an answer is cut.
const TEXT_CHARACTERS_MIN: usize = 16;

/// Writes turns as messages for one backend and protocol.
pub(crate) struct ConversationWriter<'a> {
    pub(crate) callables: &'a Callables,
    pub(crate) protocol: Protocol,
    pub(crate) backend: &'a BackendInfo,
}

impl ConversationWriter<'_> {
    /// Writes the earlier runs, the input of this run and its steps.
    pub(crate) fn write(&self, past_runs: &[PastRun], first: Message, turns: &[Turn]) -> Vec<Message> {
        let mut budget = CharacterBudget::of(self.backend);
        // The newest answers get the budget first, because the model continues from them.
        let mut now: Vec<Vec<Message>> =
            turns.iter().rev().map(|turn| self.turn(turn, &mut budget)).collect();
        now.reverse();
        let mut before: Vec<Vec<Message>> = Vec::new();
        for run in past_runs.iter().rev() {
            let mut messages = vec![Message::user(&run.input)];
            let mut steps: Vec<Vec<Message>> =
                run.turns.iter().rev().map(|turn| self.turn(turn, &mut budget)).collect();
            steps.reverse();
            messages.extend(steps.into_iter().flatten());
            messages.push(Message::assistant(&run.answer, Vec::new()));
            before.push(messages);
        }
        before.reverse();
        before.into_iter().flatten().chain([first]).chain(now.into_iter().flatten()).collect()
    }

    fn turn(&self, turn: &Turn, budget: &mut CharacterBudget) -> Vec<Message> {
        let mut answers: Vec<String> =
            turn.calls.iter().rev().map(|call| fit_answer(&call.answer, budget)).collect();
        answers.reverse();
        match self.protocol {
            Protocol::Tools => self.as_calls(turn, &answers),
            Protocol::Actions => as_actions(turn, &answers),
        }
    }

    fn as_calls(&self, turn: &Turn, answers: &[String]) -> Vec<Message> {
        let wire = |call: &AnsweredCall| {
            self.callables.find(&call.name).map_or_else(|| call.name.clone(), |known| known.wire.clone())
        };
        let calls = turn.calls.iter().map(|call| ToolCall {
            id: call.id.clone(),
            name: wire(call),
            arguments: fit_arguments(&call.arguments, self.backend),
        });
        // The text of an envelope is already in its call.
        let assistant_text = if turn.protocol == Protocol::Tools { turn.assistant_text.as_str() } else { "" };
        let mut messages = vec![Message::assistant(assistant_text, calls.collect())];
        messages.extend(turn.calls.iter().zip(answers).map(|(call, answer)| Message::tool(&call.id, answer)));
        messages
    }
}

fn as_actions(turn: &Turn, answers: &[String]) -> Vec<Message> {
    let messages_of = |(call, answer): (&AnsweredCall, &String)| {
        let assistant_text = match turn.protocol {
            Protocol::Actions if !turn.is_opening => turn.assistant_text.clone(),
            _ => envelope::call_as_action(call).to_string(),
        };
        [
            Message::assistant(assistant_text, Vec::new()),
            Message::user(envelope::return_action(call, answer).to_string()),
        ]
    };
    turn.calls.iter().zip(answers).flat_map(messages_of).collect()
}

/// Rewrites a client's messages for a backend that reads calls and their answers as actions.
pub(crate) fn messages_as_actions(messages: &[Message]) -> Vec<Message> {
    let mut names: HashMap<&str, &str> = HashMap::new();
    let mut list = Vec::with_capacity(messages.len());
    for message in messages {
        let call_id = message.tool_call_id.as_deref();
        if message.role == Role::Tool {
            let name = call_id.and_then(|id| names.get(id)).copied().unwrap_or("tool");
            list.push(Message::user(envelope::tool_return(name, &message.content).to_string()));
        } else if message.tool_calls.is_empty() {
            list.push(message.clone());
        } else {
            let actions = message.tool_calls.iter().map(|call| {
                names.insert(&call.id, &call.name);
                envelope::use_tool(&call.name, &call.arguments).to_string()
            });
            let text = Some(message.content.clone()).filter(|text| !text.trim().is_empty());
            let lines: Vec<String> = text.into_iter().chain(actions).collect();
            list.push(Message::assistant(lines.join("\n"), Vec::new()));
        }
    }
    list
}

/// Returns the arguments, with the longest texts cut if they are very long. The tool received them
/// in full.
fn fit_arguments(arguments: &str, backend: &BackendInfo) -> String {
    let most = CharacterBudget::of(backend).per_answer;
    if arguments.chars().count() <= most {
        return arguments.to_owned();
    }
    match serde_json::from_str(arguments) {
        Ok(value @ Value::Object(_)) => cut_to_fit(&value, most).unwrap_or_else(|| "{}".to_owned()),
        _ => "{}".to_owned(),
    }
}

/// Returns a value with its longest texts cut until it fits, or `None` if it cannot fit.
fn cut_to_fit(value: &Value, most: usize) -> Option<String> {
    let cuts = std::iter::successors(Some(most / 2), |cut| (*cut > TEXT_CHARACTERS_MIN).then_some(cut / 2));
    cuts.map(|cut| with_short_texts(value, cut).to_string()).find(|text| text.chars().count() <= most)
}

/// Returns an answer within the budget. In structured answers the longest texts are cut first, so
/// that all parts stay visible.
fn fit_answer(answer: &str, budget: &mut CharacterBudget) -> String {
    let most = budget.per_answer.min(budget.total);
    let length = answer.chars().count();
    if length <= most {
        budget.total -= length;
        return answer.to_owned();
    }
    if most < CHARACTERS_MIN {
        return format!("(left out to save room: {length} characters)");
    }
    budget.total -= most;
    if let Ok(value @ (Value::Object(_) | Value::Array(_))) = serde_json::from_str(answer)
        && let Some(text) = cut_to_fit(&value, most)
    {
        return text;
    }
    let kept: String = answer.chars().take(most).collect();
    format!("{kept}\n… ({} more characters were left out)", length - most)
}

/// Cuts a text to this number of characters.
pub(crate) fn fit_text(text: &str, characters: usize) -> String {
    fit_answer(text, &mut CharacterBudget { per_answer: characters, total: characters })
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
    fn long_answers_are_cut_within_budget_and_short_ones_kept() {
        let mut budget = CharacterBudget { per_answer: 200, total: 300 };
        assert_eq!(fit_answer("short", &mut budget), "short");
        let long =
            json!([{"path": "a.rs", "text": "x".repeat(400)}, {"path": "b.rs", "text": "y".repeat(400)}]);
        let text = fit_answer(&long.to_string(), &mut budget);
        assert!(text.contains("a.rs") && text.contains("b.rs") && text.contains('…'), "{text}");
        assert!(text.chars().count() <= 200, "{text}");
        assert!(fit_answer(&"z".repeat(500), &mut budget).ends_with("more characters were left out)"));
        assert_eq!(fit_answer(&"z".repeat(500), &mut budget), "(left out to save room: 500 characters)");
    }
}
