//! Patterns of commands that a project allows.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;
use slipform_process::program_positions;

/// Stands for one argument that is no option; as the last word, for any number of them.
const ARGUMENT: &str = "*";

/// Stands, as the last word, for any number of arguments, options included.
const ANYTHING: &str = "**";

/// A command that a project allows: words that a command must consist of, and wildcards.
///
/// A pattern without wildcards allows exactly one command. Options need a wildcard of their own, because many
/// programs have options that write files or start other programs.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct CommandPattern {
    words: Vec<String>,
}

impl CommandPattern {
    /// Returns the words of the pattern; the first is the program.
    pub fn words(&self) -> &[String] {
        &self.words
    }

    /// Returns whether the pattern allows a command.
    pub(super) fn matches(&self, argv: &[String]) -> bool {
        let (last, words) = match self.words.split_last() {
            Some((last, words)) if last == ANYTHING || last == ARGUMENT => (Some(last.as_str()), words),
            _ => (None, self.words.as_slice()),
        };
        let Some((given, rest)) = argv.split_at_checked(words.len()) else { return false };
        let are_allowed = match last {
            Some(ANYTHING) => true,
            Some(_) => rest.iter().all(|argument| is_allowed_by(ARGUMENT, argument)),
            None => rest.is_empty(),
        };
        are_allowed && words.iter().zip(given).all(|(word, argument)| is_allowed_by(word, argument))
    }

    /// Returns whether a command begins as the pattern does, whatever its arguments.
    pub(super) fn is_start_of(&self, argv: &[String]) -> bool {
        let fixed = self.words.iter().take_while(|word| !word.contains('*'));
        let mut arguments = argv.iter();
        fixed.into_iter().all(|word| arguments.next() == Some(word))
    }
}

/// Returns whether a word of a pattern allows an argument. A `*` inside a word stands for characters other than `/`, so
/// that `tests/*` does not leave its folder.
fn is_allowed_by(word: &str, argument: &str) -> bool {
    if word == ARGUMENT {
        return !argument.starts_with('-');
    }
    let Some((start, rest)) = word.split_once('*') else { return word == argument };
    if start.is_empty() && argument.starts_with('-') {
        return false;
    }
    let Some(mut remaining) = argument.strip_prefix(start) else { return false };
    let (middle, end) = rest.rsplit_once('*').unwrap_or(("", rest));
    for part in middle.split('*').filter(|part| !part.is_empty()) {
        match remaining.split_once(part) {
            Some((skipped, after)) if !skipped.contains('/') => remaining = after,
            _ => return false,
        }
    }
    remaining.strip_suffix(end).is_some_and(|skipped| !skipped.contains('/'))
}

/// Returns a command as a pattern allows it, in which each wildcard reads like the path of a file.
fn sample(words: &[String]) -> Vec<String> {
    let is_open = |word: &str| word.contains('*') && !word.starts_with('-');
    let mut sample: Vec<String> =
        words.iter().map(|word| if is_open(word) { format!("./{word}") } else { word.clone() }).collect();
    if let Some(last) = words.last().filter(|word| *word == ARGUMENT || *word == ANYTHING) {
        // The program may follow words that a wrapper takes, as in `timeout 5 PROGRAM`.
        sample.extend(std::iter::repeat_n(format!("./{last}"), 2));
    }
    sample
}

impl FromStr for CommandPattern {
    type Err = String;

    fn from_str(text: &str) -> Result<CommandPattern, String> {
        let words: Vec<String> = text.split_whitespace().map(str::to_owned).collect();
        if words.is_empty() {
            return Err("an empty command allows nothing; write one such as \"cargo test\"".to_owned());
        }
        // A wildcard for a program or a script would allow files that a tool has just written.
        let sample = sample(&words);
        let has_open_program = std::iter::once(0)
            .chain(program_positions(&sample))
            .any(|position| sample[position].contains('*'));
        if has_open_program {
            return Err(format!("'{text}' leaves open which program runs; name the program and its script"));
        }
        let last = words.len() - 1;
        if words.iter().take(last).any(|word| word == ANYTHING) {
            return Err(format!(
                "'{text}' has '{ANYTHING}' before its end; only the last word can be '{ANYTHING}'"
            ));
        }
        Ok(CommandPattern { words })
    }
}

impl TryFrom<String> for CommandPattern {
    type Error = String;

    fn try_from(text: String) -> Result<CommandPattern, String> {
        text.parse()
    }
}

impl fmt::Display for CommandPattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.words.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn word_with_wildcards_matches_within_one_path_segment() {
        for (word, argument, is_allowed) in [
            ("a*c", "abc", true),
            ("a*c", "ac", true),
            ("a*c", "a/c", false),
            ("*.rs", "-x.rs", false),
            ("*.rs", "x.rs", true),
            ("a*b*c", "a1b2c", true),
            ("a*b*c", "a1c", false),
            ("aa*aa", "aaa", false),
            ("--x=*", "--x=-1", true),
            ("*", "", true),
        ] {
            assert_eq!(is_allowed_by(word, argument), is_allowed, "{word} {argument}");
        }
    }

    #[test]
    fn pattern_that_leaves_the_program_open_is_refused() {
        for text in [
            "",
            "  ",
            "* test",
            "./bin/* x",
            "sh *",
            "sh **",
            "python3 tests/*.py",
            "env * x",
            "timeout *",
            "timeout 5 nice **",
            "git ** log",
        ] {
            assert!(text.parse::<CommandPattern>().is_err(), "{text}");
        }
        for text in [
            "cargo test",
            "cargo test *",
            "sh -c **",
            "sh tests.sh *",
            "python3 -m pytest *",
            "timeout 60 cargo test *",
            "env A=1 cargo test",
        ] {
            assert!(text.parse::<CommandPattern>().is_ok(), "{text}");
        }
    }
}
