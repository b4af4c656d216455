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
    "[/THINK]",
    "<|end_of_thought|>",
];

/// Marks that begin one.
const OPENERS: [&str; 7] =
    ["<think>", "<thinking>", "<thought>", "<reasoning>", "<|START_THINKING|>", "<seed:think>", "[THINK]"];

/// The analysis channel of the harmony format, and what ends a message in it.
const ANALYSIS: &str = "<|channel|>analysis<|message|>";
const ANALYSIS_END: &str = "<|end|>";

/// A text split into what was thought and what was answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Split<'t> {
    pub(crate) thought: &'t str,
    pub(crate) answer: &'t str,
}

/// Splits a text at the end of its thinking. Without thinking, everything is the answer.
pub(crate) fn split(text: &str) -> Split<'_> {
    let whole = Split { thought: "", answer: text };
    // Every mark contains one of these; most texts have none.
    if !text.contains("hink") && !text.contains("THINK") && !text.contains("analysis") && !text.contains("thought") && !text.contains("</reasoning>") && !text.contains("<reasoning>") {
        return whole;
    }
    let bytes = text.as_bytes();
    if let Some(start) = memmem::find(bytes, ANALYSIS.as_bytes())
        && let Some(end) = memmem::rfind(&bytes[start..], ANALYSIS_END.as_bytes())
    {
        let end = start + end + ANALYSIS_END.len();
        return Split { thought: &text[..end], answer: &text[end..] };
    }
    let last_closer = CLOSERS
        .iter()
        .filter_map(|mark| memmem::rfind(bytes, mark.as_bytes()).map(|at| at + mark.len()))
        .max();
    if let Some(end) = last_closer {
        if is_inside_document(text, end) {
            return whole;
        }
        return Split { thought: &text[..end], answer: &text[end..] };
    }
    let first_opener = OPENERS.iter().filter_map(|mark| memmem::find(bytes, mark.as_bytes())).min();
    match first_opener {
        // Thinking that was never closed: what stands before it is the answer, if anything does.
        Some(start) if !is_inside_document(text, start) => Split { thought: &text[start..], answer: &text[..start] },
        _ => whole,
    }
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
        assert_eq!(split("<think>so").thought, "<think>so");
    }

    #[test]
    fn marks_inside_a_document_are_data() {
        check(r#"{"a": "<think>"} tail"#, r#"{"a": "<think>"} tail"#);
        check(r#"{"a": "</think>"}"#, r#"{"a": "</think>"}"#);
    }
}
