//! Telling a model's thinking from its answer.

use memchr::memmem;

use crate::strict;

/// Marks that end a passage of thinking. What comes after the last of them is the answer.
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

/// Marks that begin one.
const OPENERS: [&str; 7] =
    ["<think>", "<thinking>", "<thought>", "<reasoning>", "<|START_THINKING|>", "<seed:think>", "[THINK]"];

/// The analysis channel of the harmony format, and what ends a message in it.
const ANALYSIS: &str = "<|channel|>analysis<|message|>";
const ANALYSIS_END: &str = "<|end|>";

/// How far from a mark quotes are looked for.
const QUOTED_WITHIN: usize = 512;

/// A text split into what was thought and what was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Split<'t> {
    pub(crate) reasoning: &'t str,
    pub(crate) answer: &'t str,
    /// What was said before the thinking began, where the answer comes after it.
    pub(crate) before: &'t str,
}

/// Splits a text at the end of its thinking. Without thinking, everything is the answer.
pub(crate) fn split(text: &str) -> Split<'_> {
    let whole = Split { reasoning: "", answer: text, before: "" };
    let marks = Marks::find(text);
    let bytes = text.as_bytes();
    if let Some(start) = marks.analysis
        && let Some(end) = memmem::rfind(&bytes[start..], ANALYSIS_END.as_bytes())
    {
        let end = start + end + ANALYSIS_END.len();
        return Split { reasoning: &text[..end], answer: &text[end..], before: &text[..start] };
    }
    if let Some(end) = marks.last_closer {
        if is_inside_document(text, end) {
            return whole;
        }
        let before = marks.first_opener.filter(|&start| start < end).map_or("", |start| &text[..start]);
        return Split { reasoning: &text[before.len()..end], answer: &text[end..], before };
    }
    match marks.first_opener {
        // Thinking that was never closed: what stands before it is the answer, if anything does.
        Some(start) if !is_inside_document(text, start) => {
            Split { reasoning: &text[start..], answer: &text[..start], before: "" }
        }
        _ => whole,
    }
}

/// The marks that decide, found in one pass over the tags of a text.
#[derive(Default)]
struct Marks {
    /// Behind the last mark that ends thinking.
    last_closer: Option<usize>,
    first_opener: Option<usize>,
    analysis: Option<usize>,
}

impl Marks {
    fn find(text: &str) -> Marks {
        let bytes = text.as_bytes();
        let mut marks = Marks::default();
        for at in memchr::memchr_iter(b'<', bytes) {
            marks.note(bytes, at);
        }
        // Brackets are everywhere in JSON; this word is not.
        for end in memmem::find_iter(bytes, "THINK]") {
            let at = [end.wrapping_sub(1), end.wrapping_sub(2)]
                .into_iter()
                .find(|&at| bytes.get(at) == Some(&b'['));
            if let Some(at) = at {
                marks.note(bytes, at);
            }
        }
        marks
    }

    fn note(&mut self, bytes: &[u8], at: usize) {
        let rest = &bytes[at..];
        // The second character tells most other tags apart.
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

/// Whether a mark stands between two quotes on its line, and so is data.
fn is_quoted(bytes: &[u8], at: usize) -> bool {
    let line = &bytes[at.saturating_sub(QUOTED_WITHIN)..at];
    let line = &line[line.iter().rposition(|&byte| byte == b'\n').map_or(0, |newline| newline + 1)..];
    let rest = bytes[at..].iter().take(QUOTED_WITHIN).take_while(|&&byte| byte != b'\n');
    line.iter().filter(|&&byte| byte == b'"').count() % 2 == 1
        && rest.filter(|&&byte| byte == b'"').count() % 2 == 1
}

/// Whether a mark stands inside the document that the text starts with, and so is data.
fn is_inside_document(text: &str, at: usize) -> bool {
    let start = text.len() - text.trim_start().len();
    text[start..].starts_with(['{', '[']) && strict::parse(text, start).is_ok_and(|parsed| parsed.end >= at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, answer: &str) {
        assert_eq!(split(text).answer, answer, "{text}");
    }

    #[test]
    fn the_answer_comes_after_the_last_closing_mark() {
        check("<think>{\"a\": 1}</think>{\"a\": 2}", "{\"a\": 2}");
        check("no opening\n</think>\n[1]", "\n[1]");
        check("<think>a</think>b</think>c", "c");
        check("<|START_THINKING|>x<|END_THINKING|>y", "y");
        check("<|channel|>analysis<|message|>hm<|end|><|start|>assistant", "<|start|>assistant");
    }

    #[test]
    fn thinking_that_never_ends_leaves_no_answer() {
        check("<think>so {\"a\": 1}", "");
        assert_eq!(split("<think>so").reasoning, "<think>so");
    }

    #[test]
    fn marks_inside_a_document_are_data() {
        check(r#"{"a": "<think>"} tail"#, r#"{"a": "<think>"} tail"#);
        check(r#"{"a": "</think>"}"#, r#"{"a": "</think>"}"#);
    }
}
