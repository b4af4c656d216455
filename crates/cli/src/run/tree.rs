//! The subtasks of an orchestration as a tree, updated by events and drawn as lines.

use std::collections::HashMap;

use slipform_types::{EventBody, SessionId, Subtask};

/// The subtasks of an orchestrator's run and their states.
#[derive(Debug, Default)]
pub(super) struct Tree {
    round: u32,
    branches: Vec<Branch>,
    /// The subtask id of each child session.
    sessions: HashMap<SessionId, String>,
}

#[derive(Debug)]
struct Branch {
    subtask: Subtask,
    state: SubtaskState,
    /// The current activity of its agent, or the error of a failed subtask.
    note: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SubtaskState {
    Waiting,
    Working,
    Done,
    Failed,
}

impl SubtaskState {
    fn mark(self) -> char {
        match self {
            SubtaskState::Waiting => '·',
            SubtaskState::Working => '▸',
            SubtaskState::Done => '✓',
            SubtaskState::Failed => '✗',
        }
    }
}

impl Tree {
    /// Applies an event of the orchestrator's run and returns a line for the log, or `None` for other events.
    pub(super) fn apply(&mut self, body: &EventBody) -> Option<String> {
        match body {
            EventBody::PlanCreated { round, reason, subtasks } => {
                self.round = *round;
                self.branches.retain(|branch| branch.state == SubtaskState::Done);
                self.branches.extend(subtasks.iter().cloned().map(|subtask| Branch {
                    subtask,
                    state: SubtaskState::Waiting,
                    note: String::new(),
                }));
                let list: Vec<String> = subtasks.iter().map(describe).collect();
                let why = reason.as_ref().map(|reason| format!(" (because {reason})")).unwrap_or_default();
                Some(format!("plan {round}{why}: {}", list.join(", ")))
            }
            EventBody::ChildStarted { call_id, child_session_id, .. } => {
                let id = subtask_of(call_id)?;
                self.sessions.insert(child_session_id.clone(), id.to_owned());
                let branch = self.branch(id)?;
                (branch.state, branch.note) = (SubtaskState::Working, String::new());
                Some(format!("{id} ({}) started ({child_session_id})", branch.subtask.agent))
            }
            EventBody::PostTool { call_id, error: Some(error), .. } => {
                let id = subtask_of(call_id)?;
                let branch = self.branch(id)?;
                (branch.state, branch.note) = (SubtaskState::Failed, error.clone());
                Some(format!("{id} ({}) cannot start: {error}", branch.subtask.agent))
            }
            EventBody::ChildCompleted(end) => {
                let id = self.sessions.get(&end.child_session_id)?.clone();
                let branch = self.branch(&id)?;
                let agent = branch.subtask.agent.clone();
                match end.done() {
                    Ok(_) => {
                        (branch.state, branch.note) = (SubtaskState::Done, String::new());
                        Some(format!("{id} ({agent}) completed"))
                    }
                    Err(failure) => {
                        let failure = failure.replace("\n- ", "; ");
                        (branch.state, branch.note) = (SubtaskState::Failed, failure.clone());
                        Some(format!("{id} ({agent}) failed: {failure}"))
                    }
                }
            }
            _ => None,
        }
    }

    /// Sets the current activity of a session's agent.
    pub(super) fn set_activity(&mut self, session: &SessionId, activity: &str) {
        if let Some(id) = self.sessions.get(session).cloned()
            && let Some(branch) = self.branch(&id).filter(|branch| branch.state == SubtaskState::Working)
        {
            activity.clone_into(&mut branch.note);
        }
    }

    /// Returns whether no plan exists yet.
    pub(super) fn is_empty(&self) -> bool {
        self.branches.is_empty()
    }

    /// Returns the tree as lines that fit into this width and height, with the orchestrator on the first line.
    pub(super) fn lines(&self, agent: &str, (width, height): (usize, usize)) -> Vec<String> {
        let done = self.branches.iter().filter(|branch| branch.state == SubtaskState::Done).count();
        let plan = if self.round > 1 { format!(", plan {}", self.round) } else { String::new() };
        let mut lines = vec![format!("{agent} · {done} of {} subtasks done{plan}", self.branches.len())];
        let visible = self.visible(height.saturating_sub(1).max(1));
        for (index, branch) in visible.iter().enumerate() {
            let connector = if index + 1 == visible.len() { "└─" } else { "├─" };
            let Subtask { id, agent, description, dependencies, .. } = &branch.subtask;
            let is_open = |id: &&String| {
                self.branches
                    .iter()
                    .any(|other| other.subtask.id == **id && other.state != SubtaskState::Done)
            };
            let open: Vec<&str> = dependencies.iter().filter(is_open).map(String::as_str).collect();
            let note = match (branch.state, branch.note.as_str()) {
                (SubtaskState::Waiting, _) if !open.is_empty() => format!(" · after {}", open.join(", ")),
                (_, "") => String::new(),
                (_, note) => format!(" · {note}"),
            };
            let description = description.lines().next().unwrap_or_default();
            let mark = branch.state.mark();
            // The activity takes up to half of the line; the description is cut first.
            let room = width.saturating_sub(note.chars().count().min(width / 2));
            let head = cut(&format!("{connector} {mark} {id} {agent}: {description}"), room);
            lines.push(head + &note);
        }
        lines.into_iter().map(|line| cut(&line, width.saturating_sub(1))).collect()
    }

    /// Returns as many subtasks as fit into `room` lines, leaving out ended ones first.
    fn visible(&self, room: usize) -> Vec<&Branch> {
        let mut surplus = self.branches.len().saturating_sub(room);
        let mut visible: Vec<&Branch> = self.branches.iter().collect();
        visible.retain(|branch| {
            let is_left_out =
                surplus > 0 && matches!(branch.state, SubtaskState::Done | SubtaskState::Failed);
            surplus -= usize::from(is_left_out);
            !is_left_out
        });
        visible.truncate(room);
        visible
    }

    fn branch(&mut self, id: &str) -> Option<&mut Branch> {
        self.branches.iter_mut().find(|branch| branch.subtask.id == id)
    }
}

/// Returns the subtask id of a call id: `1.t2.1` is the first attempt of `t2` under the first plan.
fn subtask_of(call_id: &str) -> Option<&str> {
    let (_, rest) = call_id.split_once('.')?;
    rest.rsplit_once('.').map(|(id, _)| id)
}

/// Formats a subtask with its agent and dependencies.
fn describe(subtask: &Subtask) -> String {
    let Subtask { id, agent, dependencies, .. } = subtask;
    if dependencies.is_empty() {
        format!("{id} ({agent})")
    } else {
        format!("{id} ({agent}, after {})", dependencies.join(" and "))
    }
}

/// Shortens a text to this many characters.
fn cut(text: &str, characters: usize) -> String {
    match text.char_indices().nth(characters) {
        None => text.to_owned(),
        Some(_) => {
            let kept: String = text.chars().take(characters.saturating_sub(1)).collect();
            format!("{kept}…")
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn event(value: Value) -> EventBody {
        serde_json::from_value(value).unwrap()
    }

    fn started(call_id: &str, session: &str) -> EventBody {
        event(
            json!({"event_type": "child_started", "call_id": call_id, "agent_name": "a", "child_session_id": session,
            "child_run_id": "run_000000000001", "execution_mode": "sync"}),
        )
    }

    #[test]
    fn tree_shows_state_and_activity_of_each_subtask() {
        let mut tree = Tree::default();
        assert!(tree.is_empty());
        let plan = json!({"event_type": "plan_created", "round": 1, "subtasks": [
            {"id": "t1", "description": "Find the events\nall of them", "agent": "researcher", "priority": 1},
            {"id": "t.2", "description": "Add a metric", "agent": "implementer", "dependencies": ["t1"], "priority": 5},
            {"id": "t3", "description": "Look", "agent": "reviewer", "priority": 5},
        ]});
        assert_eq!(
            tree.apply(&event(plan)).unwrap(),
            "plan 1: t1 (researcher), t.2 (implementer, after t1), t3 (reviewer)"
        );
        tree.apply(&started("1.t1.1", "ses_000000000001"));
        tree.apply(&started("1.t3.1", "ses_000000000003"));
        let session: SessionId = "ses_000000000001".parse().unwrap();
        tree.set_activity(&session, "fs:read src/main.rs");
        let end = json!({"event_type": "child_completed", "agent_name": "reviewer", "child_session_id": "ses_000000000003",
            "child_run_id": "run_000000000001", "status": "failed", "error": {"type": "timeout", "message": "too slow",
            "validation_errors": [], "last_output": null, "calls": 1, "retry_count": 0}});
        assert_eq!(tree.apply(&event(end)).unwrap(), "t3 (reviewer) failed: too slow (timeout)");
        assert_eq!(
            tree.lines("orchestrator", (60, 24)),
            [
                "orchestrator · 0 of 3 subtasks done",
                "├─ ▸ t1 researcher: Find the events · fs:read src/main.rs",
                "├─ · t.2 implementer: Add a metric · after t1",
                "└─ ✗ t3 reviewer: Look · too slow (timeout)",
            ]
        );
        let narrow = tree.lines("orchestrator", (24, 24));
        assert!(narrow.iter().all(|line| line.chars().count() < 24), "{narrow:?}");
        assert_eq!(narrow[1], "├─ ▸ t1 res… · fs:read…");
        let low = tree.lines("orchestrator", (60, 3));
        let marks: Vec<char> = low[1..].iter().filter_map(|line| line.chars().nth(3)).collect();
        assert_eq!(marks, ['▸', '·']);
    }

    #[test]
    fn second_plan_keeps_completed_subtasks() {
        let mut tree = Tree::default();
        let plan = |round: u32, id: &str| {
            event(json!({"event_type": "plan_created", "round": round, "reason": "b failed", "subtasks": [
                {"id": id, "description": "Do it", "agent": "a", "priority": 5}]}))
        };
        tree.apply(&plan(1, "a"));
        tree.apply(&started("1.a.1", "ses_000000000001"));
        let end = json!({"event_type": "child_completed", "agent_name": "a", "child_session_id": "ses_000000000001",
            "child_run_id": "run_000000000001", "status": "completed", "result_text": "Done."});
        tree.apply(&event(end));
        assert_eq!(tree.apply(&plan(2, "b")).unwrap(), "plan 2 (because b failed): b (a)");
        assert_eq!(
            tree.lines("lead", (80, 24)),
            ["lead · 1 of 2 subtasks done, plan 2", "├─ ✓ a a: Do it", "└─ · b a: Do it"]
        );
        // A child that belongs to no subtask changes nothing.
        assert_eq!(tree.apply(&started("call_7", "ses_000000000009")), None);
    }
}
