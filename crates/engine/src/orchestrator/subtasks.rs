//! Subtask plans: their schema, the rules between subtasks, and which subtasks are ready.

use serde_json::{Value, json};
use slipform_schema::Violations;
use slipform_types::{AgentCard, Subtask, SubtaskOutcome, SubtaskOutcomeStatus};

use crate::reply::violation;

/// The maximum number of subtasks per plan. It leaves room under the child limit for retries.
const SUBTASKS_MAX: usize = 10;

/// The maximum number of subtasks under a grammar. Small models repeat themselves, and every
/// subtask takes time.
const SUBTASKS_UNDER_GRAMMAR: usize = 3;

/// The longest description of a subtask under a grammar, in characters.
const DESCRIPTION_UNDER_GRAMMAR: usize = 240;

/// The priority `medium`, also the default.
const MEDIUM: i64 = 5;

/// A subtask and its status.
#[derive(Debug, Clone)]
pub(crate) struct SubtaskState {
    pub(crate) subtask: Subtask,
    pub(crate) tries: u32,
    pub(crate) status: SubtaskStatus,
}

/// The status of a subtask.
#[derive(Debug, Clone)]
pub(crate) enum SubtaskStatus {
    /// Not started, or to be retried for this reason.
    Waiting(Option<String>),
    /// Running under this call id.
    Working(String),
    /// Finished with this result.
    Done(String),
    /// Failed on its last try, for this reason.
    Failed(String),
}

impl SubtaskState {
    pub(crate) fn new(subtask: Subtask) -> SubtaskState {
        SubtaskState { subtask, tries: 0, status: SubtaskStatus::Waiting(None) }
    }

    /// Returns the subtask with its status and result, for the salvage.
    pub(crate) fn outcome(&self) -> SubtaskOutcome {
        let (status, result, error) = match &self.status {
            SubtaskStatus::Done(result) => {
                let result = serde_json::from_str(result).unwrap_or_else(|_| Value::from(result.as_str()));
                (SubtaskOutcomeStatus::Completed, Some(result), None)
            }
            SubtaskStatus::Failed(reason) => (SubtaskOutcomeStatus::Failed, None, Some(reason.clone())),
            SubtaskStatus::Waiting(_) | SubtaskStatus::Working(_) => {
                (SubtaskOutcomeStatus::NotBegun, None, Some("a subtask before it failed".to_owned()))
            }
        };
        let Subtask { id, agent, description, .. } = self.subtask.clone();
        SubtaskOutcome { id, agent, description, status, result, error }
    }
}

/// Returns the schema of a subtask plan.
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

/// Returns a stricter schema for grammars, in which ids and dependencies are always valid.
pub(crate) fn under_grammar(team: &[AgentCard], done: &[Subtask], known: usize) -> Value {
    let names: Vec<&str> = team.iter().map(|agent| agent.name.as_str()).collect();
    let mut before: Vec<String> = done.iter().map(|subtask| subtask.id.clone()).collect();
    let mut items = Vec::new();
    for number in (known + 1..).take(SUBTASKS_UNDER_GRAMMAR) {
        let id = (number..).map(|number| format!("t{number}")).find(|id| !before.contains(id));
        let id = id.unwrap_or_default();
        let dependencies = if before.is_empty() {
            json!({"type": "array", "maxItems": 0})
        } else {
            json!({"type": "array", "maxItems": 1, "items": {"enum": before}})
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

/// Returns the violations of a subtask plan that satisfies the schema, given the subtasks that are done.
pub(crate) fn violations(subtask_plan: &Value, done: &[Subtask]) -> Violations {
    let subtasks = read(subtask_plan);
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
        // Repeating a finished subtask is allowed; reusing its id for another agent is not.
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
        && let Some(cycle) = find_cycle(&subtasks)
    {
        let index = subtasks.iter().position(|subtask| subtask.id == cycle[0]).unwrap_or_default();
        let chain: Vec<&str> = cycle.iter().chain(cycle.first()).map(String::as_str).collect();
        let message = format!(
            "these subtasks wait for each other and could never begin: {}; remove one dependency",
            chain.join(" → ")
        );
        let path = format!("$.subtasks[{index}].dependencies");
        list.push(violation(&path, message));
    }
    Violations { list, more: 0 }
}

/// Returns subtasks that depend on each other in a cycle.
fn find_cycle(subtasks: &[Subtask]) -> Option<Vec<String>> {
    // Subtasks without remaining dependencies can start. What remains in the end forms a cycle.
    let mut left: Vec<&Subtask> = subtasks.iter().collect();
    loop {
        let still: Vec<&Subtask> =
            left.iter().copied().filter(|subtask| first_dependency(&left, subtask).is_some()).collect();
        if still.len() == left.len() {
            break;
        }
        left = still;
    }
    let mut path = vec![left.first()?.id.clone()];
    loop {
        let last = left.iter().find(|subtask| Some(&subtask.id) == path.last())?;
        let needed = first_dependency(&left, last)?;
        if let Some(begin) = path.iter().position(|id| *id == needed) {
            return Some(path.split_off(begin));
        }
        path.push(needed);
    }
}

/// Returns the first dependency of a subtask that is in this list.
fn first_dependency(left: &[&Subtask], subtask: &Subtask) -> Option<String> {
    let is_left = |needed: &&String| left.iter().any(|other| other.id == **needed);
    subtask.dependencies.iter().find(is_left).cloned()
}

/// Reads the subtasks of a plan that satisfies the schema.
pub(crate) fn read(subtask_plan: &Value) -> Vec<Subtask> {
    let text = |value: &Value| value.as_str().unwrap_or_default().trim().to_owned();
    let subtasks = subtask_plan["subtasks"].as_array().into_iter().flatten();
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

/// Returns whether a subtask can start.
pub(crate) fn is_ready(subtask_states: &[SubtaskState], index: usize) -> bool {
    let subtask_state = &subtask_states[index];
    let is_done = |id: &String| {
        subtask_states
            .iter()
            .any(|other| other.subtask.id == *id && matches!(other.status, SubtaskStatus::Done(_)))
    };
    matches!(subtask_state.status, SubtaskStatus::Waiting(_))
        && subtask_state.subtask.dependencies.iter().all(is_done)
}
