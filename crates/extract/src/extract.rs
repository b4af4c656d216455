//! The way from a text to an outcome.

use serde_json::Value;
use slipform_schema::{Schema, Shape, Types};

use crate::choose::{self, Candidate};
use crate::options::{Mode, Options};
use crate::outcome::{Extraction, Outcome, violation};
use crate::parse::{self, Repairs, excerpt};
use crate::reasoning;
use crate::repair::{Repair, RepairKind};
use crate::scan::{Scan, Tier, is_blank, scan};
use crate::strict::{self, ReadFailure, Why};

/// Finds the JSON in `text` that satisfies `schema`, or says what is wrong with the closest.
pub fn extract(text: &str, schema: Option<&Schema>, options: &Options) -> Outcome {
    if text.len() > options.text_bytes_max {
        return Outcome::TooLong { bytes: text.len(), limit: options.text_bytes_max };
    }
    if options.strict_json_only {
        return exact(text, text, schema);
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
        let candidate = Candidate {
            value: parsed.value,
            repairs: Repairs::default(),
            tier: Tier::Marked,
            depth: parsed.depth,
        };
        let mut candidates = vec![candidate];
        candidates.extend(text_candidate(text, schema, options.mode, true));
        return decide(candidates, false, schema, options).unwrap_or_else(|| not_found(bare));
    }
    search(text.trim_start_matches('\u{feff}'), schema, options)
}

/// [`extract`] for bytes that may not be text. Strict mode refuses invalid UTF-8; lenient mode
/// replaces it and says so.
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

/// The text has to be one document as it stands.
fn exact(text: &str, document: &str, schema: Option<&Schema>) -> Outcome {
    let parsed = match strict::parse_whole(document) {
        Ok(parsed) => parsed,
        Err(stop) => {
            let offset = document.as_ptr() as usize - text.as_ptr() as usize;
            return Outcome::NotFound {
                reason: describe(text, ReadFailure { at: stop.at + offset, ..stop }),
            };
        }
    };
    let violations = schema.map(|schema| schema.violations(&parsed.value)).unwrap_or_default();
    let candidate = Extraction { value: parsed.value, repairs: Vec::new() };
    if violations.is_empty() { Outcome::Valid(candidate) } else { Outcome::Invalid { candidate, violations } }
}

fn describe(text: &str, stop: ReadFailure) -> String {
    let before = &text.as_bytes()[..stop.at.min(text.len())];
    let line = before.iter().filter(|&&byte| byte == b'\n').count() + 1;
    let column = before.iter().rev().take_while(|&&byte| byte != b'\n').count() + 1;
    let what = match stop.why {
        Why::Syntax => "not valid JSON",
        Why::End => "the document ends too early",
        Why::Depth => "nested too deeply",
        Why::Duplicate => "a key stands twice",
        Why::Number => "a number that does not fit into 64 bits",
        Why::Surrogate => "half of a surrogate pair",
    };
    format!("the text is not one JSON document: {what} at line {line}, column {column}")
}

/// Searches a text that is not itself a document.
fn search(text: &str, schema: Option<&Schema>, options: &Options) -> Outcome {
    let split = reasoning::split(text);
    let guided = schema.is_some();
    let mut result = scan_escaped(split.answer, guided, options.mode);
    if result.found.is_empty() {
        result = match scan_unopened(split.answer, guided, options.mode) {
            Some(result) => result,
            None => scan(split.answer, guided, options.mode),
        };
    }
    if result.found.is_empty() {
        result.found = scan_quotation(split.answer, guided, options.mode).found;
    }
    if result.found.is_empty() && !is_blank(split.before) {
        result = scan(split.before, guided, options.mode);
    }
    let may_look_back = is_blank(split.answer) || options.mode == Mode::Lenient;
    if result.found.is_empty() && may_look_back && !split.reasoning.is_empty() {
        let Scan { mut found, too_deep } = scan(split.reasoning, guided, options.mode);
        for found in &mut found {
            found.tier = Tier::Thought;
        }
        result = Scan { found, too_deep };
    }
    let surrounded = !split.reasoning.is_empty() || is_surrounded(split.answer, &result);
    let mut candidates = choose::candidates(result.found, guided);
    if candidates.is_empty() {
        candidates.extend(scalar_candidate(split.answer, schema, options.mode));
    }
    let has_documents = !candidates.is_empty();
    candidates.extend(text_candidate(split.answer, schema, options.mode, has_documents));
    if result.too_deep && candidates.is_empty() {
        let message = format!("nested deeper than the {} levels allowed", crate::NESTING_MAX);
        let violations =
            slipform_schema::Violations { list: vec![violation("$".to_owned(), message)], more: 0 };
        return Outcome::Invalid {
            candidate: Extraction { value: Value::Null, repairs: Vec::new() },
            violations,
        };
    }
    let decided = decide(candidates, surrounded, schema, options);
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
    surrounded: bool,
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
    if surrounded && !extraction.repairs.iter().any(|repair| repair.kind == RepairKind::TextTaken) {
        extraction.repairs.insert(0, text_removed());
    }
    Some(outcome)
}

/// Whether anything but space stands outside the documents.
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

/// `"key": …}` at the start: the opening brace is missing, as when a model was made to continue from it.
fn scan_unopened(text: &str, guided: bool, mode: Mode) -> Option<Scan> {
    let key = text.trim_start().strip_prefix('"')?;
    let (name, rest) = key.split_once('"')?;
    if name.is_empty() || name.contains('\n') || name.len() > 100 || !rest.trim_start().starts_with(':') {
        return None;
    }
    let mut result = scan(&format!("{{{text}"), guided, mode);
    let first = result.found.first_mut().filter(|found| found.start == 0)?;
    first.document.repairs.push(Repair { kind: RepairKind::BracketChanged, ..text_removed() });
    Some(result)
}

/// A document in a Markdown quotation: every line starts with `>`.
fn scan_quotation(text: &str, guided: bool, mode: Mode) -> Scan {
    let text = text.trim();
    if !text.starts_with('>') || !text.lines().all(|line| line.starts_with('>')) {
        return Scan::default();
    }
    let lines: Vec<&str> =
        text.lines().map(|line| line[1..].strip_prefix(' ').unwrap_or(&line[1..])).collect();
    scan(&lines.join("\n"), guided, mode)
}

/// A document that was escaped as a whole: `{\"a\": \"b\"}`.
fn scan_escaped(text: &str, guided: bool, mode: Mode) -> Scan {
    let Some(start) = text.find(['{', '[']) else { return Scan::default() };
    if !text[start + 1..].trim_start().starts_with("\\\"")
        && !text[start + 1..].trim_start().starts_with("\\n")
    {
        return Scan::default();
    }
    let Some(end) = text.rfind(['}', ']']).filter(|&end| end > start) else { return Scan::default() };
    let quoted = format!("\"{}\"", &text[start..=end]);
    let Ok(parsed) = strict::parse_whole(&quoted) else { return Scan::default() };
    let Value::String(unescaped) = parsed.value else { return Scan::default() };
    let mut result = scan(&unescaped, guided, mode);
    for found in &mut result.found {
        let repair = Repair { kind: RepairKind::DocumentUnescaped, ..text_removed() };
        found.document.repairs.list.insert(0, repair);
    }
    result
}

/// A text that is nothing but one scalar, or one scalar a line.
fn scalar_candidate(text: &str, schema: Option<&Schema>, mode: Mode) -> Option<Candidate> {
    let text = text.trim();
    if text.is_empty() {
        return None;
    }
    if let Ok(parsed) = strict::parse_whole(text) {
        return Some(Candidate {
            value: parsed.value,
            repairs: Repairs::default(),
            tier: Tier::Prose,
            depth: parsed.depth,
        });
    }
    if let Some(candidate) = fenced_scalar(text).or_else(|| lines_candidate(text)) {
        return Some(candidate);
    }
    // Brackets have been looked at already, and found wanting.
    if !text.starts_with(['{', '['])
        && let Ok(document) = parse::parse(text, 0, mode)
        && is_blank(&text[document.end..])
        && is_one_scalar(&document, mode)
    {
        return Some(Candidate {
            value: document.value,
            repairs: document.repairs,
            tier: Tier::Prose,
            depth: document.depth,
        });
    }
    token_candidate(text, schema, mode)
}

/// Whether a document without brackets is one value, and not a sentence with quotes in it.
fn is_one_scalar(document: &parse::Document, mode: Mode) -> bool {
    let is_inner =
        |repair: &&Repair| matches!(repair.kind, RepairKind::QuoteEscaped | RepairKind::QuoteGuessed);
    let inner_quotes = document.repairs.list.iter().filter(is_inner).count();
    match inner_quotes {
        // Words in parentheses are no tuple.
        0 => document.signs.bare == 0 || document.signs.lists == 0,
        // `"a 24" screen"` has one; `"Yes," he said, "it is."` has two, and is prose.
        _ => mode == Mode::Lenient && inner_quotes % 2 == 1 && !document.signs.cut,
    }
}

/// A scalar that is alone in the only fence of a text.
fn fenced_scalar(text: &str) -> Option<Candidate> {
    let mut pieces = text.split("```");
    let (_, fence, _) = (pieces.next()?, pieces.next()?, pieces.next()?);
    let content = fence.split_once('\n').map_or(fence, |(_, content)| content);
    let parsed = strict::parse_whole(content).ok().filter(|_| pieces.next().is_none())?;
    Some(Candidate {
        value: parsed.value,
        repairs: Repairs::default(),
        tier: Tier::Marked,
        depth: parsed.depth,
    })
}

fn lines_candidate(text: &str) -> Option<Candidate> {
    let values: Option<Vec<Value>> = text
        .lines()
        .filter(|line| !line.trim().is_empty())
        .map(|line| strict::parse_whole(line.trim()).ok().map(|parsed| parsed.value))
        .collect();
    let values = values.filter(|values| values.len() > 1)?;
    let mut repairs = Repairs::default();
    repairs.push(Repair { kind: RepairKind::DocumentsListed, ..text_removed() });
    Some(Candidate { value: Value::Array(values), repairs, tier: Tier::Prose, depth: 1 })
}

/// A reply of a single word, which in lenient mode and without a contract is a string.
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
    Some(Candidate { value, repairs, tier: Tier::Prose, depth: 0 })
}

/// The text itself, for contracts that do not ask for an object or a list. Beside documents it counts
/// only where a plain string is asked for, and then it comes first: nothing has to be interpreted.
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
    let tier = if wants_text { Tier::Marked } else { Tier::Thought };
    Some(Candidate { value, repairs, tier, depth: 0 })
}

/// Whether any string, and nothing else but null, is asked for.
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
