//! Usage data and rejected candidates of a run, from which receipts and salvage are built.

use serde_json::Value;
use slipform_schema::{Violations, parse_json_path};
use slipform_types::{CallError, Receipt, Repair, Reply, Rung, Salvage, Tokens};

use crate::contract::CompiledContract;
use crate::patch::remove;

/// The usage of one run.
#[derive(Debug, Clone, Default)]
pub(crate) struct UsageLog {
    pub(crate) calls: u32,
    pub(crate) retries: u32,
    /// Replies that should have called `submit_result` and did not.
    pub(crate) missing_submits: u32,
    pub(crate) tokens: Tokens,
    /// The failure of the latest call; `None` if it was answered.
    pub(crate) call_error: Option<CallError>,
    /// The strategy of the latest call; `None` before the first call.
    pub(crate) strategy: Option<&'static str>,
    pub(crate) rungs: Vec<Rung>,
    /// The text of every reply, unchanged.
    pub(crate) replies: Vec<String>,
    /// Documents that failed validation, oldest first.
    pub(crate) candidates: Vec<Value>,
    /// The criteria of the result that only the model decided.
    pub(crate) model_claims: Vec<String>,
    best: Option<BestCandidate>,
    flags: Vec<String>,
    /// The flags that backends set on replies so far.
    backend_flags: Vec<String>,
    unenforced: Vec<String>,
}

#[derive(Debug, Clone)]
struct BestCandidate {
    candidate: Value,
    violations: Violations,
}

impl UsageLog {
    /// Counts a call on the current rung, whether it succeeds or not.
    pub(crate) fn record_call(&mut self, is_retry: bool) {
        self.calls += 1;
        self.retries += u32::from(is_retry);
        if let Some(rung) = self.rungs.last_mut() {
            rung.calls += 1;
        }
    }

    /// Begins the count of a rung. Planning and summarizing on the same rung count as one entry in
    /// the receipt.
    pub(crate) fn enter_rung(&mut self, rung: Rung) {
        let is_same_rung = |last: &Rung| last.tier == rung.tier && last.backend == rung.backend;
        if !self.rungs.last().is_some_and(is_same_rung) {
            self.rungs.push(rung);
        }
    }

    /// Returns the number of calls on the current rung.
    pub(crate) fn calls_on_rung(&self) -> u32 {
        self.rungs.last().map_or(0, |rung| rung.calls)
    }

    pub(crate) fn record_reply(&mut self, reply: &Reply) {
        self.call_error = None;
        // Servers can report anything.
        self.tokens.input = self.tokens.input.saturating_add(reply.usage.input);
        self.tokens.output = self.tokens.output.saturating_add(reply.usage.output);
        // The receipt does not distinguish between keywords that were not sent and keywords that
        // the backend dropped.
        for keyword in &reply.unenforced {
            if !self.unenforced.contains(keyword) {
                self.unenforced.push(keyword.clone());
            }
        }
        self.backend_flags.extend(reply.flags.iter().cloned());
        let text = reply_text(reply);
        // A reply that holds only reasoning is kept as well.
        self.replies.push(if text.is_empty() { reply.reasoning.clone() } else { text });
    }

    /// Keeps a document that failed validation.
    pub(crate) fn record_invalid_candidate(&mut self, candidate: &Value, violations: &Violations) {
        self.candidates.push(candidate.clone());
        if self.best.as_ref().is_none_or(|best| violations.total() <= best.violations.total()) {
            self.best = Some(BestCandidate { candidate: candidate.clone(), violations: violations.clone() });
        }
    }

    /// Discards candidates of an earlier task, such as invalid plans.
    pub(crate) fn clear_candidates(&mut self) {
        self.candidates.clear();
        self.best = None;
    }

    /// Adds the backend flags of the accepted reply, or of all replies if the result was merged
    /// from several.
    pub(crate) fn add_backend_flags(&mut self, reply: &Reply, is_merged: bool) {
        let flags = if is_merged { std::mem::take(&mut self.backend_flags) } else { reply.flags.clone() };
        flags.iter().for_each(|flag| self.flag(flag));
    }

    pub(crate) fn flag(&mut self, flag: &str) {
        if !self.flags.iter().any(|known| known == flag) {
            self.flags.push(flag.to_owned());
        }
    }

    /// Sets the keywords that the backend was not asked to enforce in the latest call.
    pub(crate) fn set_unenforced(&mut self, keywords: Vec<String>) {
        self.unenforced = keywords;
    }

    pub(crate) fn receipt(
        &self,
        strategy: Option<&str>,
        contract: Option<&CompiledContract>,
        repairs: Vec<Repair>,
    ) -> Receipt {
        Receipt {
            strategy: strategy.map(str::to_owned),
            calls: self.calls,
            retries: self.retries,
            missing_submits: self.missing_submits,
            repairs,
            rungs: self.rungs.clone(),
            tokens: self.tokens,
            schema_hash: contract.map(|contract| contract.definition.hash.clone()),
            unenforced: self.unenforced.clone(),
            flags: self.flags.clone(),
            model_claims: self.model_claims.clone(),
            subtasks: Vec::new(),
        }
    }

    /// Returns the data that a failed run leaves behind.
    pub(crate) fn salvage(&self, contract: Option<&CompiledContract>) -> Salvage {
        let best = self.best.as_ref();
        Salvage {
            replies: self.replies.clone(),
            best_candidate: best.map(|best| best.candidate.clone()),
            valid_parts: best.and_then(|best| valid_parts(contract?, best)),
            errors: best.map(|best| best.violations.lines()).unwrap_or_default(),
            subtasks: Vec::new(),
        }
    }
}

/// Returns the text of a reply, followed by the arguments of its tool calls.
pub(crate) fn reply_text(reply: &Reply) -> String {
    let mut parts: Vec<&str> = Vec::new();
    if !reply.text.trim().is_empty() {
        parts.push(&reply.text);
    }
    parts.extend(reply.tool_calls.iter().map(|call| call.arguments.as_str()));
    parts.join("\n")
}

/// The maximum number of removal rounds for invalid parts. Removing one part can only expose a few
/// others.
const ROUNDS_MAX: usize = 8;

/// Returns a document without its invalid parts. Missing parts stay missing.
fn valid_parts(contract: &CompiledContract, best: &BestCandidate) -> Option<Value> {
    let mut value = best.candidate.clone();
    let mut violations = best.violations.clone();
    for _ in 0..ROUNDS_MAX {
        let mut places: Vec<_> =
            violations.list.iter().filter_map(|violation| parse_json_path(&violation.path)).collect();
        places.sort_by_cached_key(|place| std::cmp::Reverse(order(place)));
        let removed = places.iter().filter(|place| remove(&mut value, place).is_some()).count();
        if removed == 0 {
            break;
        }
        violations = contract.violations(&value);
    }
    let wrong_root = violations.list.iter().any(|violation| violation.path == "$" && !value.is_object());
    (!wrong_root).then_some(value)
}

/// Returns a sort key for paths. Removing paths in descending order does not move those that
/// remain.
fn order(place: &[slipform_schema::Segment]) -> Vec<(String, usize)> {
    place
        .iter()
        .map(|segment| match segment {
            slipform_schema::Segment::Key(key) => (key.clone(), 0),
            slipform_schema::Segment::Index(index) => (String::new(), *index),
        })
        .collect()
}
