//! The task in a prompt: the text that an opening search looks for.
//!
//! A prompt may have headings (`## Task`), labels (`Question: …`) and context around its task. The
//! words of headings and context match files that have nothing to do with the task.

use slipform_types::CONTEXT_HEADINGS;

/// Words of headings and labels that announce the task.
const TASK_WORDS: [&str; 10] =
    ["task", "question", "topic", "request", "goal", "objective", "query", "problem", "assignment", "todo"];

/// Words of headings and labels that announce something other than the task.
const CONTEXT_WORDS: [&str; 38] = [
    "acceptance",
    "background",
    "code",
    "codebase",
    "constraints",
    "context",
    "criteria",
    "deliverables",
    "details",
    "environment",
    "example",
    "examples",
    "expected",
    "files",
    "format",
    "guidelines",
    "hints",
    "history",
    "information",
    "input",
    "inputs",
    "instructions",
    "note",
    "notes",
    "output",
    "references",
    "requirements",
    "respond",
    "response",
    "result",
    "results",
    "role",
    "rules",
    "schema",
    "scope",
    "steps",
    "style",
    "tools",
];

/// The longest heading or label that announces something, in words. A longer one is text itself.
const ANNOUNCING_WORDS_MAX: usize = 4;

/// The level of a heading that is a bold line or a label.
const DEEPEST: usize = 7;

/// Returns the task of a prompt. A prompt without headings and labels is its own task.
pub(crate) fn task_of(prompt: &str) -> String {
    let own = without_context(prompt);
    let labelled = sections(own, true);
    let task = text_of_tasks(&labelled);
    if has_words(&task) {
        return task;
    }
    // A label such as `Output:` may stand in the middle of a task, so labels count only beside a
    // labelled task.
    let titled = sections(own, false);
    if titled.iter().all(|section| section.heading.is_none()) {
        return own.to_owned();
    }
    let is_task = |section: &&Section<'_>| section.kind() == Kind::Text;
    let texts: Vec<String> = titled.iter().filter(is_task).map(Section::text_with_heading).collect();
    let bodies = || titled.iter().map(Section::text).collect::<Vec<String>>();
    let found = [joined(&texts), joined(&bodies())].into_iter().find(|text| has_words(text));
    found.unwrap_or_else(|| own.to_owned())
}

/// Returns the prompt without what an orchestrator adds to the task of a specialist.
fn without_context(prompt: &str) -> &str {
    let is_context = |line: &str| CONTEXT_HEADINGS.contains(&line.trim_end());
    let mut at = 0;
    for line in prompt.split_inclusive('\n') {
        if is_context(line) && has_words(&prompt[..at]) {
            return prompt[..at].trim_end();
        }
        at += line.len();
    }
    prompt
}

/// A part of a prompt.
struct Section<'p> {
    /// `None` for the text before the first heading.
    heading: Option<Heading<'p>>,
    lines: Vec<&'p str>,
}

struct Heading<'p> {
    text: &'p str,
    /// 1 to 6 for Markdown headings.
    level: usize,
}

/// What the heading of a section announces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Task,
    Context,
    /// Text without a heading, or with one that belongs to the text.
    Text,
}

impl Section<'_> {
    fn kind(&self) -> Kind {
        self.heading.as_ref().map_or(Kind::Text, |heading| kind(heading.text))
    }

    fn text(&self) -> String {
        self.lines.join("\n").trim().to_owned()
    }

    fn text_with_heading(&self) -> String {
        let heading = self.heading.as_ref().map_or("", |heading| heading.text);
        joined(&[heading.to_owned(), self.text()])
    }

    fn level(&self) -> usize {
        self.heading.as_ref().map_or(0, |heading| heading.level)
    }
}

/// Returns the text of the sections that are announced as task, with the sections below them.
fn text_of_tasks(sections: &[Section<'_>]) -> String {
    let mut texts = Vec::new();
    let mut task_level = None;
    for section in sections {
        match (section.kind(), task_level) {
            (Kind::Task, _) => {
                task_level = Some(section.level());
                texts.push(section.text());
            }
            (Kind::Text, Some(level)) if section.level() > level => texts.push(section.text_with_heading()),
            // Context below a task ends with the next section.
            (Kind::Context, Some(level)) if section.level() > level => {}
            _ => task_level = None,
        }
    }
    joined(&texts)
}

/// Splits a prompt at its headings, and at its labels if they count.
fn sections(prompt: &str, with_labels: bool) -> Vec<Section<'_>> {
    let mut sections = vec![Section { heading: None, lines: Vec::new() }];
    let mut is_in_code = false;
    for line in prompt.lines() {
        if line.trim_start().starts_with("```") {
            is_in_code = !is_in_code;
        }
        let found = if is_in_code { None } else { heading(line, with_labels) };
        match found {
            Some((heading, rest)) => {
                sections.push(Section { heading: Some(heading), lines: Vec::from_iter(rest) });
            }
            None => {
                if let Some(section) = sections.last_mut() {
                    section.lines.push(line);
                }
            }
        }
    }
    sections
}

/// Returns the heading that a line is, and the text behind its label.
fn heading(line: &str, with_labels: bool) -> Option<(Heading<'_>, Option<&str>)> {
    let line = line.trim();
    let hashes = line.len() - line.trim_start_matches('#').len();
    if (1..=6).contains(&hashes) && line[hashes..].starts_with([' ', '\t']) {
        let text = line[hashes..].trim().trim_end_matches('#').trim_end();
        // `# Task: find it` has its text in the heading.
        return Some(match label(text).filter(|(name, _)| kind(name) == Kind::Task) {
            Some((name, rest)) => (Heading { text: name, level: hashes }, Some(rest)),
            None => (Heading { text, level: hashes }, None),
        });
    }
    let is_bold =
        line.len() > 4 && ["**", "__"].iter().any(|mark| line.starts_with(mark) && line.ends_with(mark));
    if is_bold {
        return Some((Heading { text: &line[2..line.len() - 2], level: DEEPEST }, None));
    }
    let (name, rest) = label(line).filter(|(name, _)| with_labels && kind(name) != Kind::Text)?;
    Some((Heading { text: name, level: DEEPEST }, Some(rest)))
}

/// Splits a line such as `Question: why?` or `**Question:** why?`.
fn label(line: &str) -> Option<(&str, &str)> {
    let (name, rest) = line.split_once(':')?;
    // A path or a time is not a label.
    let is_label = rest.is_empty() || rest.starts_with([' ', '\t', '*', '_']);
    is_label.then(|| (name, rest.trim_start_matches(['*', '_']).trim()))
}

/// Returns what a heading or label announces.
fn kind(heading: &str) -> Kind {
    let words: Vec<String> = heading
        .split(|character: char| !character.is_alphanumeric())
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect();
    let has = |known: &[&str]| words.iter().any(|word| known.contains(&word.as_str()));
    if words.len() > ANNOUNCING_WORDS_MAX {
        Kind::Text
    } else if has(&CONTEXT_WORDS) {
        Kind::Context
    } else if has(&TASK_WORDS) {
        Kind::Task
    } else {
        Kind::Text
    }
}

fn has_words(text: &str) -> bool {
    text.chars().any(char::is_alphanumeric)
}

fn joined(texts: &[String]) -> String {
    let filled: Vec<&str> = texts.iter().map(|text| text.trim()).filter(|text| !text.is_empty()).collect();
    filled.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(prompt: &str, expected: &str) {
        assert_eq!(task_of(prompt), expected, "{prompt}");
    }

    #[test]
    fn prompt_without_headings_is_its_own_task() {
        for prompt in [
            "Find where retries are counted",
            "Why does it fail?\nOutput: panicked at src/retry.rs:5",
            "Look at src/a.rs: it is broken.\n\nThe rest is fine.",
            "#5 is open",
            "",
        ] {
            check(prompt, prompt);
        }
    }

    #[test]
    fn section_that_is_announced_as_task_is_used() {
        let retries = "Find where retries are counted";
        check("## Task\nFind where retries are counted\n## Context\nWe use tokio.", retries);
        check("# Context\n\nWe use tokio.\n\n# Your Task\n\nFind where retries are counted\n", retries);
        check(
            "You are helpful.\n\n**Task:**\nFind where retries are counted\n\n**Notes**\nBe brief.",
            retries,
        );
        check("# Task: Find where retries are counted\n\n## Acceptance Criteria\n\n- It has a file", retries);
        check("Task: Find where retries are counted\nContext: tokio", retries);
        check(
            "### Task Context ###\ntokio\n### Research Question ###\nFind where retries are counted",
            retries,
        );
        check(
            "## Task\nFind it.\n### Counting of retries\nIn the engine.\n### Notes\nBe brief.\n## Output Format\nJSON",
            "Find it.\nCounting of retries\nIn the engine.",
        );
    }

    #[test]
    fn labelled_prompts_of_the_specification_give_their_topic() {
        check(
            "You are the Research Agent. Investigate this topic in the codebase.\n\n\
             Topic: \"Find all places where database migrations are defined\"\n\n\
             Codebase: [relevant files]\n\nRespond with JSON:\n- response_type: \"research\"\n- status: \"success\"",
            "\"Find all places where database migrations are defined\"",
        );
        check(
            "You are the Answer Agent. Answer this question based on the codebase context.\n\n\
             Question: \"How does authentication work in this app?\"\n\n\
             Context: [relevant code snippets from auth.ts, jwt.ts, etc.]\n\nRespond with JSON:\n- message: Detailed answer",
            "\"How does authentication work in this app?\"",
        );
    }

    #[test]
    fn without_announced_task_generic_headings_and_context_are_left_out() {
        check(
            "Find where retries are counted\n\n## Context\n\nWe use tokio.",
            "Find where retries are counted",
        );
        check("# Retry counting\n\nWhere is it?\n\n# Notes\n\nBe brief.", "Retry counting\nWhere is it?");
        check("# Context\n\nWe use tokio.", "We use tokio.");
        check("## Task\n## Context\nCount retries", "Count retries");
    }

    #[test]
    fn heading_inside_code_is_text() {
        let prompt = "Explain this:\n\n```sh\n# Task\necho retry\n```";
        check(prompt, prompt);
    }

    #[test]
    fn subtask_is_searched_without_the_task_it_is_part_of() {
        check(
            "Find where retries are counted.\n\n# What It Is Part Of\n\n# Task\n\nDescribe the scheduler.\n\n\
             # Results To Build On\n\n## [t1] researcher: Look\n\nqueue.rs",
            "Find where retries are counted.",
        );
        check(
            "## Task\nFind where retries are counted.\n\n# An Earlier Attempt Failed\n\ntoo slow",
            "Find where retries are counted.",
        );
    }
}
