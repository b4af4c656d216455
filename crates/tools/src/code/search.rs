//! The tool `code:search` and its alias.

use std::sync::PoisonError;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use slipform_types::ToolDefinition;

use super::rank::Query;
use super::terms::query_terms;
use crate::Error;
use crate::definition::define;
use crate::project::{Cancellation, Project, ProjectPath, cut, parse_arguments};
use crate::result::structured;

pub(super) const NAME: &str = "code:search";

/// An alias for agents that were written for the `mind:rag-query` tool.
pub(super) const ALIAS: &str = "mind:rag-query";

/// Default and maximum number of results. Lower ranks seldom help.
const RESULTS_DEFAULT: usize = 10;
const RESULTS_MAX: usize = 50;

/// Number of chunks whose text is read for each requested result.
const CANDIDATES: usize = 4;

/// Maximum text of one result. `fs:read` returns the rest.
const TEXT_CHARACTERS_MAX: usize = 2_000;

/// Length of a query's prefix that is used. A longer query matches too much to rank well.
const QUERY_CHARACTERS_MAX: usize = 2_000;

const DESCRIPTION: &str = "Finds the places in the project's files that fit a question or some words best. \
                           For an exact text or a regular expression use fs:search.";

#[derive(Deserialize)]
struct Arguments {
    #[serde(alias = "text")]
    query: String,
    limit: Option<usize>,
    path: Option<String>,
}

#[derive(Serialize)]
struct Output {
    results: Vec<Hit>,
    indexed_files: usize,
    refreshed_files: usize,
    truncated: bool,
}

#[derive(Serialize)]
struct Hit {
    path: String,
    first_line: u32,
    last_line: u32,
    score: f64,
    text: String,
}

pub(super) fn definition() -> ToolDefinition {
    let parameters = json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["query"],
        "properties": {
            "query": query("What to look for, such as: how sessions expire"),
            "limit": limit(),
            "path": path(),
        },
    });
    define(NAME, DESCRIPTION, parameters, Some(output()))
}

pub(super) fn alias() -> ToolDefinition {
    let parameters = json!({
        "type": "object",
        "additionalProperties": false,
        "oneOf": [{"required": ["text"]}, {"required": ["query"]}],
        "properties": {
            "text": query("What to look for, such as: how sessions expire"),
            "query": query("The same as text; give one of them"),
            "mode": {"type": "string", "description": "Without effect: there is one way to search"},
            "limit": limit(),
            "path": path(),
        },
    });
    define(ALIAS, DESCRIPTION, parameters, Some(output()))
}

fn query(description: &str) -> Value {
    json!({"type": "string", "minLength": 1, "description": description})
}

fn limit() -> Value {
    json!({"type": "integer", "minimum": 1, "maximum": RESULTS_MAX, "description": "How many results. Default: 10"})
}

fn path() -> Value {
    json!({"type": "string", "description": "File or folder to look in. Default: the whole project"})
}

fn output() -> Value {
    json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["results", "indexed_files", "refreshed_files", "truncated"],
        "properties": {
            "results": {
                "type": "array",
                "description": "Best first",
                "items": {
                    "type": "object",
                    "additionalProperties": false,
                    "required": ["path", "first_line", "last_line", "score", "text"],
                    "properties": {
                        "path": {"type": "string"},
                        "first_line": {"type": "integer", "minimum": 1},
                        "last_line": {"type": "integer", "minimum": 1},
                        "score": {"type": "number", "minimum": 0},
                        "text": {"type": "string", "description": "The lines, cut if they are long"},
                    },
                },
            },
            "indexed_files": {"type": "integer", "minimum": 0},
            "refreshed_files": {"type": "integer", "minimum": 0, "description": "Files read anew for this search"},
            "truncated": {"type": "boolean", "description": "The project is too large to be searched whole"},
        },
    })
}

pub(super) fn run(project: &Project, arguments: &Value, cancel: &Cancellation) -> Result<Value, Error> {
    let Arguments { query, limit, path } = parse_arguments(arguments)?;
    let terms = query_terms(cut(&query, QUERY_CHARACTERS_MAX).0);
    if terms.is_empty() {
        return Err(Error::Arguments(format!(
            "'{query}' has no word to look for; give words, or use fs:search for signs"
        )));
    }
    let start = project.locate(path.as_deref().unwrap_or("."))?;
    project.metadata(&start)?;
    let folder = start.prefix();
    let within = |path: &str| folder.is_empty() || path == start.as_str() || path.starts_with(&folder);
    let mut index = project.index.lock().unwrap_or_else(PoisonError::into_inner);
    let refreshed_files = index.refresh(project, cancel)?;
    let limit = limit.unwrap_or(RESULTS_DEFAULT).clamp(1, RESULTS_MAX);
    let ranking = Query::new(&index, terms);
    let mut results = Vec::new();
    for hit in ranking.rank(&index, limit * CANDIDATES, within) {
        cancel.check()?;
        let (first_line, last_line) = (hit.chunk.first_line, hit.chunk.last_line);
        // Skip files that were removed since the refresh.
        if let Some(text) = lines(project, hit.path, first_line, last_line) {
            let score = (ranking.refine(hit.score, hit.path, &text) * 1_000.0).round() / 1_000.0;
            let text = cut(&text, TEXT_CHARACTERS_MAX).0.to_owned();
            results.push(Hit { path: hit.path.to_owned(), first_line, last_line, score, text });
        }
    }
    results.sort_by(|one, other| other.score.total_cmp(&one.score));
    results.truncate(limit);
    structured(&Output {
        results,
        indexed_files: index.files.len(),
        refreshed_files,
        truncated: !index.complete,
    })
}

fn lines(project: &Project, path: &str, first_line: u32, last_line: u32) -> Option<String> {
    let bytes = project.read(&ProjectPath::trusted(path.to_owned())).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let count = (last_line + 1).saturating_sub(first_line) as usize;
    let lines: Vec<&str> = text.lines().skip(first_line.saturating_sub(1) as usize).take(count).collect();
    Some(lines.join("\n"))
}
