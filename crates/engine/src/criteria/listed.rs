//! Reads the criteria that a prompt lists.
//!
//! A list under a heading about criteria holds criteria. If the prompt has no such heading, every list does,
//! except lists of instructions, such as the form of the answer.

/// The most criteria that are read. Further ones are checked once a result reports them.
const CRITERIA_MAX: usize = 256;

/// The longest criterion, in characters. Longer items are text of another kind.
const CRITERION_CHARACTERS_MAX: usize = 500;

/// Words of a heading that always introduces criteria.
const CRITERIA_WORDS: [&str; 6] =
    ["criteria", "criterion", "acceptance", "requirement", "definition of done", "checklist"];

/// Words of a heading that introduces criteria, unless it introduces instructions.
const CHECK_WORDS: [&str; 8] =
    ["check", "verify", "confirm", "ensure", "make sure", "must", "should", "conditions"];

/// Words of a heading that introduces instructions or background.
const INSTRUCTION_WORDS: [&str; 17] = [
    "respond",
    "response",
    "reply",
    "answer",
    "output",
    "format",
    "return",
    "report",
    "context",
    "background",
    "note",
    "instruction",
    "example",
    "hint",
    "codebase",
    "environment",
    "tools",
];

/// What a heading says about the list below it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Heading {
    Criteria,
    Instructions,
    Other,
}

impl Heading {
    fn of(line: &str) -> Heading {
        let line = line.to_lowercase();
        let has = |words: &[&str]| words.iter().any(|word| line.contains(word));
        if has(&CRITERIA_WORDS) {
            Heading::Criteria
        } else if has(&INSTRUCTION_WORDS) {
            Heading::Instructions
        } else if has(&CHECK_WORDS) {
            Heading::Criteria
        } else {
            Heading::Other
        }
    }
}

/// An item of a list.
struct Item {
    heading: Heading,
    indent: usize,
    text: String,
}

/// Returns the criteria that a prompt lists, in order and without duplicates.
pub(crate) fn listed_criteria(prompt: &str) -> Vec<String> {
    // The results of children are not requests.
    if prompt.trim_start().starts_with("<agent-callback") {
        return Vec::new();
    }
    let mut items = items(prompt);
    if items.is_empty() {
        items = prompt.lines().flat_map(inline_items).collect();
    }
    let has_heading = items.iter().any(|item| item.heading == Heading::Criteria);
    let wanted = if has_heading { Heading::Criteria } else { Heading::Other };
    let mut found: Vec<String> = Vec::new();
    for item in items.into_iter().filter(|item| item.heading == wanted) {
        let is_short = item.text.chars().count() <= CRITERION_CHARACTERS_MAX;
        if is_short && !item.text.is_empty() && !found.contains(&item.text) && found.len() < CRITERIA_MAX {
            found.push(item.text);
        }
    }
    found
}

/// Returns the items of all lists outside code blocks.
fn items(prompt: &str) -> Vec<Item> {
    let (mut items, mut heading, mut is_code) = (Vec::<Item>::new(), Heading::Other, false);
    // The indentation of the last item, while lines may continue it.
    let mut open: Option<usize> = None;
    for line in prompt.lines() {
        let indent = line.len() - line.trim_start().len();
        let text = line.trim();
        if text.starts_with("```") {
            is_code = !is_code;
        }
        if is_code || text.starts_with("```") {
            continue;
        }
        match (item_text(text), open) {
            _ if text.is_empty() => {}
            (Some(text), Some(above)) if indent > above + 1 => {
                // Items below an item are its details, unless it introduces them.
                if let Some(last) = items.pop_if(|last| last.indent == above && last.text.ends_with(':')) {
                    heading = last.heading;
                    open = Some(indent);
                    items.push(Item { heading, indent, text: clean(text) });
                }
            }
            (Some(text), _) => {
                open = Some(indent);
                items.push(Item { heading, indent, text: clean(text) });
            }
            (None, Some(above)) if indent > above => {
                if let Some(last) = items.last_mut() {
                    last.text = clean(&format!("{} {text}", last.text));
                }
            }
            (None, _) => {
                open = None;
                heading = Heading::of(text);
            }
        }
    }
    items.retain(|item| !item.text.ends_with(':'));
    items
}

/// Returns the text of a list item, or `None` for another line.
pub(super) fn item_text(line: &str) -> Option<&str> {
    let bullet = ['-', '*', '+', '•', '–', '◦'].iter().find_map(|bullet| line.strip_prefix(*bullet));
    let rest = bullet.or_else(|| after_number(line)).or_else(|| line.strip_prefix("[ ]").map(|_| line))?;
    let has_space = rest.starts_with(char::is_whitespace) || rest.starts_with('[');
    let text = rest.trim_start();
    let boxes = ["[ ]", "[x]", "[X]", "[]"];
    let text = boxes.iter().find_map(|checkbox| text.strip_prefix(checkbox)).unwrap_or(text);
    (has_space && !text.trim().is_empty()).then(|| text.trim())
}

/// Returns the text after a number such as `1.`, `1)` or `(1)`, or after a letter such as `a)`.
fn after_number(line: &str) -> Option<&str> {
    let (inner, is_open) = match line.strip_prefix('(') {
        Some(inner) => (inner, true),
        None => (line, false),
    };
    let digits = inner.chars().take_while(char::is_ascii_digit).count();
    let label = match digits {
        0 if inner.starts_with(|first: char| first.is_ascii_alphabetic()) => 1,
        1..=3 => digits,
        _ => return None,
    };
    let rest = &inner[label..];
    // "a. " may end a sentence, "a) " does not.
    match rest.strip_prefix(')') {
        Some(rest) => Some(rest),
        None if digits > 0 && !is_open => rest.strip_prefix('.'),
        None => None,
    }
}

/// Returns the items of a line such as `Criteria: 1. a 2. b`.
fn inline_items(line: &str) -> Vec<Item> {
    let mut starts: Vec<(usize, usize)> = Vec::new();
    let mut from = 0;
    loop {
        let number = starts.len() + 1;
        let found = [format!("{number}. "), format!("{number}) ")].into_iter().filter_map(|label| {
            let at = line[from..].match_indices(&label).map(|(at, _)| at + from).find(|at| {
                let before = line[..*at].chars().next_back();
                before.is_none_or(|before| before.is_whitespace() || before == '(')
            })?;
            Some((at, at + label.len()))
        });
        let Some(start) = found.min() else { break };
        from = start.1;
        starts.push(start);
    }
    if starts.len() < 2 {
        return Vec::new();
    }
    let heading = Heading::of(&line[..starts[0].0]);
    let ends = starts[1..].iter().map(|(at, _)| *at).chain([line.len()]);
    let texts =
        starts.iter().zip(ends).map(|((_, start), end)| clean(line[*start..end].trim_end_matches('(')));
    texts.map(|text| Item { heading, indent: 0, text }).collect()
}

/// Returns a criterion without emphasis and without the punctuation of a list.
fn clean(text: &str) -> String {
    let text = text.trim().trim_end_matches([';', ',']).trim_end();
    let inner = text.strip_prefix("**").and_then(|rest| rest.strip_suffix("**"));
    inner.filter(|inner| !inner.contains("**")).unwrap_or(text).trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(prompt: &str, expected: &[&str]) {
        assert_eq!(listed_criteria(prompt), expected, "{prompt}");
    }

    #[test]
    fn lists_under_a_heading_about_criteria_are_read() {
        check(
            "You are the Verification Agent. Check if these acceptance criteria are met.\n\nCriteria:\n\
             1. File src/auth/jwt.ts exists\n2. Function generateToken() is exported\n\nCodebase: [file contents]\n\n\
             Respond with JSON:\n- response_type: \"verification\"\n- status: \"PASS\", \"FAIL\", or \"PARTIAL\"\n",
            &["File src/auth/jwt.ts exists", "Function generateToken() is exported"],
        );
        check(
            "Context:\n- We use Rust\n\nVerify:\n- a.rs exists;\n- b.rs exists",
            &["a.rs exists", "b.rs exists"],
        );
    }

    #[test]
    fn lists_without_such_a_heading_are_read_except_instructions() {
        check("- [ ] README.md exists\n* [x] LICENSE exists\n", &["README.md exists", "LICENSE exists"]);
        check(
            "The release is complete:\n\n  1) a.md exists\n  2) b.md exists",
            &["a.md exists", "b.md exists"],
        );
        check("Is it all there?\n\nAnswer format:\n- short\n- polite\n", &[]);
    }

    #[test]
    fn items_may_span_lines_and_introduce_others() {
        check(
            "Criteria:\n1. **File a.rs exists**\n2. The guide tells how\n   to make a backup\n3. These exist:\n   - b.rs exists\n   - c.rs exists\n",
            &["File a.rs exists", "The guide tells how to make a backup", "b.rs exists", "c.rs exists"],
        );
        check("- a.rs exists\n  - it was there before\n- b.rs exists", &["a.rs exists", "b.rs exists"]);
    }

    #[test]
    fn numbers_within_a_line_are_read() {
        check("Check: 1. a.rs exists 2. b.rs contains x", &["a.rs exists", "b.rs contains x"]);
        check("Check (1) a.rs exists, (2) b.rs exists", &["a.rs exists", "b.rs exists"]);
        check("Version 1. 5 is out", &[]);
    }

    #[test]
    fn other_text_has_no_criteria() {
        for prompt in [
            "",
            "Do it",
            "Is a-b fine? It costs 3.50.",
            "```\n- not a list\n```",
            "---\n",
            "<agent-callback session=\"s\">\n- a\n- b\n",
        ] {
            check(prompt, &[]);
        }
    }
}
