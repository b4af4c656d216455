//! Selects the answer from the candidates.

use serde_json::Value;
use slipform_schema::{Schema, Types, Violations, json_path, unescape_pointer};

use crate::coerce::{STEPS_MAX, coerce};
use crate::options::Mode;
use crate::outcome::{Extraction, Outcome, violation};
use crate::parse::{Document, Repairs};
use crate::repair::{Repair, RepairKind};
use crate::scan::{Confidence, Found};

/// The most candidates validated against a schema. The array of all documents is always tried; further single
/// documents are not.
const CANDIDATES_MAX: usize = 64;

/// A value that may be the answer.
#[derive(Debug, Clone)]
pub(crate) struct Candidate {
    pub(crate) value: Value,
    pub(crate) repairs: Repairs,
    pub(crate) confidence: Confidence,
    pub(crate) depth: usize,
}

impl Candidate {
    fn from_document(document: Document, confidence: Confidence) -> Candidate {
        Candidate { value: document.value, repairs: document.repairs, confidence, depth: document.depth }
    }

    pub(crate) fn into_extraction(self) -> Extraction {
        Extraction { value: self.value, repairs: self.repairs.list }
    }
}

/// Returns each found document as a candidate, and all documents of the highest confidence as an array.
/// Without a schema it returns only that array, or the only document.
pub(crate) fn candidates(mut found: Vec<Found>, has_schema: bool) -> Vec<Candidate> {
    let Some(best) = found.iter().map(|found| found.confidence).max() else { return Vec::new() };
    if !has_schema {
        found.retain(|found| found.confidence == best);
        if found.len() > 1 {
            return vec![list(found, best)];
        }
    }
    let is_best = |found: &&Found| found.confidence == best;
    let list = (found.iter().filter(is_best).count() > 1)
        .then(|| list(found.iter().filter(is_best).cloned().collect(), best));
    let mut all: Vec<Candidate> =
        found.into_iter().map(|found| Candidate::from_document(found.document, found.confidence)).collect();
    // The sort is stable, so candidates of equal confidence stay in text order.
    all.sort_by_key(|candidate| std::cmp::Reverse(candidate.confidence));
    all.extend(list);
    all
}

fn list(found: Vec<Found>, confidence: Confidence) -> Candidate {
    let mut repairs = Repairs::default();
    repairs.push(root_repair(RepairKind::DocumentsListed));
    let mut values = Vec::with_capacity(found.len());
    let mut depth = 0;
    for (index, Found { document, .. }) in found.into_iter().enumerate() {
        for repair in document.repairs.list {
            repairs.push(Repair { pointer: format!("/{index}{}", repair.pointer), ..repair });
        }
        repairs.lossy |= document.repairs.lossy;
        depth = depth.max(document.depth);
        values.push(document.value);
    }
    Candidate { value: Value::Array(values), repairs, confidence, depth: depth + 1 }
}

/// Returns the outcome without a schema: the only document, or the array of all.
pub(crate) fn without_schema(candidates: Vec<Candidate>, mode: Mode) -> Option<Outcome> {
    let is_list = |candidate: &Candidate| has_kind(candidate, RepairKind::DocumentsListed);
    let best = candidates.iter().map(|candidate| candidate.confidence).max()?;
    let several = candidates.iter().any(|candidate| candidate.confidence == best && is_list(candidate));
    let chosen = candidates
        .into_iter()
        .find(|candidate| candidate.confidence == best && is_list(candidate) == several)?;
    Some(finish(chosen, mode, Violations::default()))
}

/// Returns the outcome with a schema: the cheapest candidate that satisfies it, else the closest.
pub(crate) fn with_schema(candidates: Vec<Candidate>, schema: &Schema, mode: Mode) -> Option<Outcome> {
    let is_list = |candidate: &Candidate| has_kind(candidate, RepairKind::DocumentsListed);
    let (lists, mut tried): (Vec<Candidate>, Vec<Candidate>) = candidates.into_iter().partition(is_list);
    tried.truncate(CANDIDATES_MAX);
    let several = !lists.is_empty();
    let types = schema.shape().types();
    if types.contains(Types::ARRAY) && !types.intersects(Types::OBJECT) {
        // The array of all documents comes first, because choosing one would lose the others.
        if let Some(valid) = satisfying(&lists, schema, mode) {
            return Some(Outcome::Valid(valid.into_extraction()));
        }
    }
    tried.extend(lists);
    if let Some(mut valid) = satisfying(&tried, schema, mode).filter(|valid| !(several && is_wrapped(valid)))
    {
        if several && !is_list(&valid) && !has_kind(&valid, RepairKind::TextTaken) {
            valid.repairs.list.insert(0, root_repair(RepairKind::DocumentChosen));
        }
        return Some(Outcome::Valid(valid.into_extraction()));
    }
    let closest = tried.into_iter().enumerate().map(|(index, candidate)| {
        let violations = schema.violations(&candidate.value);
        let lossy = mode == Mode::Strict && candidate.repairs.lossy;
        (violations.total() + usize::from(lossy), index, candidate, violations)
    });
    let (_, _, candidate, violations) = closest.min_by_key(|(total, index, ..)| (*total, *index))?;
    Some(finish(candidate, mode, violations))
}

/// Returns the cheapest candidate that satisfies the schema, in lenient mode also after coercion.
fn satisfying(tried: &[Candidate], schema: &Schema, mode: Mode) -> Option<Candidate> {
    let mut best: Option<(u32, &Candidate)> = None;
    for candidate in tried {
        let allowed = mode == Mode::Lenient || !candidate.repairs.lossy;
        if allowed && schema.is_valid_at_depth(&candidate.value, candidate.depth) {
            let cost = total_cost(candidate);
            if best.is_none_or(|(lowest, _)| cost < lowest) {
                best = Some((cost, candidate));
            }
            if cost == 0 {
                break;
            }
        }
    }
    let cost = best.map(|(cost, _)| cost);
    let coerced = if mode == Mode::Lenient { cheapest_coerced(tried, schema, cost) } else { None };
    coerced.or_else(|| best.map(|(_, candidate)| candidate.clone()))
}

/// Returns the cheapest candidate that satisfies the schema after coercion, if it costs less than `below`.
fn cheapest_coerced(tried: &[Candidate], schema: &Schema, below: Option<u32>) -> Option<Candidate> {
    let shape = schema.shape();
    let mut steps_left = STEPS_MAX;
    let mut best: Option<(u32, Candidate)> = None;
    for candidate in tried {
        let limit = best.as_ref().map(|(cost, _)| *cost).or(below);
        if limit.is_some_and(|limit| total_cost(candidate) >= limit) {
            continue;
        }
        let Some((value, repairs)) = coerce(&candidate.value, &shape, &mut steps_left) else { continue };
        let mut coerced = Candidate {
            value,
            repairs: candidate.repairs.clone(),
            confidence: candidate.confidence,
            depth: candidate.depth,
        };
        for repair in repairs.list {
            coerced.repairs.push(repair);
        }
        let cost = total_cost(&coerced);
        if limit.is_none_or(|limit| cost < limit) && schema.is_valid(&coerced.value) {
            best = Some((cost, coerced));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// Returns whether coercion wrapped the candidate in an array.
fn is_wrapped(candidate: &Candidate) -> bool {
    candidate
        .repairs
        .list
        .iter()
        .any(|repair| repair.kind == RepairKind::ArrayWrapped && repair.pointer.is_empty())
}

fn root_repair(kind: RepairKind) -> Repair {
    Repair { kind, pointer: String::new(), from: Value::Null, to: Value::Null }
}

/// Returns the cost of a candidate: its repairs, plus a penalty for low confidence.
fn total_cost(candidate: &Candidate) -> u32 {
    let surroundings = match candidate.confidence {
        Confidence::Marked => 0,
        Confidence::Prose => 2,
        Confidence::Weak => 6,
        Confidence::Reasoning => 30,
    };
    candidate.repairs.cost.saturating_add(surroundings)
}

fn has_kind(candidate: &Candidate, kind: RepairKind) -> bool {
    candidate.repairs.list.first().is_some_and(|repair| repair.kind == kind)
}

/// Builds the outcome of the selected candidate. In strict mode, lossy repairs are violations.
fn finish(candidate: Candidate, mode: Mode, mut violations: Violations) -> Outcome {
    if mode == Mode::Strict && candidate.repairs.lossy {
        // A cut-off document has one `Completed` repair per open bracket; report one.
        let mut cut_named = false;
        let lossy: Vec<_> = candidate
            .repairs
            .list
            .iter()
            .filter(|repair| !repair.kind.is_lossless())
            .filter(|repair| repair.kind != RepairKind::Completed || !std::mem::replace(&mut cut_named, true))
            .map(|repair| violation(path_of(&repair.pointer, &candidate.value), syntax_message(repair)))
            .collect();
        violations.list.splice(0..0, lossy);
        violations.more += violations.list.len().saturating_sub(slipform_schema::VIOLATIONS_MAX);
        violations.list.truncate(slipform_schema::VIOLATIONS_MAX);
    }
    if violations.is_empty() {
        return Outcome::Valid(candidate.into_extraction());
    }
    Outcome::Invalid { candidate: candidate.into_extraction(), violations }
}

/// Returns the violation message for a lossy repair that strict mode does not allow.
fn syntax_message(repair: &Repair) -> String {
    let found = repair.from.as_str().map(|from| format!(", found {from}")).unwrap_or_default();
    match repair.kind {
        RepairKind::Completed => "the text ends before the document does; send the whole document".to_owned(),
        RepairKind::QuoteGuessed => {
            "it is not clear where this string ends; escape quotes inside it as \\\"".to_owned()
        }
        RepairKind::EscapeGuessed => {
            "backslashes in this string are ambiguous; write each of them twice".to_owned()
        }
        RepairKind::QuoteAdded => "this string has no closing quote".to_owned(),
        RepairKind::ValueQuoted | RepairKind::TextKept => {
            format!("this is not a JSON value, quote it{found}")
        }
        RepairKind::SpecialNumber => format!("JSON has no such number{found}"),
        RepairKind::NumberRounded => {
            format!("this number does not fit into 64 bits, write it as a string{found}")
        }
        RepairKind::RadixChanged => format!("JSON numbers are decimal{found}"),
        RepairKind::DuplicateRemoved => "this key stands twice with different values".to_owned(),
        RepairKind::NullAdded => "this key has no value".to_owned(),
        RepairKind::CharacterReplaced => "this text is not valid Unicode".to_owned(),
        kind => format!(
            "not valid JSON here; reading it would mean: {}{found}",
            kind.describe().trim_end_matches('.').to_lowercase()
        ),
    }
}

/// Converts a JSON Pointer into `value` to JSONPath.
fn path_of(pointer: &str, value: &Value) -> String {
    use slipform_schema::Segment;
    let mut at = Some(value);
    let segments: Vec<Segment> = pointer
        .split('/')
        .skip(1)
        .map(|token| {
            let key = unescape_pointer(token);
            let segment = match at {
                Some(Value::Array(_)) => key.parse().map_or(Segment::Key(key.clone()), Segment::Index),
                _ => Segment::Key(key.clone()),
            };
            at = match (&segment, at) {
                (Segment::Index(index), Some(value)) => value.get(*index),
                (Segment::Key(key), Some(value)) => value.get(key),
                _ => None,
            };
            segment
        })
        .collect();
    json_path(&segments)
}
