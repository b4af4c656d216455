//! The kinds of journal events.

use crate::EventBody;

/// Declares the kinds with their names, so that each is listed once.
macro_rules! event_kinds {
    ($($kind:ident => $name:literal),+ $(,)?) => {
        /// The kind of an event, without its data. The store keeps it in a column of its own.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[expect(missing_docs, reason = "the variants of `EventBody` have the same names and are documented")]
        pub enum EventKind {
            $($kind),+
        }

        impl EventKind {
            /// All kinds, in the order of the variants of [`EventBody`].
            pub const ALL: &[EventKind] = &[$(EventKind::$kind),+];

            /// Returns the name: `event_type` in the journal and the API.
            pub fn name(self) -> &'static str {
                match self {
                    $(EventKind::$kind => $name),+
                }
            }
        }

        impl EventBody {
            /// Returns the kind of the event.
            pub fn kind(&self) -> EventKind {
                match self {
                    $(EventBody::$kind { .. } => EventKind::$kind),+
                }
            }
        }
    };
}

event_kinds! {
    RunStart => "run_start",
    AttemptStarted => "attempt_started",
    ToolsFailed => "tools_failed",
    Message => "message",
    CallFailed => "call_failed",
    PreTool => "pre_tool",
    PostTool => "post_tool",
    ChildStarted => "child_started",
    ChildCompleted => "child_completed",
    PathsChecked => "paths_checked",
    PlanCreated => "plan_created",
    ClarityScored => "clarity_scored",
    ValidationFailed => "validation_failed",
    Escalated => "escalated",
    LeaseExpired => "lease_expired",
    DeadlineReached => "deadline_reached",
    StopRequested => "stop_requested",
    Result => "result",
    RunCompleted => "run_completed",
}

impl EventKind {
    /// Returns the kind with this name; `None` for unknown names.
    pub fn named(name: &str) -> Option<EventKind> {
        EventKind::ALL.iter().copied().find(|kind| kind.name() == name)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn names_are_those_that_serde_reads_and_writes() {
        let refusal = serde_json::from_value::<EventBody>(json!({"event_type": "unknown"})).unwrap_err();
        let refusal = refusal.to_string();
        let accepted: Vec<&str> = refusal.split('`').skip(3).step_by(2).collect();
        let names: Vec<&str> = EventKind::ALL.iter().map(|kind| kind.name()).collect();
        assert_eq!(names, accepted, "{refusal}");
        assert!(EventKind::ALL.iter().all(|kind| EventKind::named(kind.name()) == Some(*kind)));
    }

    #[test]
    fn kind_of_an_event_is_its_event_type() {
        let body = EventBody::StopRequested { partial: None };
        let written: Value = serde_json::to_value(&body).unwrap();
        assert_eq!(written["event_type"], body.kind().name());
    }
}
