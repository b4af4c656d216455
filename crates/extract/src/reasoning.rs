//! Separates a model's reasoning from its answer.

use memchr::memmem;

use crate::memory;
use crate::strict;

/// Tags that end a passage of reasoning. The answer follows the last of them.
const CLOSERS: [&str; 8] = [
    "</think>",
    "</thinking>",
    "</thought>",
    "</reasoning>",
    "<|END_THINKING|>",
    "</seed:think>",
    "<|end_of_thought|>",
    "[/THINK]",
];

/// Tags that begin a passage of reasoning.
const OPENERS: [&str; 7] =
    ["<think>", "<thinking>", "<thought>", "<reasoning>", "<|START_THINKING|>", "<seed:think>", "[THINK]"];

/// The analysis channel of the harmony format, and the tag that ends a message in it.
const ANALYSIS: &str = "<|channel|>analysis<|message|>";
const ANALYSIS_END: &str = "<|end|>";

/// The most bytes around a tag that are searched for quotes.
const QUOTED_WITHIN: usize = 512;

/// A text split into reasoning and answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Split<'t> {
    pub(crate) reasoning: &'t str,
    pub(crate) answer: &'t str,
    /// The text before the reasoning, if the answer comes after it.
    pub(crate) preamble: &'t str,
}

/// Splits a text at the end of its reasoning. Without reasoning, everything is the answer.
pub(crate) fn split(text: &str) -> Split<'_> {
    let whole = Split { reasoning: "", answer: text, preamble: "" };
    let marks = Marks::find(text);
    let bytes = text.as_bytes();
    if let Some(start) = marks.analysis
        && let Some(end) = memmem::rfind(&bytes[start..], ANALYSIS_END.as_bytes())
    {
        let end = start + end + ANALYSIS_END.len();
        return Split { reasoning: &text[..end], answer: &text[end..], preamble: &text[..start] };
    }
    if let Some(end) = marks.last_closer {
        if is_inside_document(text, end) {
            return whole;
        }
        let preamble = marks.first_opener.filter(|&start| start < end).map_or("", |start| &text[..start]);
        return Split { reasoning: &text[preamble.len()..end], answer: &text[end..], preamble };
    }
    match marks.first_opener {
        // Reasoning that never ends: the answer is the text before it, if any.
        Some(start) if !is_inside_document(text, start) => {
            Split { reasoning: &text[start..], answer: &text[..start], preamble: "" }
        }
        _ => whole,
    }
}

/// The tags that determine the split, found in one pass.
#[derive(Default)]
struct Marks {
    /// The offset after the last tag that ends reasoning.
    last_closer: Option<usize>,
    first_opener: Option<usize>,
    analysis: Option<usize>,
}

impl Marks {
    fn find(text: &str) -> Marks {
        let bytes = text.as_bytes();
        let mut marks = Marks::default();
        for at in memchr::memchr_iter(b'<', bytes) {
            marks.record(bytes, at);
        }
        // Brackets are frequent in JSON, so search for the word instead.
        for end in memmem::find_iter(bytes, "THINK]") {
            let at = [end.wrapping_sub(1), end.wrapping_sub(2)]
                .into_iter()
                .find(|&at| bytes.get(at) == Some(&b'['));
            if let Some(at) = at {
                marks.record(bytes, at);
            }
        }
        marks
    }

    fn record(&mut self, bytes: &[u8], at: usize) {
        let rest = &bytes[at..];
        // The second character excludes most other tags.
        if !matches!(rest.get(1), Some(b'/' | b't' | b'r' | b's' | b'|' | b'T')) {
            return;
        }
        let is_mark = |mark: &&&str| rest.starts_with(mark.as_bytes());
        let is_any = CLOSERS.iter().find(is_mark).or_else(|| OPENERS.iter().find(is_mark)).is_some();
        if is_any && is_quoted(bytes, at) {
            return;
        }
        if let Some(mark) = CLOSERS.iter().find(|mark| rest.starts_with(mark.as_bytes())) {
            self.last_closer = self.last_closer.max(Some(at + mark.len()));
        } else if OPENERS.iter().any(|mark| rest.starts_with(mark.as_bytes())) {
            self.first_opener = Some(self.first_opener.map_or(at, |first| first.min(at)));
        } else if self.analysis.is_none() && rest.starts_with(ANALYSIS.as_bytes()) {
            self.analysis = Some(at);
        }
    }
}

/// Returns whether a tag is between two quotes on its line, and is therefore data.
fn is_quoted(bytes: &[u8], at: usize) -> bool {
    let line = &bytes[at.saturating_sub(QUOTED_WITHIN)..at];
    let line = &line[line.iter().rposition(|&byte| byte == b'\n').map_or(0, |newline| newline + 1)..];
    let rest = bytes[at..].iter().take(QUOTED_WITHIN).take_while(|&&byte| byte != b'\n');
    line.iter().filter(|&&byte| byte == b'"').count() % 2 == 1
        && rest.filter(|&&byte| byte == b'"').count() % 2 == 1
}

/// Returns whether a tag is inside the document that starts the text, and is therefore data.
fn is_inside_document(text: &str, at: usize) -> bool {
    let start = text.len() - text.trim_start().len();
    let left = memory::left();
    let is_inside = text[start..].starts_with(['{', '['])
        && strict::parse(text, start).is_ok_and(|parsed| parsed.end >= at);
    memory::restore(left);
    is_inside
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, answer: &str) {
        assert_eq!(split(text).answer, answer, "{text}");
    }

    #[test]
    fn answer_starts_after_last_closing_tag() {
        check("<think>{\"a\": 1}</think>{\"a\": 2}", "{\"a\": 2}");
        check("no opening\n</think>\n[1]", "\n[1]");
        check("<think>a</think>b</think>c", "c");
        check("<|START_THINKING|>x<|END_THINKING|>y", "y");
        check("<|channel|>analysis<|message|>hm<|end|><|start|>assistant", "<|start|>assistant");
    }

    #[test]
    fn unclosed_reasoning_leaves_no_answer() {
        check("<think>so {\"a\": 1}", "");
        assert_eq!(split("<think>so").reasoning, "<think>so");
    }

    #[test]
    fn tag_inside_document_is_data() {
        check(r#"{"a": "<think>"} tail"#, r#"{"a": "<think>"} tail"#);
        check(r#"{"a": "</think>"}"#, r#"{"a": "</think>"}"#);
    }
}
