//! `fs:search`: finds lines that match a regular expression.

use std::ops::ControlFlow;

use grep_matcher::{LineTerminator, Matcher as _};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::sinks::Lossy;
use grep_searcher::{BinaryDetection, Searcher, SearcherBuilder};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use slipform_types::ToolDefinition;

use super::RESULT_CHARACTERS_MAX;
use super::globs::{Globs, PATTERN_CHARACTERS_MAX};
use crate::Error;
use crate::definition::define;
use crate::project::{
    Cancellation, EntryKind, FILE_BYTES_MAX, Project, ProjectPath, Walk, WalkEntry, cut, is_binary,
    parse_arguments,
};
use crate::result::structured;

pub(super) const NAME: &str = "fs:search";

/// Default and maximum number of lines in one result, because a model reads all of them. The rest is omitted
/// and the result is marked as truncated.
const RESULTS_DEFAULT: usize = 50;
const RESULTS_MAX: usize = 200;

/// Maximum number of context lines before and after a match. `fs:read` returns more.
const CONTEXT_MAX: usize = 5;

/// Maximum length of a returned line. Longer lines are usually generated; only the part around the match is
/// returned.
const LINE_CHARACTERS_MAX: usize = 400;

/// Number of characters before the match in an excerpt of a long line.
const BEFORE_MATCH_CHARACTERS: usize = 100;

/// Maximum size of a compiled pattern. A larger one is refused to bound memory.
const PATTERN_BYTES_MAX: usize = 8 * 1024 * 1024;

#[derive(Deserialize)]
struct Arguments {
    pattern: String,
    path: Option<String>,
    glob: Option<String>,
    ignore_case: Option<bool>,
    literal: Option<bool>,
    max_results: Option<usize>,
    context: Option<usize>,
}

#[derive(Serialize)]
struct Output {
    matches: Vec<Line>,
    files_searched: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    files_too_large: Option<usize>,
    truncated: bool,
}

#[derive(Serialize)]
struct Line {
    path: String,
    line: u64,
    text: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    before: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    after: Vec<String>,
}

pub(super) fn definition() -> ToolDefinition {
    let lines = json!({"type": "array", "items": {"type": "string"}});
    define(
        NAME,
        "Searches the project's text files line by line for a regular expression. Files that .gitignore excludes are left out.",
        json!({
            "type": "object",
            "additionalProperties": false,
            "required": ["pattern"],
            "properties": {
                "pattern": {"type": "string", "minLength": 1, "maxLength": PATTERN_CHARACTERS_MAX, "description": "Regular expression, such as fn \\w+_total"},
                "path": {"type": "string", "description": "File or folder to search. Default: the whole project"},
                "glob": {"type": "string", "minLength": 1, "maxLength": PATTERN_CHARACTERS_MAX, "description": "Only files that fit, relative to path: *.rs, src/**/*.ts, !*.md"},
                "ignore_case": {"type": "boolean", "description": "Take upper and lower case for the same. Default: false"},
                "literal": {"type": "boolean", "description": "The pattern is plain text, not a regular expression. Default: false"},
                "max_results": {"type": "integer", "minimum": 1, "maximum": RESULTS_MAX, "description": "Default: 50"},
                "context": {"type": "integer", "minimum": 0, "maximum": CONTEXT_MAX, "description": "Lines to give before and after each match. Default: 0"},
            },
        }),
        Some(json!({
            "type": "object",
            "additionalProperties": false,
            "required": ["matches", "files_searched", "truncated"],
            "properties": {
                "matches": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "additionalProperties": false,
                        "required": ["path", "line", "text"],
                        "properties": {
                            "path": {"type": "string"},
                            "line": {"type": "integer", "minimum": 1},
                            "text": {"type": "string"},
                            "before": lines,
                            "after": lines,
                        },
                    },
                },
                "files_searched": {"type": "integer", "minimum": 0},
                "files_too_large": {"type": "integer", "minimum": 1, "description": "Files left out for their size"},
                "truncated": {"type": "boolean", "description": "There may be more matches than given"},
            },
        })),
    )
}

pub(super) fn run(project: &Project, arguments: &Value, cancel: &Cancellation) -> Result<Value, Error> {
    let arguments: Arguments = parse_arguments(arguments)?;
    let path = project.locate(arguments.path.as_deref().unwrap_or("."))?;
    let globs = Globs::compile(arguments.glob.as_deref(), &path.prefix())?;
    let mut search = Search::new(&arguments)?;
    let mut visit = |found: WalkEntry| {
        if found.kind != EntryKind::File || !globs.is_match(&found.path) {
            return Ok(ControlFlow::Continue(()));
        }
        if found.metadata.is_some_and(|metadata| metadata.len() > FILE_BYTES_MAX) {
            search.too_large += 1;
            return Ok(ControlFlow::Continue(()));
        }
        match project.read(&ProjectPath::trusted(found.path.clone())) {
            Ok(bytes) => search.file(&found.path, &bytes, cancel)?,
            Err(error) if found.path == path.as_str() => return Err(error),
            // Skip unreadable files that the walk found: they may hold keys or have been removed since.
            Err(_) => {}
        }
        Ok(if search.full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    };
    let complete = Walk::new(project, cancel, &mut visit).run(&path)?;
    structured(&Output {
        matches: search.found,
        files_searched: search.searched,
        files_too_large: (search.too_large > 0).then_some(search.too_large),
        truncated: !complete,
    })
}

/// The state of a search in progress.
struct Search {
    matcher: RegexMatcher,
    searcher: Searcher,
    results_max: usize,
    context: usize,
    found: Vec<Line>,
    characters: usize,
    searched: usize,
    too_large: usize,
    /// True once a match was found that exceeds a limit.
    full: bool,
}

impl Search {
    fn new(arguments: &Arguments) -> Result<Search, Error> {
        let matcher = RegexMatcherBuilder::new()
            .multi_line(true)
            .crlf(true)
            .size_limit(PATTERN_BYTES_MAX)
            .dfa_size_limit(PATTERN_BYTES_MAX)
            .case_insensitive(arguments.ignore_case == Some(true))
            .fixed_strings(arguments.literal == Some(true))
            .build(&arguments.pattern)
            .map_err(|error| Error::Pattern {
                pattern: arguments.pattern.clone(),
                reason: format!(
                    "{error}; lines are searched one by one, and literal: true takes it as plain text"
                ),
            })?;
        let searcher = SearcherBuilder::new()
            .line_terminator(LineTerminator::crlf())
            .binary_detection(BinaryDetection::quit(0))
            .build();
        Ok(Search {
            matcher,
            searcher,
            results_max: arguments.max_results.unwrap_or(RESULTS_DEFAULT).clamp(1, RESULTS_MAX),
            context: arguments.context.unwrap_or(0).min(CONTEXT_MAX),
            found: Vec::new(),
            characters: 0,
            searched: 0,
            too_large: 0,
            full: false,
        })
    }

    fn file(&mut self, path: &str, bytes: &[u8], cancel: &Cancellation) -> Result<(), Error> {
        if is_binary(bytes) {
            return Ok(());
        }
        self.searched += 1;
        let Search { matcher, searcher, results_max, context, found, characters, full, .. } = self;
        let all: Vec<&[u8]> =
            if *context > 0 { bytes.split(|byte| *byte == b'\n').collect() } else { Vec::new() };
        let mut stopped = Ok(());
        let sink = Lossy(|number, line| {
            stopped = cancel.check();
            *full = found.len() == *results_max || *characters >= RESULT_CHARACTERS_MAX;
            if stopped.is_err() || *full {
                return Ok(false);
            }
            let line = Line {
                path: path.to_owned(),
                line: number,
                text: excerpt(line.trim_end_matches(['\r', '\n']), matcher),
                before: around(&all, number, *context, true),
                after: around(&all, number, *context, false),
            };
            *characters += std::iter::once(&line.text)
                .chain(&line.before)
                .chain(&line.after)
                .map(|text| text.chars().count())
                .sum::<usize>();
            found.push(line);
            Ok(true)
        });
        searcher
            .search_slice(&*matcher, bytes, sink)
            .map_err(|error| Error::Failed(format!("'{path}' cannot be searched: {error}")))?;
        stopped
    }
}

/// Returns a line, or the part of a long line around the match.
fn excerpt(line: &str, matcher: &RegexMatcher) -> String {
    if !cut(line, LINE_CHARACTERS_MAX).1 {
        return line.to_owned();
    }
    let found = matcher.find(line.as_bytes()).ok().flatten().map_or(0, |found| found.start());
    let before = line.get(..found).unwrap_or_default();
    let start = before.char_indices().rev().nth(BEFORE_MATCH_CHARACTERS - 1).map_or(0, |(start, _)| start);
    let (part, more) = cut(&line[start..], LINE_CHARACTERS_MAX);
    format!("{}{part}{}", if start > 0 { "…" } else { "" }, if more { "…" } else { "" })
}

/// Returns up to `count` lines before or after a line.
fn around(lines: &[&[u8]], number: u64, count: usize, before: bool) -> Vec<String> {
    let index = usize::try_from(number).unwrap_or(usize::MAX).saturating_sub(1).min(lines.len());
    let mut range = if before {
        index.saturating_sub(count)..index
    } else {
        (index + 1).min(lines.len())..(index + 1 + count).min(lines.len())
    };
    // The empty text after the final line terminator is not a line.
    if range.end == lines.len() && lines.last().is_some_and(|last| last.is_empty()) && !range.is_empty() {
        range.end -= 1;
    }
    lines[range]
        .iter()
        .map(|line| {
            let line = String::from_utf8_lossy(line);
            cut(line.trim_end_matches('\r'), LINE_CHARACTERS_MAX).0.to_owned()
        })
        .collect()
}
