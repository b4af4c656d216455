//! Plans: what they look like, what has to hold between their subtasks, and which can begin.

use serde_json::{Value, json};
use slipform_schema::Violations;
use slipform_types::{AgentCard, Subtask};

use crate::verify_paths::violation;

/// The most subtasks of a plan. There has to be room for those that are tried again.
const SUBTASKS_MAX: usize = 10;

/// The most that a small model is allowed: it repeats itself, and every one takes a while.
const SUBTASKS_UNDER_GRAMMAR: usize = 3;

/// The longest description of a subtask under a grammar.
const DESCRIPTION_UNDER_GRAMMAR: usize = 240;

/// What a subtask without a priority has, and one of middling priority.
const MEDIUM: i64 = 5;

/// A subtask and how it stands.
#[derive(Debug, Clone)]
pub(crate) struct SubtaskState {
    pub(crate) subtask: Subtask,
    pub(crate) tries: u32,
    pub(crate) stand: Stand,
}

/// How a subtask stands.
#[derive(Debug, Clone)]
pub(crate) enum Stand {
    /// It has not begun; or it has to begin again, for this reason.
    Waiting(Option<String>),
    /// This call works on it.
    Working(String),
    /// This is its result.
    Done(String),
    /// It was tried often enough, and this went wrong last.
    Failed(String),
}

impl SubtaskState {
    pub(crate) fn new(subtask: Subtask) -> SubtaskState {
        SubtaskState { subtask, tries: 0, stand: Stand::Waiting(None) }
    }

    /// The subtask with what came of it, for people.
    pub(crate) fn report(&self) -> Value {
        let (status, name, text) = match &self.stand {
            Stand::Done(result) => ("completed", "result", result.as_str()),
            Stand::Failed(reason) => ("failed", "error", reason.as_str()),
            Stand::Waiting(_) | Stand::Working(_) => ("not_begun", "error", "a subtask before it failed"),
        };
        let text = serde_json::from_str(text).unwrap_or_else(|_| Value::from(text));
        let Subtask { id, agent, description, .. } = &self.subtask;
        json!({"id": id, "agent": agent, "description": description, "status": status, name: text})
    }
}

/// What a plan has to satisfy.
pub(crate) fn schema(team: &[AgentCard]) -> Value {
    let names: Vec<&str> = team.iter().map(|agent| agent.name.as_str()).collect();
    json!({
        "type": "object",
        "required": ["subtasks"],
        "properties": {
            "subtasks": {
                "type": "array",
                "minItems": 1,
                "maxItems": SUBTASKS_MAX,
                "items": {
                    "type": "object",
                    "required": ["id", "description", "agent"],
                    "properties": {
                        "id": {"type": "string", "pattern": "^[A-Za-z0-9][A-Za-z0-9_.-]{0,39}$", "description": "A short name such as t1"},
                        "description": {"type": "string", "minLength": 1, "pattern": "\\S", "description": "What to do, with all that the agent has to know"},
                        "agent": {"enum": names, "description": "Who does it"},
                        "dependencies": {"type": "array", "items": {"type": "string"}, "description": "The ids of the subtasks whose results it needs"},
                        "priority": {
                            "anyOf": [{"type": "integer"}, {"enum": ["high", "medium", "low"]}],
                            "description": "1 (or high) goes first",
                        },
                    },
                },
            },
        },
    })
}

/// The same for a model that can write nothing else: names and dependencies leave nothing to get wrong.
pub(crate) fn under_grammar(team: &[AgentCard], done: &[Subtask], known: usize) -> Value {
    let names: Vec<&str> = team.iter().map(|agent| agent.name.as_str()).collect();
    let mut before: Vec<String> = done.iter().map(|subtask| subtask.id.clone()).collect();
    let mut items = Vec::new();
    for number in (known + 1..).take(SUBTASKS_UNDER_GRAMMAR) {
        let id = (number..).map(|number| format!("t{number}")).find(|id| !before.contains(id));
        let id = id.unwrap_or_default();
        let dependencies = match before.is_empty() {
            true => json!({"type": "array", "maxItems": 0}),
            false => json!({"type": "array", "maxItems": 1, "items": {"enum": before}}),
        };
        items.push(json!({
            "type": "object",
            "required": ["id", "description", "agent", "dependencies", "priority"],
            "additionalProperties": false,
            "properties": {
                "id": {"const": id},
                "description": {"type": "string", "minLength": 1, "maxLength": DESCRIPTION_UNDER_GRAMMAR},
                "agent": {"enum": names},
                "dependencies": dependencies,
                "priority": {"enum": [1, 2, 3]},
            },
        }));
        before.push(id);
    }
    json!({
        "type": "object",
        "required": ["subtasks"],
        "additionalProperties": false,
        "properties": {"subtasks": {
            "type": "array", "minItems": 1, "maxItems": items.len(), "items": items, "additionalItems": false,
        }},
    })
}

/// What is wrong with a plan that satisfies the schema, beside what is done already.
pub(crate) fn violations(plan: &Value, done: &[Subtask]) -> Violations {
    let subtasks = read(plan);
    let mut list = Vec::new();
    let mut wrong = |path: String, message: String| list.push(violation(&path, message));
    for (index, subtask) in subtasks.iter().enumerate() {
        let id = &subtask.id;
        let at = format!("$.subtasks[{index}]");
        if let Some(first) = subtasks[..index].iter().position(|other| other.id == *id) {
            wrong(
                format!("{at}.id"),
                format!("'{id}' is the id of $.subtasks[{first}] already; give each subtask its own"),
            );
        }
        // The same once more is what is done; another's work cannot have its name.
        if done.iter().any(|other| other.id == *id && other.agent != subtask.agent) {
            wrong(
                format!("{at}.id"),
                format!(
                    "'{id}' is done already; depend on it where its result is needed, and choose another id"
                ),
            );
        }
        for (place, needed) in subtask.dependencies.iter().enumerate() {
            let path = format!("{at}.dependencies[{place}]");
            if needed == id {
                wrong(path, format!("'{id}' cannot wait for itself; remove it"));
            } else if !done.iter().any(|other| other.id == *needed)
                && !subtasks.iter().any(|other| other.id == *needed)
            {
                let known: Vec<String> = subtasks.iter().map(|other| format!("'{}'", other.id)).collect();
                wrong(path, format!("there is no subtask '{needed}'; the ids are {}", known.join(", ")));
            }
        }
    }
    if list.is_empty()
        && let Some(circle) = circle(&subtasks)
    {
        let index = subtasks.iter().position(|subtask| subtask.id == circle[0]).unwrap_or_default();
        let mode: Vec<&str> = circle.iter().chain(circle.first()).map(String::as_str).collect();
        let message = format!(
            "these subtasks wait for each other and could never begin: {}; remove one dependency",
            mode.join(" → ")
        );
        let path = format!("$.subtasks[{index}].dependencies");
        list.push(violation(&path, message));
    }
    Violations { list, more: 0 }
}

/// Subtasks that wait for each other, each for the next.
fn circle(subtasks: &[Subtask]) -> Option<Vec<String>> {
    // Whoever waits for nobody who is left can begin; what is left in the end waits in a circle.
    let mut left: Vec<&Subtask> = subtasks.iter().collect();
    loop {
        let still: Vec<&Subtask> =
            left.iter().copied().filter(|subtask| awaited(&left, subtask).is_some()).collect();
        if still.len() == left.len() {
            break;
        }
        left = still;
    }
    let mut mode = vec![left.first()?.id.clone()];
    loop {
        let last = left.iter().find(|subtask| Some(&subtask.id) == mode.last())?;
        let needed = awaited(&left, last)?;
        if let Some(begin) = mode.iter().position(|id| *id == needed) {
            return Some(mode.split_off(begin));
        }
        mode.push(needed);
    }
}

/// The first of these that a subtask waits for.
fn awaited(left: &[&Subtask], subtask: &Subtask) -> Option<String> {
    let is_left = |needed: &&String| left.iter().any(|other| other.id == **needed);
    subtask.dependencies.iter().find(is_left).cloned()
}

/// The subtasks of a plan that satisfies the schema.
pub(crate) fn read(plan: &Value) -> Vec<Subtask> {
    let text = |value: &Value| value.as_str().unwrap_or_default().trim().to_owned();
    let subtasks = plan["subtasks"].as_array().into_iter().flatten();
    subtasks
        .map(|subtask| {
            let mut dependencies: Vec<String> = Vec::new();
            for needed in subtask["dependencies"].as_array().into_iter().flatten().map(text) {
                if !dependencies.contains(&needed) {
                    dependencies.push(needed);
                }
            }
            let priority = match &subtask["priority"] {
                Value::String(word) if word == "high" => 1,
                Value::String(word) if word == "low" => 10,
                number => number.as_i64().unwrap_or(MEDIUM),
            };
            Subtask {
                id: text(&subtask["id"]),
                description: text(&subtask["description"]),
                agent: text(&subtask["agent"]),
                dependencies,
                priority,
            }
        })
        .collect()
}

/// Whether a subtask can begin.
pub(crate) fn is_ready(parts: &[SubtaskState], index: usize) -> bool {
    let part = &parts[index];
    let is_done = |id: &String| {
        parts.iter().any(|other| other.subtask.id == *id && matches!(other.stand, Stand::Done(_)))
    };
    matches!(part.stand, Stand::Waiting(_)) && part.subtask.dependencies.iter().all(is_done)
}
