//! The escalation ladder: the tiers of a run, its position on them and the planned model call.

use slipform_types::{BackendInfo, Limits, RunErrorType, TierBackend};

use crate::call_plan::{CallPlan, PlannedCall, RequestKind};
use crate::output_mode::{OutputMode, Route};
use crate::prompt::Form;
use crate::reply::Rejection;

/// The escalation ladder of a run. Empty until the first attempt begins, and for programs.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ladder {
    tiers: Vec<TierBackend>,
    pub(crate) rung: RungState,
    /// The next model call. `None` while a call is decided on, and while the run waits for tools,
    /// children or checks.
    pub(crate) call: Option<PlannedCall>,
}

/// The position of the run on its escalation ladder.
#[derive(Debug, Clone, Default)]
pub(crate) struct RungState {
    pub(crate) index: usize,
    routes: Vec<Route>,
    at: usize,
    /// Retries since the run entered this rung, or since the last step that made progress.
    pub(crate) retries: u32,
    /// Whether a patch correction was already requested.
    pub(crate) has_tried_patch: bool,
    /// Whether the model was already reminded to call the tool.
    pub(crate) has_reminded: bool,
    /// Why the answer on an earlier route of this rung was rejected.
    pub(crate) unmet: Option<Rejection>,
}

impl RungState {
    /// Begins to count retries again, after progress.
    pub(crate) fn reset_retries(&mut self) {
        self.retries = 0;
        self.has_tried_patch = false;
    }
}

impl Ladder {
    /// Creates the ladder of an attempt. The run is not on a rung before [`Ladder::enter`].
    pub(crate) fn new(tiers: &[TierBackend]) -> Ladder {
        Ladder { tiers: tiers.to_vec(), ..Ladder::default() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.tiers.is_empty()
    }

    pub(crate) fn tier(&self, index: usize) -> Option<&TierBackend> {
        self.tiers.get(index)
    }

    /// Returns the tier to escalate to, if one is left.
    pub(crate) fn next_tier(&self) -> Option<&TierBackend> {
        self.tier(self.next_index(RunErrorType::OutputSchemaValidationFailed)?)
    }

    /// Returns the index of the next rung after a failure of this kind. After a failed call, rungs on the current backend are
    /// skipped: a backend that cannot be used on one tier cannot be used on another. Fallbacks are for outages only: another
    /// backend must not hide a wrong key or an unmet contract.
    pub(crate) fn next_index(&self, kind: RunErrorType) -> Option<usize> {
        let current = &self.backend()?.name;
        let is_allowed = |tier: &TierBackend| match kind {
            RunErrorType::BackendUnavailable => tier.backend.name != *current,
            RunErrorType::BackendRejected => tier.backend.name != *current && !tier.is_fallback,
            _ => !tier.is_fallback,
        };
        let first = self.rung.index + 1;
        self.tiers.iter().skip(first).position(is_allowed).map(|offset| first + offset)
    }

    /// Returns the backend of the current rung.
    pub(crate) fn backend(&self) -> Option<&BackendInfo> {
        self.tier(self.rung.index).map(|tier| &tier.backend)
    }

    /// Enters a rung and plans its first call on the first of these routes.
    pub(crate) fn enter(&mut self, index: usize, routes: Vec<Route>, form: Form, limits: &Limits) {
        let Some(first) = routes.first().copied() else { return };
        self.rung = RungState { index, routes, ..RungState::default() };
        let plan = CallPlan {
            mode: first.mode,
            protocol: first.protocol,
            form,
            request_kind: RequestKind::First,
            budget: self.first_budget(limits),
            narrow: None,
            is_retry: false,
        };
        self.call = Some(plan.into());
    }

    /// Returns the token budget of a first request on the current rung.
    fn first_budget(&self, limits: &Limits) -> Option<u32> {
        match (limits.max_tokens, self.backend()?.max_tokens) {
            (Some(wanted), Some(most)) => Some(wanted.min(most)),
            (wanted, most) => wanted.or(most),
        }
    }

    /// Returns the plan of a request that is not a retry, on the same route as an earlier one.
    pub(crate) fn fresh(&self, plan: CallPlan, limits: &Limits) -> CallPlan {
        let budget = self.first_budget(limits);
        CallPlan { request_kind: RequestKind::First, narrow: None, is_retry: false, budget, ..plan }
    }

    /// Returns the route after one that failed.
    pub(crate) fn next_route(&mut self) -> Option<Route> {
        let next = *self.rung.routes.get(self.rung.at + 1)?;
        self.rung.at += 1;
        Some(next)
    }

    /// Returns the route after one whose reply was empty: tools, if they were not tried yet, because some models
    /// answer only through them.
    pub(crate) fn next_route_after_silence(&mut self) -> Option<Route> {
        let rest = self.rung.routes.get(self.rung.at + 1..)?;
        if let Some(offset) = rest.iter().position(|route| route.mode == OutputMode::Tool) {
            self.rung.at += offset;
        }
        self.next_route()
    }
}
