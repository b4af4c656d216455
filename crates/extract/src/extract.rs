//! Extracts a value from a text: runs the steps and builds the outcome.

use serde_json::Value;
use slipform_schema::{Schema, Shape, Types};

use crate::choose::{self, Candidate};
use crate::coerce::is_grouped;
use crate::memory;
use crate::options::{Mode, Options};
use crate::outcome::{Extraction, Outcome, violation};
use crate::parse::{self, Repairs, excerpt};
use crate::reasoning;
use crate::repair::{Repair, RepairKind};
use crate::scan::{Confidence, Scan, is_blank, scan};
use crate::strict::{self, FailureReason, ReadFailure};

/// Finds the JSON in `text` that satisfies `schema`. Otherwise returns the closest candidate and its
/// violations.
pub fn extract(text: &str, schema: Option<&Schema>, options: &Options) -> Outcome {
    if text.len() > options.text_bytes_max {
        return Outcome::TooLong { bytes: text.len(), limit: options.text_bytes_max };
    }
    let limit = memory::limit(text.len());
    let (outcome, is_exceeded) = memory::within(limit, || extract_within(text, schema, options, limit));
    if is_exceeded { too_many_values(limit) } else { outcome }
}

/// The part of the memory limit that the values of one document may take if they are copied: to coerce them.
const COPIED_DIVISOR: usize = 5;

/// The part of the memory limit that all documents in a text may take with a schema. They are copied: each is a
/// candidate, and all together are one.
const FOUND_DIVISOR: usize = 5;

/// Extracts with a memory budget of `limit` bytes.
fn extract_within(text: &str, schema: Option<&Schema>, options: &Options, limit: usize) -> Outcome {
    if options.strict_json_only {
        return match exact(text, text, schema) {
            Outcome::NotFound { .. } if is_json_in_text(text) => {
                Outcome::NotFound { reason: TEXT_AROUND.to_owned() }
            }
            outcome => outcome,
        };
    }
    if !options.extract_json {
        return exact(text, text.trim(), schema);
    }
    let bare = text.trim_matches(|character: char| character.is_whitespace() || character == '\u{feff}');
    let whole = match bare.as_bytes().first() {
        Some(b'{' | b'[' | b'"' | b'-' | b'0'..=b'9' | b't' | b'f' | b'n') => strict::parse_whole(bare).ok(),
        _ => None,
    };
    if let Some(parsed) = &whole
        && schema.is_none_or(|schema| schema.is_valid_at_depth(&parsed.value, parsed.depth))
    {
        let mut repairs = Vec::new();
        if text.trim().len() != bare.len() {
            repairs.push(text_removed());
        }
        return Outcome::Valid(Extraction {
            value: whole.map(|parsed| parsed.value).unwrap_or_default(),
            repairs,
        });
    }
    if let Some(parsed) = whole {
        let used = limit - memory::left();
        if let Some(schema) = schema.filter(|_| used > limit / COPIED_DIVISOR) {
            // Neither coerced nor explained in full, which would take as much memory again.
            let violations = schema.first_violation(&parsed.value);
            let candidate = Extraction { value: parsed.value, repairs: Vec::new() };
            return Outcome::Invalid { candidate, violations };
        }
        let candidate = Candidate {
            value: parsed.value,
            repairs: Repairs::default(),
            confidence: Confidence::Marked,
            depth: parsed.depth,
        };
        let mut candidates = vec![candidate];
        candidates.extend(text_candidate(text, schema, options.mode, true));
        return decide(candidates, false, schema, options).unwrap_or_else(|| not_found(bare));
    }
    if memory::is_exceeded() {
        return not_found(bare);
    }
    memory::restore(if schema.is_some() { limit / FOUND_DIVISOR } else { limit });
    search(text.trim_start_matches('\u{feff}'), schema, options)
}

/// Returns the outcome for a text whose values need more memory than allowed. No part of it stands for the whole.
fn too_many_values(limit: usize) -> Outcome {
    let message = format!(
        "the JSON has more values than fit into the {} MiB allowed for a text of this length; send fewer values",
        limit / 1024 / 1024
    );
    Outcome::Invalid {
        candidate: Extraction { value: Value::Null, repairs: Vec::new() },
        violations: slipform_schema::Violations { list: vec![violation("$".to_owned(), message)], more: 0 },
    }
}

/// Extracts from bytes that may not be UTF-8. Strict mode refuses invalid UTF-8; lenient mode replaces it and
/// records a repair.
pub fn extract_bytes(bytes: &[u8], schema: Option<&Schema>, options: &Options) -> Outcome {
    if bytes.len() > options.text_bytes_max {
        return Outcome::TooLong { bytes: bytes.len(), limit: options.text_bytes_max };
    }
    let error = match std::str::from_utf8(bytes) {
        Ok(text) => return extract(text, schema, options),
        Err(error) => error,
    };
    let text = String::from_utf8_lossy(bytes);
    let is_exact = options.strict_json_only || !options.extract_json;
    if options.mode == Mode::Strict || is_exact {
        let message = format!("the text is not UTF-8: byte {} starts no character", error.valid_up_to());
        let candidate = match extract(&text, schema, options) {
            Outcome::Valid(extraction) | Outcome::Invalid { candidate: extraction, .. } => extraction,
            other => return other,
        };
        let violations =
            slipform_schema::Violations { list: vec![violation("$".to_owned(), message)], more: 0 };
        return Outcome::Invalid { candidate, violations };
    }
    let replaced = Repair {
        kind: RepairKind::CharacterReplaced,
        pointer: String::new(),
        from: Value::from(format!("invalid UTF-8 at byte {}", error.valid_up_to())),
        to: Value::Null,
    };
    match extract(&text, schema, options) {
        Outcome::Valid(mut extraction) => {
            extraction.repairs.push(replaced);
            Outcome::Valid(extraction)
        }
        other => other,
    }
}

/// The reason if a text has JSON, but not alone.
const TEXT_AROUND: &str = "there is text around the JSON, and only the JSON is allowed (strict_json_only)";

/// Returns whether a text that is not a document contains exact JSON beside other text.
fn is_json_in_text(text: &str) -> bool {
    let options = Options { strict_json_only: false, ..Options::default() };
    match extract(text, None, &options) {
        Outcome::Valid(Extraction { value, repairs }) => {
            let is_container = value.is_object() || value.is_array();
            is_container && repairs.iter().all(|repair| repair.kind == RepairKind::TextRemoved)
        }
        _ => false,
    }
}

/// Parses a text that must be one document, without any repair.
fn exact(text: &str, document: &str, schema: Option<&Schema>) -> Outcome {
    let parsed = match strict::parse_whole(document) {
        Ok(parsed) => parsed,
        Err(failure) => {
            let offset = document.as_ptr() as usize - text.as_ptr() as usize;
            return Outcome::NotFound {
                reason: describe(text, ReadFailure { at: failure.at + offset, ..failure }),
            };
        }
    };
    let violations = schema.map(|schema| schema.violations(&parsed.value)).unwrap_or_default();
    let candidate = Extraction { value: parsed.value, repairs: Vec::new() };
    if violations.is_empty() { Outcome::Valid(candidate) } else { Outcome::Invalid { candidate, violations } }
}

fn describe(text: &str, failure: ReadFailure) -> String {
    let before = &text.as_bytes()[..failure.at.min(text.len())];
    let line = before.iter().filter(|&&byte| byte == b'\n').count() + 1;
    let column = before.iter().rev().take_while(|&&byte| byte != b'\n').count() + 1;
    let what = match failure.reason {
        FailureReason::Syntax => "not valid JSON",
        FailureReason::End => "the document ends too early",
        FailureReason::Depth => "nested too deeply",
        FailureReason::Duplicate => "a key stands twice",
        FailureReason::Number => "a number that does not fit into 64 bits",
        FailureReason::Memory => "too many values for the memory limit",
        FailureReason::Surrogate => "half of a surrogate pair",
    };
    format!("the text is not one JSON document: {what} at line {line}, column {column}")
}

/// Searches a text that is not itself a document.
fn search(text: &str, schema: Option<&Schema>, options: &Options) -> Outcome {
    let split = reasoning::split(text);
    let has_schema = schema.is_some();
    let mut result = scan_escaped(split.answer, has_schema, options.mode);
    if result.found.is_empty() {
        result = match scan_unopened(split.answer, has_schema, options.mode) {
            Some(result) => result,
            None => scan(split.answer, has_schema, options.mode),
        };
    }
    if result.found.is_empty() {
        result.found = scan_quotation(split.answer, has_schema, options.mode).found;
    }
    if result.found.is_empty() && !is_blank(split.preamble) {
        result = scan(split.preamble, has_schema, options.mode);
    }
    let may_look_back = is_blank(split.answer) || options.mode == Mode::Lenient;
    if result.found.is_empty() && may_look_back && !split.reasoning.is_empty() {
        let Scan { mut found, is_too_deep } = scan(split.reasoning, has_schema, options.mode);
        for found in &mut found {
            found.confidence = Confidence::Reasoning;
        }
        result = Scan { found, is_too_deep };
    }
    let has_text_around = !split.reasoning.is_empty() || is_surrounded(split.answer, &result);
    let mut candidates = choose::candidates(result.found, has_schema);
    if candidates.is_empty() {
        candidates.extend(scalar_candidate(split.answer, schema, options.mode));
    }
    let has_documents = !candidates.is_empty();
    candidates.extend(text_candidate(split.answer, schema, options.mode, has_documents));
    if result.is_too_deep && candidates.is_empty() {
        let message = format!("nested deeper than the {} levels allowed", crate::NESTING_MAX);
        let violations =
            slipform_schema::Violations { list: vec![violation("$".to_owned(), message)], more: 0 };
        return Outcome::Invalid {
            candidate: Extraction { value: Value::Null, repairs: Vec::new() },
            violations,
        };
    }
    let decided = decide(candidates, has_text_around, schema, options);
    match decided {
        Some(Outcome::Invalid { .. }) if !has_documents => not_found(text),
        Some(outcome) => outcome,
        None => not_found(text),
    }
}

fn not_found(text: &str) -> Outcome {
    let reason = if text.trim().is_empty() { "the text is empty" } else { "the text holds no JSON document" };
    Outcome::NotFound { reason: reason.to_owned() }
}

fn decide(
    candidates: Vec<Candidate>,
    has_text_around: bool,
    schema: Option<&Schema>,
    options: &Options,
) -> Option<Outcome> {
    let open = schema.is_some_and(|schema| schema.shape().is_open());
    let mut outcome = match schema {
        Some(schema) if !open => choose::with_schema(candidates, schema, options.mode)?,
        _ => choose::without_schema(candidates, options.mode)?,
    };
    if let Some(schema) = schema.filter(|_| open)
        && let Outcome::Valid(extraction) = outcome
    {
        let violations = schema.violations(&extraction.value);
        outcome = if violations.is_empty() {
            Outcome::Valid(extraction)
        } else {
            Outcome::Invalid { candidate: extraction, violations }
        };
    }
    let (Outcome::Valid(extraction) | Outcome::Invalid { candidate: extraction, .. }) = &mut outcome else {
        return Some(outcome);
    };
    if has_text_around && !extraction.repairs.iter().any(|repair| repair.kind == RepairKind::TextTaken) {
        extraction.repairs.insert(0, text_removed());
    }
    Some(outcome)
}

/// Returns whether the text has anything but white space outside the documents.
fn is_surrounded(text: &str, scan: &Scan) -> bool {
    let mut from = 0;
    for found in &scan.found {
        if text.get(from..found.start).is_none_or(|gap| !gap.trim().is_empty()) {
            return true;
        }
        from = found.document.end;
    }
    !scan.found.is_empty() && text.get(from..).is_none_or(|rest| !rest.trim().is_empty())
}

fn text_removed() -> Repair {
    Repair { kind: RepairKind::TextRemoved, pointer: String::new(), from: Value::Null, to: Value::Null }
}

/// Scans `"key": …}`: the opening brace is missing because the model continued from a prefilled brace.
fn scan_unopened(text: &str, has_schema: bool, mode: Mode) -> Option<Scan> {
    let key = text.trim_start().strip_prefix('"')?;
    let (name, rest) = key.split_once('"')?;
    if name.is_empty() || name.contains('\n') || name.len() > 100 || !rest.trim_start().starts_with(':') {
        return None;
    }
    let mut result = scan(&format!("{{{text}"), has_schema, mode);
    let first = result.found.first_mut().filter(|found| found.start == 0)?;
    first.document.repairs.push(Repair { kind: RepairKind::BracketChanged, ..text_removed() });
    Some(result)
}

/// Scans a document in a Markdown quotation, in which every line starts with `>`.
fn scan_quotation(text: &str, has_schema: bool, mode: Mode) -> Scan {
    let text = text.trim();
    if !text.starts_with('>') || !text.lines().all(|line| line.starts_with('>')) {
        return Scan::default();
    }
    let mut content = String::with_capacity(text.len());
    for (number, line) in text.lines().enumerate() {
        if number > 0 {
            content.push('\n');
        }
        content.push_str(line[1..].strip_prefix(' ').unwrap_or(&line[1..]));
    }
    scan(&content, has_schema, mode)
}

/// Scans a document that was escaped as a whole: `{\"a\": \"b\"}`.
fn scan_escaped(text: &str, has_schema: bool, mode: Mode) -> Scan {
    let Some(start) = text.find(['{', '[']) else { return Scan::default() };
    let is_opening = |character: char| character.is_whitespace() || matches!(character, '{' | '[');
    let inside = text[start + 1..].trim_start_matches(is_opening);
    if !inside.starts_with("\\\"") && !inside.starts_with("\\n") {
        return Scan::default();
    }
    let Some(end) = text.rfind(['}', ']']).filter(|&end| end > start) else { return Scan::default() };
    let quoted = format!("\"{}\"", &text[start..=end]);
    let Ok(parsed) = strict::parse_whole(&quoted) else { return Scan::default() };
    let Value::String(unescaped) = parsed.value else { return Scan::default() };
    let mut result = scan(&unescaped, has_schema, mode);
    for found in &mut result.found {
        let repair = Repair { kind: RepairKind::DocumentUnescaped, ..text_removed() };
        found.document.repairs.list.insert(0, repair);
    }
    result
}

/// Parses a text that consists of one scalar, or of one scalar per line.
fn scalar_candidate(text: &str, schema: Option<&Schema>, mode: Mode) -> Option<Candidate> {
    let text = text.trim();
    if text.is_empty() {
        return None;
    }
    if let Ok(parsed) = strict::parse_whole(text) {
        return Some(Candidate {
            value: parsed.value,
            repairs: Repairs::default(),
            confidence: Confidence::Prose,
            depth: parsed.depth,
        });
    }
    // `1,5` is a number in some countries, so strict mode does not take it for a list.
    let has_commas =
        mode == Mode::Lenient && schema.is_none_or(|schema| schema.shape().types().contains(Types::ARRAY));
    if let Some(candidate) = fenced_scalar(text).or_else(|| list_candidate(text, has_commas)) {
        return Some(candidate);
    }
    // The scanner has already rejected texts that start with a bracket.
    if !text.starts_with(['{', '['])
        && let Ok(document) = parse::parse(text, 0, mode)
        && is_blank(&text[document.end..])
        && is_one_scalar(&document, mode)
    {
        return Some(Candidate {
            value: document.value,
            repairs: document.repairs,
            confidence: Confidence::Prose,
            depth: document.depth,
        });
    }
    token_candidate(text, schema, mode)
}

/// Returns whether a document without brackets is one value, and not a sentence with quotes in it.
fn is_one_scalar(document: &parse::Document, mode: Mode) -> bool {
    let is_inner =
        |repair: &&Repair| matches!(repair.kind, RepairKind::QuoteEscaped | RepairKind::QuoteGuessed);
    let inner_quotes = document.repairs.list.iter().filter(is_inner).count();
    match inner_quotes {
        // Words in parentheses are not a tuple.
        0 => document.evidence.unquoted == 0 || document.evidence.lists == 0,
        // `"a 24" screen"` has one inner quote; `"Yes," he said, "it is."` has two and is prose.
        _ => mode == Mode::Lenient && inner_quotes % 2 == 1 && !document.evidence.is_cut,
    }
}

/// Parses a scalar in the only code fence of a text.
fn fenced_scalar(text: &str) -> Option<Candidate> {
    let mut pieces = text.split("```");
    let (_, fence, _) = (pieces.next()?, pieces.next()?, pieces.next()?);
    let content = fence.split_once('\n').map_or(fence, |(_, content)| content);
    let parsed = strict::parse_whole(content).ok().filter(|_| pieces.next().is_none())?;
    Some(Candidate {
        value: parsed.value,
        repairs: Repairs::default(),
        confidence: Confidence::Marked,
        depth: parsed.depth,
    })
}

/// Parses one scalar per line as an array; with `has_commas`, commas separate scalars as well.
fn list_candidate(text: &str, has_commas: bool) -> Option<Candidate> {
    let mut values = Vec::new();
    let mut depth = 0;
    let mut rest = text;
    while !rest.is_empty() {
        let parsed = strict::parse(rest, 0).ok()?;
        if !memory::push(&mut values, parsed.value) {
            return None;
        }
        depth = depth.max(parsed.depth);
        let after = &rest[parsed.end..];
        let next = after.trim_start();
        let ends_line = after[..after.len() - next.len()].contains('\n');
        rest = match next.strip_prefix(',').filter(|_| has_commas) {
            Some(next) => next.trim_start(),
            None if next.is_empty() || ends_line => next,
            None => return None,
        };
    }
    // `1,234` is one number.
    if values.len() < 2 || is_grouped(text) {
        return None;
    }
    let mut repairs = Repairs::default();
    repairs.push(Repair { kind: RepairKind::DocumentsListed, ..text_removed() });
    Some(Candidate { value: Value::Array(values), repairs, confidence: Confidence::Prose, depth: depth + 1 })
}

/// Returns a reply of a single word as a string, in lenient mode and without a schema.
fn token_candidate(text: &str, schema: Option<&Schema>, mode: Mode) -> Option<Candidate> {
    let is_token =
        !text.contains(|character: char| character.is_whitespace() || "{}[]()<>\"'`".contains(character));
    if schema.is_some() || mode == Mode::Strict || !is_token {
        return None;
    }
    let mut repairs = Repairs::default();
    let value = Value::String(text.to_owned());
    repairs.push(Repair {
        kind: RepairKind::ValueQuoted,
        pointer: String::new(),
        from: excerpt(text),
        to: value.clone(),
    });
    Some(Candidate { value, repairs, confidence: Confidence::Prose, depth: 0 })
}

/// Returns the text itself as a string, for schemas that do not require an object or array. If the text
/// contains documents, it is a candidate only for schemas of plain strings. It is then preferred, because it
/// needs no interpretation.
fn text_candidate(
    text: &str,
    schema: Option<&Schema>,
    mode: Mode,
    beside_documents: bool,
) -> Option<Candidate> {
    let shape = schema?.shape();
    let wants_text = is_plain_text(&shape);
    if mode == Mode::Strict || text.trim().is_empty() || shape.is_open() || (beside_documents && !wants_text)
    {
        return None;
    }
    if shape.types() == Types::ARRAY && shape.item(0).is_none_or(|item| is_plain_text(&item)) {
        // A sentence is not a list of one sentence.
        return None;
    }
    let mut repairs = Repairs::default();
    let value = Value::String(text.strip_suffix('\n').unwrap_or(text).to_owned());
    repairs.push(Repair { kind: RepairKind::TextTaken, ..text_removed() });
    let confidence = if wants_text { Confidence::Marked } else { Confidence::Reasoning };
    Some(Candidate { value, repairs, confidence, depth: 0 })
}

/// Returns whether the schema allows any string, and otherwise only null.
fn is_plain_text(shape: &Shape<'_>) -> bool {
    let types = shape.types();
    let only_text = |types: Types| types == Types::STRING || types == Types::NULL;
    match shape.alternatives() {
        Some(branches) => {
            branches.iter().any(is_plain_text) && branches.iter().all(|branch| only_text(branch.types()))
        }
        None => shape.values().is_none() && types == Types::STRING,
    }
}
