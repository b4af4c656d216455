//! `cargo xtask tidy`: checks rules that neither the compiler nor clippy knows.
//!
//! Sizes of files and functions, layout of modules and test suites, wording of comments, documentation and messages,
//! `match` on booleans, sleeping or ignored tests, and that the core crates do no input or output.

mod source;
mod words;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::shell::root;
use source::{Source, Token};

/// The most lines of a file. A longer file has more than one subject.
const FILE_LINES_MAX: usize = 700;

/// The most lines of a function. A longer function does not fit on a screen.
const FUNCTION_LINES_MAX: usize = 70;

/// Crates whose code is a pure function of its input.
const PURE_CRATES: [&str; 3] = ["crates/schema/src", "crates/extract/src", "crates/engine/src"];

/// Names that code of those crates must not use.
const IMPURE: [&str; 13] = [
    "std::fs",
    "std::net",
    "std::time::Instant",
    "std::time::SystemTime",
    "Instant::now",
    "SystemTime::now",
    "std::process",
    "std::env",
    // A scoped thread ends with the call that starts it and only gives it a larger stack.
    "thread::sleep",
    "thread::spawn",
    "tokio::",
    "getrandom",
    "rand::",
];

/// A violation of a rule.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    path: PathBuf,
    line: usize,
    message: String,
}

impl std::fmt::Display for Finding {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}:{}: {}", self.path.display(), self.line, self.message)
    }
}

/// Checks every file that git knows.
pub(crate) fn run() -> Result<()> {
    let mut findings = Vec::new();
    for path in tracked_files()? {
        // A file that is deleted and not committed yet has nothing to check.
        let Ok(text) = fs::read_to_string(root().join(&path)) else { continue };
        findings.extend(check_file(&path, &text));
    }
    for finding in &findings {
        eprintln!("{finding}");
    }
    if findings.is_empty() {
        return Ok(());
    }
    bail!("tidy: {} violations", findings.len())
}

fn tracked_files() -> Result<Vec<PathBuf>> {
    let output = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .context("cannot run git; install it")?;
    Ok(String::from_utf8(output.stdout)?.lines().map(PathBuf::from).collect())
}

fn check_file(path: &Path, text: &str) -> Vec<Finding> {
    let mut findings = Findings { path, list: Vec::new() };
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("rs") => check_rust(path, text, &mut findings),
        Some("md") => {
            for (number, line) in words::prose_lines(text) {
                findings.check_words(number, line);
            }
        }
        Some("py" | "sh" | "toml" | "sql" | "yaml" | "yml") => {
            for (number, line) in words::comment_lines(text) {
                findings.check_words(number, line);
            }
        }
        _ => {}
    }
    findings.list
}

fn check_rust(path: &Path, text: &str, findings: &mut Findings<'_>) {
    let lines = text.lines().count();
    if lines > FILE_LINES_MAX {
        findings.add(1, format!("the file has {lines} lines; split it, {FILE_LINES_MAX} are allowed"));
    }
    if path.file_name().is_some_and(|name| name == "mod.rs") {
        findings.add(1, "rename `foo/mod.rs` to `foo.rs`".to_owned());
    }
    if is_flat_suite(path) {
        findings
            .add(1, "move `tests/foo.rs` to `tests/foo/main.rs`, or into a suite of the crate".to_owned());
    }
    let source = Source::parse(text);
    for (name, first, length) in source.functions().filter(|(_, _, length)| *length > FUNCTION_LINES_MAX) {
        let message = format!("`{name}` has {length} lines; split it, {FUNCTION_LINES_MAX} are allowed");
        findings.add(first, message);
    }
    for line in source.boolean_matches() {
        findings.add(line, "write `if` and `else` instead of `match` on a boolean".to_owned());
    }
    for token in source.tokens() {
        match token {
            Token::Comment { line, text } => findings.check_words(*line, text),
            Token::Text { line, text } => {
                // Strings of tests are fixtures: replies of models, names of agents.
                let is_fixture = is_test(path) || source.is_in_unit_tests(*line);
                if !is_fixture && !words::is_read_by_models(path) {
                    findings.check_words(*line, text);
                }
            }
        }
    }
    check_code(path, &source, findings);
}

/// Checks rules about names that code must not use.
fn check_code(path: &Path, source: &Source, findings: &mut Findings<'_>) {
    let is_pure = PURE_CRATES.iter().any(|folder| path.starts_with(folder));
    for (line, text) in source.code() {
        if text.contains("#[path") {
            findings.add(line, "remove `#[path]`: put the file where its module is".to_owned());
        }
        if text.contains("#[ignore") {
            findings.add(line, "remove `#[ignore]`: fix the test, or print SKIPPED and why".to_owned());
        }
        if is_in_suite(path) && text.contains("sleep(") {
            findings.add(line, "wait for a condition with `testkit::wait_until` or `elapse`".to_owned());
        }
        for name in IMPURE.iter().filter(|name| is_pure && text.contains(**name)) {
            findings.add(line, format!("this crate is pure and must not use `{name}`"));
        }
    }
}

fn is_test(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str() == "tests" || part.as_os_str() == "testkit")
}

/// Returns whether a file belongs to an integration suite.
fn is_in_suite(path: &Path) -> bool {
    // Unit tests may have a folder `tests` below `src`.
    path.components()
        .map(std::path::Component::as_os_str)
        .take_while(|part| *part != "src")
        .any(|part| part == "tests")
}

/// Returns whether a file is an integration suite without a folder.
fn is_flat_suite(path: &Path) -> bool {
    is_in_suite(path) && path.parent().is_some_and(|folder| folder.ends_with("tests"))
}

/// The violations found in one file.
struct Findings<'a> {
    path: &'a Path,
    list: Vec<Finding>,
}

impl Findings<'_> {
    fn add(&mut self, line: usize, message: String) {
        self.list.push(Finding { path: self.path.to_owned(), line, message });
    }

    fn check_words(&mut self, line: usize, text: &str) {
        for word in words::unwanted(self.path, text) {
            self.add(line, format!("reword `{word}`: name the actor and use the field's term"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(path: &str, text: &str) -> Vec<String> {
        check_file(Path::new(path), text).into_iter().map(|finding| finding.to_string()).collect()
    }

    #[test]
    fn unwanted_words_are_found_in_comments_messages_and_docs() {
        let code = "/// Told to whoever waits.\nfn f() { g(\"it is none\"); } // no comment\n";
        assert_eq!(messages("a.rs", code).len(), 2, "{:?}", messages("a.rs", code));
        assert_eq!(messages("a.md", "Nobody waits.\n\n```text\nnobody\n```\n").len(), 1);
        assert_eq!(messages("a.sql", "-- not any more\nSELECT 'nobody';\n").len(), 1);
        assert_eq!(messages("crates/x/tests/y/a.rs", "fn f() { g(\"nobody\"); }\n"), [""; 0]);
    }

    #[test]
    fn layout_sizes_and_purity_are_checked() {
        assert_eq!(messages("crates/x/src/mod.rs", "").len(), 1);
        assert_eq!(messages("a.rs", "#[path = \"b.rs\"]\nmod b;\n").len(), 1);
        assert_eq!(messages("crates/engine/src/a.rs", "use std::fs;\n").len(), 1);
        assert_eq!(messages("crates/engine/src/a.rs", "use std::process;\n").len(), 1);
        assert_eq!(messages("crates/runner/src/a.rs", "use std::fs;\n"), [""; 0]);
        let long = format!("fn f() {{\n{}}}\n", "    g();\n".repeat(FUNCTION_LINES_MAX));
        assert_eq!(messages("a.rs", &long).len(), 1);
        assert_eq!(messages("a.rs", &"\n".repeat(FILE_LINES_MAX + 1)).len(), 1);
    }

    #[test]
    fn flat_suites_sleeps_and_ignored_tests_are_found() {
        assert_eq!(messages("crates/x/tests/y.rs", "").len(), 1);
        assert_eq!(messages("crates/x/tests/y/main.rs", ""), [""; 0]);
        assert_eq!(messages("crates/x/src/y/tests.rs", ""), [""; 0]);
        let sleeping = "fn f() {\n    std::thread::sleep(PAUSE);\n}\n";
        assert_eq!(messages("crates/x/tests/y/main.rs", sleeping).len(), 1);
        assert_eq!(messages("crates/testkit/src/wait.rs", sleeping), [""; 0]);
        assert_eq!(messages("crates/x/tests/y/main.rs", "const A: &str = \"sleep(1)\";\n"), [""; 0]);
        assert_eq!(messages("crates/x/src/a.rs", "#[ignore]\nfn f() {}\n").len(), 1);
    }

    #[test]
    fn match_on_a_boolean_is_found_and_match_on_a_tuple_is_not() {
        let boolean = "fn f() {\n    match a() {\n        true => 1,\n        false => 2,\n    };\n}\n";
        assert_eq!(messages("a.rs", boolean).len(), 1);
        let tuple = "fn f() {\n    match (a(), b()) {\n        (true, _) => 1,\n        _ => 2,\n    };\n}\n";
        assert_eq!(messages("a.rs", tuple), [""; 0]);
    }
}
