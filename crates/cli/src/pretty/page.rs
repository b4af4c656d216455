//! Collects lines of text: wraps words at the line width and escapes control characters.

use super::Style;
use crate::output::escape_controls;

/// The minimum width for text, regardless of indentation.
const ROOM_MIN: usize = 20;

/// The colour of a title or mark.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Colour {
    Green,
    Red,
    Yellow,
}

impl Colour {
    fn code(self) -> &'static str {
        match self {
            Colour::Green => "32",
            Colour::Red => "31",
            Colour::Yellow => "33",
        }
    }
}

/// The lines of the formatted text.
#[derive(Debug)]
pub(super) struct Page {
    style: Style,
    lines: Vec<String>,
}

impl Page {
    pub(super) fn new(style: Style) -> Page {
        Page { style, lines: Vec::new() }
    }

    /// Returns the lines as one text, without trailing empty lines.
    pub(super) fn into_text(mut self) -> String {
        while self.lines.last().is_some_and(String::is_empty) {
            self.lines.pop();
        }
        self.lines.join("\n")
    }

    /// Adds a bold title after an empty line.
    pub(super) fn title(&mut self, text: &str, colour: Option<Colour>) {
        self.gap();
        let codes = colour.map_or("1".to_owned(), |colour| format!("1;{}", colour.code()));
        for line in self.wrapped(0, &one_line(text)) {
            let line = self.painted(&codes, &line);
            self.lines.push(line);
        }
    }

    /// Adds an empty line, unless the last line is empty or no line exists.
    pub(super) fn gap(&mut self) {
        if self.lines.last().is_some_and(|line| !line.is_empty()) {
            self.lines.push(String::new());
        }
    }

    /// Adds wrapped paragraphs.
    pub(super) fn text(&mut self, indent: usize, text: &str) {
        for line in self.wrapped(indent, text) {
            self.push(indent, "", &line);
        }
    }

    /// Adds a text after a mark; continuation lines align with the text.
    pub(super) fn item(&mut self, indent: usize, mark: &str, colour: Option<Colour>, text: &str) {
        let mark = one_line(mark);
        let below = indent + mark.chars().count() + 1;
        let shown = match colour {
            Some(colour) => self.painted(colour.code(), &mark),
            None => mark,
        };
        for (index, line) in self.wrapped(below, text).into_iter().enumerate() {
            match index {
                0 => self.push(indent, &format!("{shown} "), &line),
                _ => self.push(below, "", &line),
            }
        }
    }

    fn push(&mut self, indent: usize, lead: &str, line: &str) {
        let line = format!("{}{lead}{line}", " ".repeat(indent));
        self.lines.push(line.trim_end().to_owned());
    }

    fn painted(&self, codes: &str, text: &str) -> String {
        if self.style.is_coloured { format!("\x1b[{codes}m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// Wraps a text into at least one line.
    fn wrapped(&self, indent: usize, text: &str) -> Vec<String> {
        let room = self.style.width.saturating_sub(indent).max(ROOM_MIN);
        let text = escape_controls(text.trim_end());
        let mut lines: Vec<String> = text.split('\n').flat_map(|line| wrap(line, room)).collect();
        if lines.is_empty() {
            lines.push(String::new());
        }
        lines
    }
}

/// Joins a text into one line with single spaces.
pub(super) fn one_line(text: &str) -> String {
    escape_controls(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Wraps a line between words, and splits words that are longer than a line. Keeps the leading spaces, so that code
/// keeps its indentation.
fn wrap(line: &str, room: usize) -> Vec<String> {
    let line = line.replace('\t', "    ");
    let line = line.trim_end();
    if line.chars().count() <= room {
        return vec![line.to_owned()];
    }
    let lead = line.chars().take_while(|character| *character == ' ').count().min(room / 2);
    let mut lines = Vec::new();
    let mut current = " ".repeat(lead);
    let mut is_empty = true;
    let mut length = lead;
    for word in line.split_whitespace() {
        let mut rest: Vec<char> = word.chars().collect();
        if !is_empty && length + 1 + rest.len() > room {
            lines.push(std::mem::replace(&mut current, " ".repeat(lead)));
            (is_empty, length) = (true, lead);
        }
        while lead + rest.len() > room && is_empty {
            let tail = rest.split_off(room - lead);
            current.extend(rest);
            lines.push(std::mem::replace(&mut current, " ".repeat(lead)));
            rest = tail;
        }
        if !is_empty {
            current.push(' ');
            length += 1;
        }
        length += rest.len();
        current.extend(rest);
        is_empty = false;
    }
    lines.push(current);
    lines
}
