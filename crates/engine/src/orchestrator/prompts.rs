//! The prompts of an orchestration: for planning, for subtasks and for the summary.

use slipform_types::{AgentCard, FAILED_ATTEMPT_HEADING, PART_OF_HEADING, RESULTS_HEADING, SubtaskOutcome};

use super::CREATE_PLAN;
use super::subtasks::{SubtaskState, SubtaskStatus};
use crate::conversation::fit_text;

/// The longest result of a subtask in another prompt, in characters.
const RESULT_CHARACTERS_MAX: usize = 20_000;

/// The longest total of all results, in characters.
const RESULTS_CHARACTERS_MAX: usize = 100_000;

/// The longest total of all results for a small model, in characters.
const SMALL_CHARACTERS_MAX: usize = 3_000;

/// The longest reason of a failure, in characters.
const REASON_CHARACTERS_MAX: usize = 2_000;

/// Returns the prompt for planning.
pub(super) fn planning(task: &str, team: &[AgentCard], subtask_states: &[SubtaskState]) -> String {
    let agents: Vec<String> = team
        .iter()
        .map(|agent| match agent.description.trim() {
            "" => format!("- {}", agent.name),
            description => format!("- {}: {description}", agent.name),
        })
        .collect();
    let mut text = format!(
        "# Task\n\n{}\n\n# Agents\n\n{}\n\n# What To Do\n\nTake the task apart and hand in the plan as {CREATE_PLAN}. As few subtasks \
         as the task needs; one is enough for a simple task. Each is for one agent, which knows only its description and the results \
         of the subtasks that it depends on. What does not depend on each other is done at the same time.",
        task.trim_end(),
        agents.join("\n")
    );
    if subtask_states.is_empty() {
        return text;
    }
    let states: Vec<String> = subtask_states.iter().map(describe_status).collect();
    text.push_str(&format!(
        "\n\n# What Happened So Far\n\n{}\n\nWhat is done stays done: do not plan it again, depend on it by its id where its result is \
         needed. Plan what is left in another way, so that what failed is not needed or is done differently.",
        states.join("\n\n")
    ));
    text
}

fn describe_status(subtask_state: &SubtaskState) -> String {
    let (id, agent) = (&subtask_state.subtask.id, &subtask_state.subtask.agent);
    match &subtask_state.status {
        SubtaskStatus::Done(result) => {
            format!("## {id} ({agent}) is done\n\n{}", fit_text(result, RESULT_CHARACTERS_MAX / 10))
        }
        SubtaskStatus::Failed(reason) => {
            let reason = fit_text(reason, REASON_CHARACTERS_MAX);
            format!("## {id} ({agent}) failed\n\n{reason}\n\nIt was: {}", subtask_state.subtask.description)
        }
        SubtaskStatus::Waiting(_) | SubtaskStatus::Working(_) => format!("## {id} ({agent}) was not begun"),
    }
}

/// Returns the prompt for a subtask.
pub(super) fn subtask(task: &str, subtask_states: &[SubtaskState], index: usize) -> String {
    let subtask_state = &subtask_states[index];
    let mut text = subtask_state.subtask.description.clone();
    text.push_str(&whole_task(task));
    let needed =
        subtask_states.iter().filter(|other| subtask_state.subtask.dependencies.contains(&other.subtask.id));
    let results: Vec<String> = needed.filter_map(|other| result(other, RESULT_CHARACTERS_MAX)).collect();
    text.push_str(&earlier_results(&results));
    if let SubtaskStatus::Waiting(Some(reason)) = &subtask_state.status {
        let reason = fit_text(reason, REASON_CHARACTERS_MAX);
        text.push_str(&format!("\n\n{FAILED_ATTEMPT_HEADING}\n\n{reason}"));
    }
    text
}

/// Returns the section that shows an agent the task that its own is part of.
fn whole_task(task: &str) -> String {
    format!("\n\n{PART_OF_HEADING}\n\n{}", fit_text(task.trim_end(), RESULT_CHARACTERS_MAX))
}

/// Returns the section with the results that an agent builds on, or nothing.
fn earlier_results(results: &[String]) -> String {
    if results.is_empty() {
        return String::new();
    }
    format!("\n\n{RESULTS_HEADING}\n\n{}", results.join("\n\n"))
}

/// Returns the prompt for an agent that is called by name: its task, the task of the caller, and the answers of the
/// agents that were called before.
pub(crate) fn delegated(own: &str, task: &str, answers: &[(String, String)]) -> String {
    let mut text = own.to_owned();
    if own.trim() != task.trim() {
        text.push_str(&whole_task(task));
    }
    let each = (RESULTS_CHARACTERS_MAX / answers.len().max(1)).min(RESULT_CHARACTERS_MAX);
    let results = answers.iter().map(|(agent, answer)| format!("## {agent}\n\n{}", fit_text(answer, each)));
    text.push_str(&earlier_results(&results.collect::<Vec<_>>()));
    text
}

/// Returns the prompt for the summary.
pub(super) fn summary(task: &str, subtask_states: &[SubtaskState], is_text: bool, is_small: bool) -> String {
    let all = if is_small { SMALL_CHARACTERS_MAX } else { RESULTS_CHARACTERS_MAX };
    let each = (all / subtask_states.len().max(1)).min(RESULT_CHARACTERS_MAX);
    let mut results: Vec<String> =
        subtask_states.iter().filter_map(|subtask_state| result(subtask_state, each)).collect();
    let reason = each.min(REASON_CHARACTERS_MAX);
    let missing: Vec<String> =
        subtask_states.iter().filter_map(|subtask_state| not_done(subtask_state, reason)).collect();
    let state = if missing.is_empty() {
        "All subtasks are done. Answer"
    } else {
        results.push(format!("# Subtasks Without A Result\n\n{}", missing.join("\n\n")));
        "Not all subtasks are done, and those above have no result. Say what is missing because of them; do not make it up. \
         Otherwise answer"
    };
    let cite = if is_text {
        " Behind each statement name the subtask that it comes from, by its id in brackets, such as [t1]."
    } else {
        ""
    };
    format!(
        "# Task\n\n{}\n\n# Results Of The Subtasks\n\n{}\n\n# What To Do\n\n{state} the task for the person who \
         asked, from these results and nothing else.{cite}",
        task.trim_end(),
        results.join("\n\n")
    )
}

fn result(subtask_state: &SubtaskState, characters: usize) -> Option<String> {
    let SubtaskStatus::Done(result) = &subtask_state.status else { return None };
    let (id, agent, description) =
        (&subtask_state.subtask.id, &subtask_state.subtask.agent, &subtask_state.subtask.description);
    Some(format!("## [{id}] {agent}: {description}\n\n{}", fit_text(result, characters)))
}

/// Returns the section of a subtask that is not done, or `None` if it is.
fn not_done(subtask_state: &SubtaskState, characters: usize) -> Option<String> {
    let outcome = subtask_state.outcome();
    let reason = fit_text(&outcome.problem()?, characters);
    Some(format!("## [{}] {}: {}\n\n{reason}", outcome.id, outcome.agent, outcome.description))
}

/// Returns the error if a summary does not cite its subtasks correctly. It must cite a subtask that is done, and
/// may mention the others.
pub(super) fn citations(text: &str, done: &[&str], ids: &[&str]) -> Option<String> {
    let cited: Vec<&str> = bracketed(text).collect();
    if !cited.iter().any(|cited| done.iter().any(|id| id.eq_ignore_ascii_case(cited))) {
        let known: Vec<String> = done.iter().map(|id| format!("[{id}]")).collect();
        return Some(format!(
            "it does not say which subtask its statements come from: name them as {}",
            known.join(", ")
        ));
    }
    let made_up = cited.iter().find(|cited| is_made_up(cited, ids))?;
    Some(format!("it names [{made_up}], and there is no such subtask"))
}

/// Returns whether bracketed text looks like a subtask id but is not one. It must share the prefix
/// of an id: a bare number may mean anything.
fn is_made_up(cited: &str, ids: &[&str]) -> bool {
    let own = stem(cited);
    let looks_meant = !own.is_empty() && own.len() < cited.len() && ids.iter().any(|id| stem(id) == own);
    looks_meant && !ids.iter().any(|id| id.eq_ignore_ascii_case(cited))
}

/// Returns a summary without ids of unknown subtasks.
pub(super) fn without_made_up(text: &str, ids: &[&str]) -> String {
    let made_up: Vec<&str> = bracketed(text).filter(|cited| is_made_up(cited, ids)).collect();
    made_up.iter().fold(text.to_owned(), |text, cited| {
        text.replace(&format!(" [{cited}]"), "").replace(&format!("[{cited}]"), "")
    })
}

/// Returns an id without its trailing number.
fn stem(id: &str) -> &str {
    id.trim_end_matches(|letter: char| letter.is_ascii_digit())
}

/// Returns the ids in brackets. One pair may hold several.
fn bracketed(text: &str) -> impl Iterator<Item = &str> {
    let brackets =
        text.split('[').skip(1).filter_map(|segment| segment.split_once(']').map(|(inner, _)| inner));
    brackets.flat_map(|inner| inner.split([',', ';'])).map(str::trim)
}

/// Returns the list of subtasks that are not done, to append to a summary.
pub(super) fn missing(outcomes: &[SubtaskOutcome]) -> String {
    let list: Vec<String> = outcomes
        .iter()
        .filter_map(|outcome| {
            let problem = fit_text(&outcome.problem()?, REASON_CHARACTERS_MAX);
            Some(format!("[{}] {} ({})", outcome.id, outcome.description, problem.replace('\n', " ")))
        })
        .collect();
    format!("Incomplete. Not done:\n{}", list.join("\n"))
}

/// Returns the list of subtasks to append to a summary.
pub(super) fn sources<'p>(done: impl Iterator<Item = &'p SubtaskState>) -> String {
    let list: Vec<String> = done
        .map(|subtask_state| {
            format!(
                "[{}] {}: {}",
                subtask_state.subtask.id, subtask_state.subtask.agent, subtask_state.subtask.description
            )
        })
        .collect();
    format!("Sources:\n{}", list.join("\n"))
}
