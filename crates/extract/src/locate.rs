//! Finds the places in a text that repairs changed, for people who look at both.

use std::collections::HashMap;
use std::ops::Range;

use crate::memory;
use crate::options::Mode;
use crate::outcome::Extraction;
use crate::parse::{self, Document};
use crate::reasoning;
use crate::repair::{Repair, RepairKind};
use crate::scan::{Found, scan};

/// The places of an extraction in its text, as byte offsets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Location {
    /// The document that was parsed; `None` if it was put together from several parts.
    pub document: Option<Range<usize>>,
    /// The place of each repair, in their order; `None` if a repair has no place in the text. An empty range is a
    /// place where something is missing.
    pub repairs: Vec<Option<Range<usize>>>,
}

/// Finds the document of an extraction and the places of its repairs in the text that it was extracted from.
///
/// It parses the text again, so that extraction itself takes no time for it.
pub fn locate(text: &str, extraction: &Extraction, mode: Mode) -> Location {
    let unknown = || Location { document: None, repairs: vec![None; extraction.repairs.len()] };
    let limit = memory::limit(text.len());
    let (location, is_exceeded) = memory::within(limit, || locate_within(text, extraction, mode));
    location.filter(|_| !is_exceeded).unwrap_or_else(unknown)
}

fn locate_within(text: &str, extraction: &Extraction, mode: Mode) -> Option<Location> {
    // Changes around the document come first.
    let is_around = |repair: &&Repair| {
        matches!(repair.kind, RepairKind::TextRemoved | RepairKind::DocumentChosen)
            && repair.pointer.is_empty()
    };
    let around = extraction.repairs.iter().take_while(is_around).count();
    let (around, inside) = extraction.repairs.split_at(around);
    let split = reasoning::split(text);
    for part in [split.answer, split.preamble, split.reasoning] {
        let found = scan(part, true, mode).found;
        let mut sources: Vec<&Found> =
            found.iter().filter(|found| is_source(&found.document, extraction, inside)).collect();
        if sources.len() > 1 {
            sources.retain(|found| has_changed_value(&found.document, inside));
        }
        let [Found { document, start, .. }] = sources[..] else { continue };
        let values = parse::locate_values(part, *start, mode);
        let offset = part.as_ptr() as usize - text.as_ptr() as usize;
        let moved = |range: Range<usize>| range.start + offset..range.end + offset;
        let places = inside.iter().enumerate().map(|(index, repair)| {
            let span = document.repairs.spans.get(index);
            place(repair, span, &values).map(|place| comma(part, repair, place)).map(moved)
        });
        return Some(Location {
            document: Some(moved(*start..document.end)),
            repairs: around.iter().map(|_| None).chain(places).collect(),
        });
    }
    None
}

/// Returns whether an extraction was made from this document.
fn is_source(document: &Document, extraction: &Extraction, inside: &[Repair]) -> bool {
    let by_parser = &document.repairs.list;
    inside.starts_with(by_parser) && (inside.len() > by_parser.len() || document.value == extraction.value)
}

/// Returns whether the first change that the parser did not make fits the document.
fn has_changed_value(document: &Document, inside: &[Repair]) -> bool {
    let changed = inside.get(document.repairs.list.len());
    changed.is_none_or(|repair| {
        document.value.pointer(&repair.pointer).is_some_and(|value| *value == repair.from)
    })
}

/// Returns the place of a repair: the text that the parser changed, or the value that was changed afterwards.
fn place(
    repair: &Repair,
    span: Option<&Range<usize>>,
    values: &HashMap<String, Range<usize>>,
) -> Option<Range<usize>> {
    let is_between = matches!(
        repair.kind,
        RepairKind::CommaAdded
            | RepairKind::CommaRemoved
            | RepairKind::ColonAdded
            | RepairKind::BracketAdded
            | RepairKind::QuoteAdded
            | RepairKind::Completed
            | RepairKind::NullAdded
    );
    match span {
        Some(span) if is_between || !span.is_empty() => Some(span.clone()),
        _ => values.get(&repair.pointer).or(span).cloned(),
    }
}

/// Returns the place of a comma that was removed, which is noticed at what follows it.
fn comma(text: &str, repair: &Repair, place: Range<usize>) -> Range<usize> {
    let (before, rest) = text.split_at_checked(place.start).unwrap_or_default();
    let at = if rest.starts_with(',') { Some(place.start) } else { before.rfind(',') };
    match at.filter(|_| repair.kind == RepairKind::CommaRemoved) {
        Some(at) => at..at + 1,
        None => place,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use slipform_schema::Schema;

    use super::*;
    use crate::{Options, Outcome, extract};

    /// Returns the document and, for each repair, its kind and text.
    fn located(text: &str, schema: &serde_json::Value) -> (String, Vec<(String, Option<String>)>) {
        let schema = Schema::compile(schema).unwrap();
        let options = Options::lenient();
        let Outcome::Valid(extraction) = extract(text, Some(&schema), &options) else {
            panic!("{text} is not valid");
        };
        let location = locate(text, &extraction, options.mode);
        let excerpt = |range: &Range<usize>| text[range.clone()].to_owned();
        let repairs = extraction.repairs.iter().zip(&location.repairs);
        let repairs = repairs.map(|(repair, place)| (repair.kind.to_string(), place.as_ref().map(excerpt)));
        (location.document.as_ref().map(excerpt).unwrap_or_default(), repairs.collect())
    }

    #[test]
    fn repairs_have_the_places_that_they_changed() {
        let schema = json!({
            "type": "object",
            "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
            "required": ["name", "age"],
        });
        let text = "Grüße! ```json\n{name: 'Ada', \"age\": \"36\" , // years\n}\n``` Bye.";
        let (document, repairs) = located(text, &schema);
        assert_eq!(document, "{name: 'Ada', \"age\": \"36\" , // years\n}");
        let place = |kind: &str| {
            let found = repairs.iter().find(|(known, _)| known == kind);
            found.unwrap_or_else(|| panic!("{kind}: {repairs:?}")).1.clone()
        };
        assert_eq!(place("text_removed"), None);
        assert_eq!(place("quotes_changed").as_deref(), Some("'Ada'"));
        assert_eq!(place("number_read").as_deref(), Some("\"36\""));
        assert_eq!(place("comment_removed").as_deref(), Some("// years"));
        assert_eq!(place("comma_removed").as_deref(), Some(","));
    }

    #[test]
    fn place_is_in_the_document_that_was_taken() {
        let schema =
            json!({"type": "object", "properties": {"count": {"type": "integer"}}, "required": ["count"]});
        let (document, repairs) = located("{\"note\": \"x\"} then {\"count\": \"5\"}", &schema);
        assert_eq!(document, "{\"count\": \"5\"}", "{repairs:?}");
        assert!(repairs.contains(&("number_read".to_owned(), Some("\"5\"".to_owned()))), "{repairs:?}");
    }

    #[test]
    fn valid_document_has_no_repairs_and_is_found() {
        let (document, repairs) = located("{\"a\": 1}", &json!({"type": "object"}));
        assert_eq!((document.as_str(), repairs.len()), ("{\"a\": 1}", 0));
    }

    #[test]
    fn document_that_is_cut_has_an_empty_place_at_its_end() {
        let text = "{\"items\": [1, 2";
        let (document, repairs) = located(text, &json!({"type": "object"}));
        assert_eq!(document, text);
        assert!(repairs.iter().all(|(_, place)| place.as_deref() == Some("")), "{repairs:?}");
    }
}
