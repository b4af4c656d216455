//! Settings of a single run.

use serde::{Deserialize, Serialize};

use crate::{Limits, Sampling, TraceParent};

/// Settings that a caller chooses for one run. They take precedence over the agent's and the runner's.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct RunOverrides {
    /// The backend for all tiers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
    /// The model that requests to the backend name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The most tokens in a reply; at least 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// The time limit of the run; at least 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<u32>,
    /// The caller's position in its trace, which the spans of the run continue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_parent: Option<TraceParent>,
    /// The sampling parameters of requests to models.
    #[serde(default, skip_serializing_if = "Sampling::is_empty")]
    pub sampling: Sampling,
}

impl RunOverrides {
    /// Returns whether nothing is overridden.
    pub fn is_empty(&self) -> bool {
        *self == RunOverrides::default()
    }

    /// Returns the limits of the run: those of its agent, unless the caller chose others.
    pub fn limits(&self, own: &Limits) -> Limits {
        Limits {
            max_tokens: self.max_tokens.or(own.max_tokens),
            timeout_seconds: self.timeout_seconds.or(own.timeout_seconds),
            ..own.clone()
        }
    }

    /// Returns the overrides for child runs: they use the same backend, with its model, but have their own budget and time
    /// limit, and they belong to the same trace. Without a backend, the model belongs to the backend of this run's agent.
    pub fn for_children(&self) -> RunOverrides {
        let model = self.model.clone().filter(|_| self.backend.is_some());
        let trace_parent = self.trace_parent.clone();
        RunOverrides { backend: self.backend.clone(), model, trace_parent, ..RunOverrides::default() }
    }
}
