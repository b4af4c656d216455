//! Rust source, split into comments, string literals and code.

/// A comment or string within one line.
#[derive(Debug)]
pub(crate) enum Token {
    Comment { line: usize, text: String },
    Text { line: usize, text: String },
}

/// A source file.
pub(crate) struct Source {
    tokens: Vec<Token>,
    /// Lines of code with comments and the content of strings blanked out.
    code: Vec<String>,
    /// First line of the unit tests, if there are any.
    unit_tests: Option<usize>,
}

impl Source {
    /// Splits a file. The lexer knows line and block comments, strings, raw strings and character literals.
    pub(crate) fn parse(text: &str) -> Source {
        let mut lexer = Lexer { rest: text, line: 1, tokens: Vec::new(), code: String::new() };
        lexer.run();
        let Lexer { tokens, code, .. } = lexer;
        let unit_tests = text.lines().position(|line| line == "#[cfg(test)]").map(|index| index + 1);
        Source { tokens, code: code.lines().map(str::to_owned).collect(), unit_tests }
    }

    pub(crate) fn tokens(&self) -> &[Token] {
        &self.tokens
    }

    /// Returns the lines of code with their numbers, without comments and the content of strings.
    pub(crate) fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.code.iter().map(String::as_str))
    }

    pub(crate) fn is_in_unit_tests(&self, line: usize) -> bool {
        self.unit_tests.is_some_and(|first| line >= first)
    }

    /// Returns name, first line and length of each function. rustfmt puts the closing brace at the function's
    /// indentation.
    pub(crate) fn functions(&self) -> impl Iterator<Item = (String, usize, usize)> {
        self.code.iter().enumerate().filter_map(|(index, line)| {
            let name = function_name(line)?;
            let indentation = &line[..line.len() - line.trim_start().len()];
            let end = format!("{indentation}}}");
            let mut rest = self.code[index..].iter();
            let length = rest.clone().position(|line| *line == end)? + 1;
            // A declaration without a body ends with a semicolon.
            let signature_end = rest.find(|line| line.trim_end().ends_with(['{', '}', ';']))?;
            (!signature_end.trim_end().ends_with(';')).then(|| (name.to_owned(), index + 1, length))
        })
    }

    /// Returns the lines of `match` expressions whose arms are `true` and `false`.
    pub(crate) fn boolean_matches(&self) -> impl Iterator<Item = usize> {
        let is_arm = |line: &&String| {
            let arm = line.trim_start();
            arm.starts_with("true =>") || arm.starts_with("false =>")
        };
        self.code.windows(2).enumerate().filter_map(move |(index, lines)| {
            let opens = lines[0].contains("match ") && lines[0].trim_end().ends_with('{');
            (opens && is_arm(&&lines[1])).then_some(index + 1)
        })
    }
}

fn function_name(line: &str) -> Option<&str> {
    let mut rest = line.trim_start();
    for qualifier in ["pub(crate) ", "pub(super) ", "pub ", "const ", "async ", "unsafe "] {
        rest = rest.strip_prefix(qualifier).unwrap_or(rest);
    }
    let name = rest.strip_prefix("fn ")?;
    name.split(|character: char| !character.is_alphanumeric() && character != '_').next()
}

struct Lexer<'a> {
    rest: &'a str,
    line: usize,
    tokens: Vec<Token>,
    code: String,
}

impl Lexer<'_> {
    fn run(&mut self) {
        while !self.rest.is_empty() {
            if self.rest.starts_with("//") {
                let length = self.rest.find('\n').unwrap_or(self.rest.len());
                self.take_comment(length);
            } else if self.rest.starts_with("/*") {
                let length = self.rest.find("*/").map_or(self.rest.len(), |end| end + 2);
                self.take_comment(length);
            } else if let Some((open, close)) = raw_string(self.rest) {
                let body = &self.rest[open..];
                let length = body.find(&close).unwrap_or(body.len());
                self.take_text(open, length, close.len());
            } else if self.rest.starts_with('"') {
                let length = string_length(&self.rest[1..]);
                self.take_text(1, length, 1);
            } else if let Some(length) = character_literal(self.rest) {
                self.take_code(length);
            } else {
                let length = self.rest.find(['/', '"', '\'', 'r', 'b']).unwrap_or(self.rest.len()).max(1);
                let length = (length..=self.rest.len()).find(|end| self.rest.is_char_boundary(*end));
                self.take_code(length.unwrap_or(self.rest.len()));
            }
        }
    }

    fn take_comment(&mut self, length: usize) {
        let (comment, rest) = self.rest.split_at(length);
        for (offset, text) in comment.lines().enumerate() {
            self.tokens.push(Token::Comment { line: self.line + offset, text: text.to_owned() });
        }
        self.advance(comment, rest);
    }

    fn take_text(&mut self, open: usize, length: usize, close: usize) {
        let end = (open + length + close).min(self.rest.len());
        let (whole, rest) = self.rest.split_at(end);
        let text = &whole[open..(open + length).min(whole.len())];
        for (offset, text) in text.lines().enumerate() {
            self.tokens.push(Token::Text { line: self.line + offset, text: text.to_owned() });
        }
        self.code.push('"');
        self.advance(whole, rest);
        self.code.push('"');
    }

    fn take_code(&mut self, length: usize) {
        let (code, rest) = self.rest.split_at(length);
        self.code.push_str(code);
        self.line += code.matches('\n').count();
        self.rest = &self.rest[length..];
        debug_assert_eq!(self.rest.len(), rest.len());
    }

    /// Passes over what is not code, and keeps its line ends.
    fn advance(&mut self, taken: &str, rest: &str) {
        let ends = taken.matches('\n').count();
        self.code.push_str(&"\n".repeat(ends));
        self.line += ends;
        self.rest = &self.rest[self.rest.len() - rest.len()..];
    }
}

/// Returns the length of a raw string's opening and its closing, if the text begins with one.
fn raw_string(text: &str) -> Option<(usize, String)> {
    let after = text.strip_prefix("br").or_else(|| text.strip_prefix('r'))?;
    let hashes = after.len() - after.trim_start_matches('#').len();
    let open = text.len() - after.len() + hashes + 1;
    after[hashes..].starts_with('"').then(|| (open, format!("\"{}", "#".repeat(hashes))))
}

/// Returns the length of a string's content; the text begins behind the opening quote.
fn string_length(text: &str) -> usize {
    let mut is_escaped = false;
    for (index, character) in text.char_indices() {
        match character {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => return index,
            _ => {}
        }
    }
    text.len()
}

/// Returns the length of a character literal, if the text begins with one. A lifetime has no closing quote.
fn character_literal(text: &str) -> Option<usize> {
    let body = text.strip_prefix('\'')?;
    let mut characters = body.char_indices();
    let (_, first) = characters.next()?;
    let end = if first == '\\' {
        body.char_indices().skip(2).find(|(_, character)| *character == '\'').map(|(index, _)| index)?
    } else {
        characters.next().filter(|(_, character)| *character == '\'').map(|(index, _)| index)?
    };
    Some(end + 2)
}
