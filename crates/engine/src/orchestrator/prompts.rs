//! The words of an orchestration: to whoever plans, to whoever does a part, and to whoever sums up.

use slipform_types::AgentCard;

use super::CREATE_PLAN;
use super::subtasks::{Stand, SubtaskState};
use crate::conversation::fit;

/// The longest result that others are shown, in characters.
const RESULT_CHARACTERS_MAX: usize = 20_000;

/// The longest of all results together.
const RESULTS_CHARACTERS_MAX: usize = 100_000;

/// The same for a small model.
const SMALL_CHARACTERS_MAX: usize = 3_000;

/// The longest reason of a failure.
const REASON_CHARACTERS_MAX: usize = 2_000;

/// The question to whoever plans.
pub(super) fn planning(task: &str, team: &[AgentCard], parts: &[SubtaskState]) -> String {
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
    if parts.is_empty() {
        return text;
    }
    let states: Vec<String> = parts.iter().map(standing).collect();
    text.push_str(&format!(
        "\n\n# What Happened So Far\n\n{}\n\nWhat is done stays done: do not plan it again, depend on it by its id where its result is \
         needed. Plan what is left in another way, so that what failed is not needed or is done differently.",
        states.join("\n\n")
    ));
    text
}

fn standing(part: &SubtaskState) -> String {
    let (id, agent) = (&part.subtask.id, &part.subtask.agent);
    match &part.stand {
        Stand::Done(result) => {
            format!("## {id} ({agent}) is done\n\n{}", fit(result, RESULT_CHARACTERS_MAX / 10))
        }
        Stand::Failed(reason) => {
            let reason = fit(reason, REASON_CHARACTERS_MAX);
            format!("## {id} ({agent}) failed\n\n{reason}\n\nIt was: {}", part.subtask.description)
        }
        Stand::Waiting(_) | Stand::Working(_) => format!("## {id} ({agent}) was not begun"),
    }
}

/// The task of whoever does a part.
pub(super) fn subtask(task: &str, parts: &[SubtaskState], index: usize) -> String {
    let part = &parts[index];
    let mut text = part.subtask.description.clone();
    text.push_str(&format!("\n\n# What It Is Part Of\n\n{}", fit(task.trim_end(), RESULT_CHARACTERS_MAX)));
    let needed = parts.iter().filter(|other| part.subtask.dependencies.contains(&other.subtask.id));
    let results: Vec<String> = needed.filter_map(|other| result(other, RESULT_CHARACTERS_MAX)).collect();
    if !results.is_empty() {
        text.push_str(&format!("\n\n# Results To Build On\n\n{}", results.join("\n\n")));
    }
    if let Stand::Waiting(Some(reason)) = &part.stand {
        let reason = fit(reason, REASON_CHARACTERS_MAX);
        text.push_str(&format!("\n\n# An Earlier Attempt Failed\n\n{reason}"));
    }
    text
}

/// The question to whoever sums up.
pub(super) fn summary(task: &str, parts: &[SubtaskState], is_text: bool, is_small: bool) -> String {
    let all = if is_small { SMALL_CHARACTERS_MAX } else { RESULTS_CHARACTERS_MAX };
    let each = (all / parts.len().max(1)).min(RESULT_CHARACTERS_MAX);
    let results: Vec<String> = parts.iter().filter_map(|part| result(part, each)).collect();
    let cite = match is_text {
        true => {
            " Behind each statement name the subtask that it comes from, by its id in brackets, such as [t1]."
        }
        false => "",
    };
    format!(
        "# Task\n\n{}\n\n# Results Of The Subtasks\n\n{}\n\n# What To Do\n\nAll subtasks are done. Answer the task for the person who \
         asked, from these results and nothing else.{cite}",
        task.trim_end(),
        results.join("\n\n")
    )
}

fn result(part: &SubtaskState, characters: usize) -> Option<String> {
    let Stand::Done(result) = &part.stand else { return None };
    let (id, agent, description) = (&part.subtask.id, &part.subtask.agent, &part.subtask.description);
    Some(format!("## [{id}] {agent}: {description}\n\n{}", fit(result, characters)))
}

/// What is wrong with a summary's citations, if something is.
pub(super) fn citations(text: &str, ids: &[&str]) -> Option<String> {
    let cited: Vec<&str> = bracketed(text).collect();
    if !cited.iter().any(|cited| ids.iter().any(|id| id.eq_ignore_ascii_case(cited))) {
        let known: Vec<String> = ids.iter().map(|id| format!("[{id}]")).collect();
        return Some(format!(
            "it does not say which subtask its statements come from: name them as {}",
            known.join(", ")
        ));
    }
    let made_up = cited.iter().find(|cited| is_made_up(cited, ids))?;
    Some(format!("it names [{made_up}], and there is no such subtask"))
}

/// Whether something in brackets is meant as a subtask that there is not. A number may be anything; what looks like the
/// name of a subtask is meant as one.
fn is_made_up(cited: &str, ids: &[&str]) -> bool {
    let own = stem(cited);
    let looks_meant = !own.is_empty() && own.len() < cited.len() && ids.iter().any(|id| stem(id) == own);
    looks_meant && !ids.iter().any(|id| id.eq_ignore_ascii_case(cited))
}

/// A summary without the names of subtasks that there are not.
pub(super) fn without_made_up(text: &str, ids: &[&str]) -> String {
    let made_up: Vec<&str> = bracketed(text).filter(|cited| is_made_up(cited, ids)).collect();
    made_up.iter().fold(text.to_owned(), |text, cited| {
        text.replace(&format!(" [{cited}]"), "").replace(&format!("[{cited}]"), "")
    })
}

/// A name without its number.
fn stem(id: &str) -> &str {
    id.trim_end_matches(|letter: char| letter.is_ascii_digit())
}

/// What stands in brackets, several names in one pair apart.
fn bracketed(text: &str) -> impl Iterator<Item = &str> {
    let parts = text.split('[').skip(1).filter_map(|part| part.split_once(']').map(|(inner, _)| inner));
    parts.flat_map(|inner| inner.split([',', ';'])).map(str::trim)
}

/// The subtasks, for below a summary that does not name them.
pub(super) fn sources<'p>(done: impl Iterator<Item = &'p SubtaskState>) -> String {
    let list: Vec<String> = done
        .map(|part| format!("[{}] {}: {}", part.subtask.id, part.subtask.agent, part.subtask.description))
        .collect();
    format!("Sources:\n{}", list.join("\n"))
}
