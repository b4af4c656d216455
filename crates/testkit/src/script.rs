//! What a server has to answer, in which order.

use std::fmt;
use std::sync::Arc;

use serde_json::json;

use crate::recorded::Recorded;
use crate::step::Step;

pub(crate) type Responder = Box<dyn FnMut(&Recorded, usize) -> Step + Send>;

pub(crate) enum Behaviour {
    Steps { steps: Vec<Arc<Step>>, repeat_last: bool },
    Respond(Responder),
}

/// A fixed reply for a method and a path, which takes no step.
pub(crate) struct Route {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) step: Arc<Step>,
}

/// The replies to model requests, in order of arrival, and what the server says of itself.
pub struct Script {
    pub(crate) behaviour: Behaviour,
    pub(crate) routes: Vec<Route>,
    pub(crate) models: serde_json::Value,
    pub(crate) record: bool,
}

impl Script {
    /// One step for each model request.
    pub fn new(steps: impl IntoIterator<Item = Step>) -> Self {
        let steps = steps.into_iter().map(Arc::new).collect();
        Self::of(Behaviour::Steps { steps, repeat_last: false })
    }

    /// A reply that depends on the request and on how many model requests came before it. Runs on the server's thread:
    /// while it blocks, nobody is served. To wait for something, see [`Step::gate`].
    pub fn respond(responder: impl FnMut(&Recorded, usize) -> Step + Send + 'static) -> Self {
        Self::of(Behaviour::Respond(Box::new(responder)))
    }

    fn of(behaviour: Behaviour) -> Self {
        let script = Self { behaviour, routes: Vec::new(), models: serde_json::Value::Null, record: true };
        script.serving("scripted-model", "slipform")
    }

    /// Answers everything after the last step with the last step.
    #[must_use]
    pub fn repeat_last(mut self) -> Self {
        if let Behaviour::Steps { repeat_last, .. } = &mut self.behaviour {
            *repeat_last = true;
        }
        self
    }

    /// The one model in the list at `GET /v1/models`.
    #[must_use]
    pub fn serving(mut self, id: &str, owned_by: &str) -> Self {
        self.models = json!({
            "object": "list",
            "data": [{"id": id, "object": "model", "created": 0, "owned_by": owned_by}],
        });
        self
    }

    /// A fixed reply for this method and path (without query), which takes no step and goes before everything else: a
    /// server's version, or a `GET /v1/models` that is not there.
    #[must_use]
    pub fn route(mut self, method: &str, path: &str, step: Step) -> Self {
        self.routes.push(Route { method: method.to_owned(), path: path.to_owned(), step: Arc::new(step) });
        self
    }

    /// Counts requests without keeping them, so that a long measurement does not fill the memory.
    #[must_use]
    pub fn without_record(mut self) -> Self {
        self.record = false;
        self
    }
}

impl fmt::Debug for Script {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = formatter.debug_struct("Script");
        match &self.behaviour {
            Behaviour::Steps { steps, repeat_last } => {
                debug.field("steps", steps).field("repeat_last", repeat_last)
            }
            Behaviour::Respond(_) => debug.field("respond", &"…"),
        };
        debug.finish_non_exhaustive()
    }
}

impl<const N: usize> From<[Step; N]> for Script {
    fn from(steps: [Step; N]) -> Self {
        Self::new(steps)
    }
}

impl From<Vec<Step>> for Script {
    fn from(steps: Vec<Step>) -> Self {
        Self::new(steps)
    }
}

impl From<Step> for Script {
    fn from(step: Step) -> Self {
        Self::new([step])
    }
}
