//! Extractions as callers see them: with the places in the text that repairs changed.

use std::ops::Range;

use slipform_api::{ExtractionView, RepairView, Span};
use slipform_extract::{Extraction, Mode, Options, locate};
use slipform_types::{ContractOptions, ValidationMode};

/// Returns how a contract with these options reads replies.
pub(super) fn options(options: &ContractOptions) -> Options {
    let mode = match options.validation_mode {
        ValidationMode::Strict => Mode::Strict,
        ValidationMode::Lenient => Mode::Lenient,
    };
    let ContractOptions { extract_json, strict_json_only, .. } = *options;
    Options { mode, extract_json, strict_json_only, ..Options::default() }
}

/// Converts what was found in a text; `None` if it holds no JSON.
pub(super) fn view(text: &str, found: Option<Extraction>, mode: Mode) -> ExtractionView {
    let (document, repairs) = found.as_ref().map(|found| located(text, found, mode)).unwrap_or_default();
    ExtractionView { found: found.is_some(), value: found.map(|found| found.value), document, repairs }
}

/// Converts an extraction to the place of its document and its repairs.
fn located(text: &str, extraction: &Extraction, mode: Mode) -> (Option<Span>, Vec<RepairView>) {
    let location = locate(text, extraction, mode);
    let offsets = location.repairs.iter().chain([&location.document]).flatten();
    let characters = Characters::count(text, offsets.flat_map(|range| [range.start, range.end]));
    let repairs = extraction.repairs.iter().zip(&location.repairs).map(|(repair, place)| RepairView {
        kind: repair.kind.name().to_owned(),
        pointer: repair.pointer.clone(),
        from: repair.from.clone(),
        to: repair.to.clone(),
        lossless: repair.kind.is_lossless(),
        description: repair.kind.describe().to_owned(),
        span: place.as_ref().map(|place| characters.span(place)),
    });
    (location.document.as_ref().map(|document| characters.span(document)), repairs.collect())
}

/// The numbers of characters before some byte offsets of a text.
struct Characters(Vec<(usize, u64)>);

impl Characters {
    fn count(text: &str, offsets: impl Iterator<Item = usize>) -> Characters {
        let mut offsets: Vec<usize> = offsets.collect();
        offsets.sort_unstable();
        offsets.dedup();
        let (mut counted, mut from, mut number) = (Vec::with_capacity(offsets.len()), 0, 0);
        for offset in offsets {
            number += text.get(from..offset).unwrap_or_default().chars().count() as u64;
            counted.push((offset, number));
            from = offset;
        }
        Characters(counted)
    }

    fn span(&self, range: &Range<usize>) -> Span {
        [self.before(range.start), self.before(range.end)]
    }

    fn before(&self, offset: usize) -> u64 {
        let found = self.0.binary_search_by_key(&offset, |(offset, _)| *offset);
        found.ok().and_then(|index| self.0.get(index)).map_or(0, |(_, number)| *number)
    }
}

#[cfg(test)]
mod tests {
    use slipform_extract::{Options, Outcome, extract};

    use super::*;

    #[test]
    fn places_are_counted_in_characters() {
        let text = "Grüße 👋 {'a': 1}";
        let Outcome::Valid(extraction) = extract(text, None, &Options::default()) else { panic!("{text}") };
        let (document, repairs) = located(text, &extraction, Mode::Strict);
        assert_eq!(document, Some([8, 16]));
        let quotes = repairs.iter().find(|repair| repair.kind == "quotes_changed").map(|repair| repair.span);
        assert_eq!(quotes, Some(Some([9, 12])));
    }
}
