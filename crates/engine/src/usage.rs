//! What a run has used and gathered so far: the stuff of receipts and salvage.

use serde_json::Value;
use slipform_schema::{Violations, parse_json_path};
use slipform_types::{Receipt, Repair, Reply, Rung, Salvage, Tokens};

use crate::contract::Enforced;
use crate::patch::remove;

/// The account of one run.
#[derive(Debug, Clone, Default)]
pub(crate) struct UsageLog {
    pub(crate) calls: u32,
    pub(crate) retries: u32,
    /// Replies that were to call `submit_result` and did not.
    pub(crate) missing_submits: u32,
    pub(crate) tokens: Tokens,
    /// How the latest call asked; none before the first.
    pub(crate) strategy: Option<&'static str>,
    pub(crate) rungs: Vec<Rung>,
    /// Every reply as it was written.
    pub(crate) replies: Vec<String>,
    /// Documents that did not pass, in the order in which they came.
    pub(crate) candidates: Vec<Value>,
    best: Option<Best>,
    flags: Vec<String>,
    /// What the backends said of their answers so far.
    said: Vec<String>,
    unenforced: Vec<String>,
}

#[derive(Debug, Clone)]
struct Best {
    candidate: Value,
    violations: Violations,
}

impl UsageLog {
    /// A request was made on the current rung, whatever came of it.
    pub(crate) fn called(&mut self, is_retry: bool) {
        self.calls += 1;
        self.retries += u32::from(is_retry);
        if let Some(rung) = self.rungs.last_mut() {
            rung.calls += 1;
        }
    }

    pub(crate) fn replied(&mut self, reply: &Reply) {
        self.tokens.input += reply.usage.input;
        self.tokens.output += reply.usage.output;
        // What the engine could not ask for and what the backend could not do are the same to a reader.
        for keyword in &reply.unenforced {
            if !self.unenforced.contains(keyword) {
                self.unenforced.push(keyword.clone());
            }
        }
        self.said.extend(reply.flags.iter().cloned());
        let said = words(reply);
        // A model that only thought has written something all the same.
        self.replies.push(if said.is_empty() { reply.reasoning.clone() } else { said });
    }

    /// Keeps a document that did not pass.
    pub(crate) fn failed(&mut self, candidate: &Value, violations: &Violations) {
        self.candidates.push(candidate.clone());
        if self.best.as_ref().is_none_or(|best| violations.total() <= best.violations.total()) {
            self.best = Some(Best { candidate: candidate.clone(), violations: violations.clone() });
        }
    }

    /// Lets go of documents that were about something else.
    pub(crate) fn begin_anew(&mut self) {
        self.candidates.clear();
        self.best = None;
    }

    /// What a backend said of the answer that is accepted; of all answers where it was put together of several.
    pub(crate) fn flag_as_said(&mut self, reply: &Reply, together: bool) {
        let said = if together { std::mem::take(&mut self.said) } else { reply.flags.clone() };
        said.iter().for_each(|flag| self.flag(flag));
    }

    pub(crate) fn flag(&mut self, flag: &str) {
        if !self.flags.iter().any(|known| known == flag) {
            self.flags.push(flag.to_owned());
        }
    }

    /// What the backend could not be asked to enforce in the latest call.
    pub(crate) fn unenforced(&mut self, keywords: Vec<String>) {
        self.unenforced = keywords;
    }

    pub(crate) fn receipt(
        &self,
        strategy: Option<&str>,
        contract: Option<&Enforced>,
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
            schema_hash: contract.map(|enforced| enforced.contract.hash.clone()),
            unenforced: self.unenforced.clone(),
            flags: self.flags.clone(),
        }
    }

    /// Everything a failed run leaves.
    pub(crate) fn salvage(&self, contract: Option<&Enforced>) -> Salvage {
        let best = self.best.as_ref();
        Salvage {
            replies: self.replies.clone(),
            best_candidate: best.map(|best| best.candidate.clone()),
            valid_parts: best.and_then(|best| valid_parts(contract?, best)),
            errors: best.map(|best| best.violations.lines()).unwrap_or_default(),
        }
    }
}

/// What a reply said, with the arguments of its tool calls.
pub(crate) fn words(reply: &Reply) -> String {
    let mut parts: Vec<&str> = Vec::new();
    if !reply.text.trim().is_empty() {
        parts.push(&reply.text);
    }
    parts.extend(reply.tool_calls.iter().map(|call| call.arguments.as_str()));
    parts.join("\n")
}

/// How often parts are taken away before giving up: taking one away can only uncover a few others.
const ROUNDS_MAX: usize = 8;

/// What is left of a document when everything wrong is taken away. Missing parts stay missing.
fn valid_parts(contract: &Enforced, best: &Best) -> Option<Value> {
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

/// Places in an order in which removing a later one does not move an earlier one.
fn order(place: &[slipform_schema::Segment]) -> Vec<(String, usize)> {
    place
        .iter()
        .map(|segment| match segment {
            slipform_schema::Segment::Key(key) => (key.clone(), 0),
            slipform_schema::Segment::Index(index) => (String::new(), *index),
        })
        .collect()
}
