//! Scripts: the replies of a server, in order.

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

/// A fixed reply for a method and a path. It consumes no step.
pub(crate) struct Route {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) step: Arc<Step>,
}

/// The replies to model requests in order of arrival, and the server's other routes.
pub struct Script {
    pub(crate) behaviour: Behaviour,
    pub(crate) routes: Vec<Route>,
    pub(crate) models: serde_json::Value,
    pub(crate) record: bool,
}

impl Script {
    /// Creates a script with one step per model request.
    pub fn new(steps: impl IntoIterator<Item = Step>) -> Self {
        let steps = steps.into_iter().map(Arc::new).collect();
        Self::with_behaviour(Behaviour::Steps { steps, repeat_last: false })
    }

    /// Creates a script whose replies depend on the request and the number of model requests before it. The
    /// closure runs on the server's thread and must not block, because a blocked server serves no other
    /// client. To wait, use [`Step::gate`].
    pub fn respond(responder: impl FnMut(&Recorded, usize) -> Step + Send + 'static) -> Self {
        Self::with_behaviour(Behaviour::Respond(Box::new(responder)))
    }

    fn with_behaviour(behaviour: Behaviour) -> Self {
        let script = Self { behaviour, routes: Vec::new(), models: serde_json::Value::Null, record: true };
        script.serving("scripted-model", "slipform")
    }

    /// Repeats the last step for all further requests.
    #[must_use]
    pub fn repeat_last(mut self) -> Self {
        if let Behaviour::Steps { repeat_last, .. } = &mut self.behaviour {
            *repeat_last = true;
        }
        self
    }

    /// Sets the only model in the list at `GET /v1/models`.
    #[must_use]
    pub fn serving(mut self, id: &str, owned_by: &str) -> Self {
        self.models = json!({
            "object": "list",
            "data": [{"id": id, "object": "model", "created": 0, "owned_by": owned_by}],
        });
        self
    }

    /// Adds a fixed reply for this method and path (without query). It takes precedence and consumes no step.
    /// Use it for a version endpoint or a missing `GET /v1/models`.
    #[must_use]
    pub fn route(mut self, method: &str, path: &str, step: Step) -> Self {
        self.routes.push(Route { method: method.to_owned(), path: path.to_owned(), step: Arc::new(step) });
        self
    }

    /// Counts requests without recording them, so that long benchmarks do not fill the memory.
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
