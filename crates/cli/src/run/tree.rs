//! The subtasks of an orchestration as a tree, drawn anew whenever something happens.

use std::collections::HashMap;

use slipform_types::{EventBody, SessionId, Subtask};

/// The subtasks of a run.
#[derive(Debug, Default)]
pub(super) struct Tree {
    round: u32,
    branches: Vec<Branch>,
    /// Which subtask a session works on.
    sessions: HashMap<SessionId, String>,
}

#[derive(Debug)]
struct Branch {
    subtask: Subtask,
    stand: Stand,
    /// What its agent is doing, or what became of it.
    note: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stand {
    Waiting,
    Working,
    Done,
    Failed,
}

impl Stand {
    fn mark(self) -> char {
        match self {
            Stand::Waiting => '·',
            Stand::Working => '▸',
            Stand::Done => '✓',
            Stand::Failed => '✗',
        }
    }
}

impl Tree {
    /// Takes in what happened to the orchestrator's run; what that means, in a line for a log.
    pub(super) fn happened(&mut self, body: &EventBody) -> Option<String> {
        match body {
            EventBody::PlanCreated { round, reason, subtasks } => {
                self.round = *round;
                self.branches.retain(|branch| branch.stand == Stand::Done);
                self.branches.extend(subtasks.iter().cloned().map(|subtask| Branch {
                    subtask,
                    stand: Stand::Waiting,
                    note: String::new(),
                }));
                let list: Vec<String> = subtasks.iter().map(described).collect();
                let why = reason.as_ref().map(|reason| format!(" (since {reason})")).unwrap_or_default();
                Some(format!("plan {round}{why}: {}", list.join(", ")))
            }
            EventBody::ChildStarted { call_id, child_session_id, .. } => {
                let id = subtask_of(call_id)?;
                self.sessions.insert(child_session_id.clone(), id.to_owned());
                let branch = self.branch(id)?;
                (branch.stand, branch.note) = (Stand::Working, String::new());
                Some(format!("{id} ({}) begins ({child_session_id})", branch.subtask.agent))
            }
            EventBody::PostTool { call_id, error: Some(error), .. } => {
                let id = subtask_of(call_id)?;
                let branch = self.branch(id)?;
                (branch.stand, branch.note) = (Stand::Failed, error.clone());
                Some(format!("{id} ({}) cannot begin: {error}", branch.subtask.agent))
            }
            EventBody::ChildCompleted(end) => {
                let id = self.sessions.get(&end.child_session_id)?.clone();
                let branch = self.branch(&id)?;
                let agent = branch.subtask.agent.clone();
                match end.done() {
                    Ok(_) => {
                        (branch.stand, branch.note) = (Stand::Done, String::new());
                        Some(format!("{id} ({agent}) is done"))
                    }
                    Err(failure) => {
                        let failure = failure.replace("\n- ", "; ");
                        (branch.stand, branch.note) = (Stand::Failed, failure.clone());
                        Some(format!("{id} ({agent}) has failed: {failure}"))
                    }
                }
            }
            _ => None,
        }
    }

    /// Notes what the agent of a session is doing.
    pub(super) fn doing(&mut self, session: &SessionId, what: &str) {
        if let Some(id) = self.sessions.get(session).cloned()
            && let Some(branch) = self.branch(&id).filter(|branch| branch.stand == Stand::Working)
        {
            what.clone_into(&mut branch.note);
        }
    }

    /// Whether there is nothing to draw.
    pub(super) fn is_empty(&self) -> bool {
        self.branches.is_empty()
    }

    /// The tree below its agent, a line each, none longer than this and no more than fit below each other.
    pub(super) fn lines(&self, agent: &str, (width, height): (usize, usize)) -> Vec<String> {
        let done = self.branches.iter().filter(|branch| branch.stand == Stand::Done).count();
        let plan = if self.round > 1 { format!(", plan {}", self.round) } else { String::new() };
        let mut lines = vec![format!("{agent} · {done} of {} subtasks are done{plan}", self.branches.len())];
        let shown = self.shown(height.saturating_sub(1).max(1));
        for (index, branch) in shown.iter().enumerate() {
            let twig = if index + 1 == shown.len() { "└─" } else { "├─" };
            let Subtask { id, agent, description, dependencies, .. } = &branch.subtask;
            let is_open = |id: &&String| {
                self.branches.iter().any(|other| other.subtask.id == **id && other.stand != Stand::Done)
            };
            let open: Vec<&str> = dependencies.iter().filter(is_open).map(String::as_str).collect();
            let note = match (branch.stand, branch.note.as_str()) {
                (Stand::Waiting, _) if !open.is_empty() => format!(" · after {}", open.join(", ")),
                (_, "") => String::new(),
                (_, note) => format!(" · {note}"),
            };
            let description = description.lines().next().unwrap_or_default();
            let mark = branch.stand.mark();
            // What goes on is more worth reading than what was wanted, where there is no room for both.
            let room = width.saturating_sub(note.chars().count().min(width / 2));
            let head = cut(&format!("{twig} {mark} {id} {agent}: {description}"), room);
            lines.push(head + &note);
        }
        lines.into_iter().map(|line| cut(&line, width.saturating_sub(1))).collect()
    }

    /// As many subtasks as there is room for: what is over is left out first.
    fn shown(&self, room: usize) -> Vec<&Branch> {
        let mut surplus = self.branches.len().saturating_sub(room);
        let mut shown: Vec<&Branch> = self.branches.iter().collect();
        shown.retain(|branch| {
            let is_left_out = surplus > 0 && matches!(branch.stand, Stand::Done | Stand::Failed);
            surplus -= usize::from(is_left_out);
            !is_left_out
        });
        shown.truncate(room);
        shown
    }

    fn branch(&mut self, id: &str) -> Option<&mut Branch> {
        self.branches.iter_mut().find(|branch| branch.subtask.id == id)
    }
}

/// The subtask that a call is for: `1.t2.1` is the first try of `t2` under the first plan.
fn subtask_of(call_id: &str) -> Option<&str> {
    let (_, rest) = call_id.split_once('.')?;
    rest.rsplit_once('.').map(|(id, _)| id)
}

fn described(subtask: &Subtask) -> String {
    let Subtask { id, agent, dependencies, .. } = subtask;
    match dependencies.is_empty() {
        true => format!("{id} ({agent})"),
        false => format!("{id} ({agent}, after {})", dependencies.join(" and ")),
    }
}

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
    fn a_tree_shows_who_waits_works_failed_and_is_done() {
        let mut tree = Tree::default();
        assert!(tree.is_empty());
        let plan = json!({"event_type": "plan_created", "round": 1, "subtasks": [
            {"id": "t1", "description": "Find the events\nall of them", "agent": "researcher", "priority": 1},
            {"id": "t.2", "description": "Add a metric", "agent": "implementer", "dependencies": ["t1"], "priority": 5},
            {"id": "t3", "description": "Look", "agent": "reviewer", "priority": 5},
        ]});
        assert_eq!(
            tree.happened(&event(plan)).unwrap(),
            "plan 1: t1 (researcher), t.2 (implementer, after t1), t3 (reviewer)"
        );
        tree.happened(&started("1.t1.1", "ses_000000000001"));
        tree.happened(&started("1.t3.1", "ses_000000000003"));
        let session: SessionId = "ses_000000000001".parse().unwrap();
        tree.doing(&session, "fs:read src/main.rs");
        let end = json!({"event_type": "child_completed", "agent_name": "reviewer", "child_session_id": "ses_000000000003",
            "child_run_id": "run_000000000001", "status": "failed", "error": {"type": "timeout", "message": "too slow",
            "validation_errors": [], "last_output": null, "calls": 1, "retry_count": 0}});
        assert_eq!(tree.happened(&event(end)).unwrap(), "t3 (reviewer) has failed: too slow (timeout)");
        assert_eq!(
            tree.lines("orchestrator", (60, 24)),
            [
                "orchestrator · 0 of 3 subtasks are done",
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
    fn another_plan_keeps_what_is_done() {
        let mut tree = Tree::default();
        let plan = |round: u32, id: &str| {
            event(json!({"event_type": "plan_created", "round": round, "reason": "b failed", "subtasks": [
                {"id": id, "description": "Do it", "agent": "a", "priority": 5}]}))
        };
        tree.happened(&plan(1, "a"));
        tree.happened(&started("1.a.1", "ses_000000000001"));
        let end = json!({"event_type": "child_completed", "agent_name": "a", "child_session_id": "ses_000000000001",
            "child_run_id": "run_000000000001", "status": "completed", "result_text": "Done."});
        tree.happened(&event(end));
        assert_eq!(tree.happened(&plan(2, "b")).unwrap(), "plan 2 (since b failed): b (a)");
        assert_eq!(
            tree.lines("lead", (80, 24)),
            ["lead · 1 of 2 subtasks are done, plan 2", "├─ ✓ a a: Do it", "└─ · b a: Do it"]
        );
        // A child that belongs to no subtask is somebody else's.
        assert_eq!(tree.happened(&started("call_7", "ses_000000000009")), None);
    }
}
