//! Loads agent files. Every file gives an agent or its problems.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::document::{Document, Format};
use crate::surroundings::Surroundings;
use crate::{Checked, Error, Problem, Problems, blueprint};

/// The folder of a project's agents.
pub const AGENTS_FOLDER: &str = "agents";

/// The folder of agents that were written for the `kb` command line.
pub const KB_AGENTS_FOLDER: &str = ".kb/agents";

/// The maximum size of an agent file, in bytes. Agents are a few kilobytes; a larger file is
/// refused before it is read into memory.
pub const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// The file names that define the agent of a folder.
const FOLDER_FILES: [&str; 3] = ["agent.yaml", "agent.yml", "agent.json"];

/// The file beside them that holds the system prompt.
const PROMPT_FILE: &str = "system-prompt.md";

/// An agent file with the result of loading it.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    /// The name in the definition, or the file name if it has none or is refused.
    pub name: String,
    /// The agent file, or the folder if it has no unique agent file.
    pub path: PathBuf,
    /// The agent, or all of its problems.
    pub result: Result<Checked, Problems>,
}

/// Loads every agent of a folder, sorted by name: `NAME.{yaml,yml,json}` and
/// `NAME/agent.{yaml,yml,json}`.
///
/// An invalid file does not affect the others. A missing folder has no agents. Hidden entries and
/// files with other extensions are skipped.
///
/// # Errors
/// Returns an error if the folder cannot be listed.
pub fn load(folder: &Path) -> Result<Vec<Loaded>, Error> {
    load_folder(folder, None)
}

/// Loads every agent of a project, sorted by name: those of `agents/`, and those of `.kb/agents/` whose
/// names `agents/` does not have. An agent that replaces one of `.kb/agents/` has a warning.
///
/// With `surroundings`, everything that the agents refer to is checked too.
///
/// # Errors
/// Returns an error if a folder cannot be listed.
pub fn load_project(project: &Path, surroundings: Option<&Surroundings<'_>>) -> Result<Vec<Loaded>, Error> {
    let mut loaded = load_folder(&project.join(AGENTS_FOLDER), surroundings)?;
    for other in load_folder(&project.join(KB_AGENTS_FOLDER), surroundings)? {
        match loaded.iter_mut().find(|own| own.name == other.name) {
            None => loaded.push(other),
            Some(own) => {
                if let Ok(checked) = &mut own.result {
                    let message = format!(
                        "{} defines the agent `{}` too and is not used; {AGENTS_FOLDER}/ takes precedence",
                        other.path.strip_prefix(project).unwrap_or(&other.path).display(),
                        own.name
                    );
                    checked.warnings.push(Problem::new("$", message));
                }
            }
        }
    }
    loaded.sort_by(|one, other| (&one.name, &one.path).cmp(&(&other.name, &other.path)));
    Ok(loaded)
}

fn load_folder(folder: &Path, surroundings: Option<&Surroundings<'_>>) -> Result<Vec<Loaded>, Error> {
    let refused = |source| Error::Folder { path: folder.to_owned(), source };
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(refused(error)),
    };
    let mut loaded = Vec::new();
    for entry in entries {
        let path = entry.map_err(refused)?.path();
        let is_hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        let is_agent = if path.is_dir() {
            FOLDER_FILES.iter().any(|file| entry_exists(&path.join(file)))
        } else {
            Format::of(&path).is_some()
        };
        if is_agent && !is_hidden {
            loaded.push(load_path(&path, surroundings));
        }
    }
    loaded.sort_by(|one, other| (&one.name, &one.path).cmp(&(&other.name, &other.path)));
    refuse_duplicates(&mut loaded);
    Ok(loaded)
}

/// Loads an agent from a file, or from a folder with an `agent.{yaml,yml,json}`.
pub fn load_one(path: &Path) -> Loaded {
    load_path(path, None)
}

/// As [`load_one`], and checks what the agent refers to.
pub fn load_one_in(path: &Path, surroundings: &Surroundings<'_>) -> Loaded {
    load_path(path, Some(surroundings))
}

fn load_path(path: &Path, surroundings: Option<&Surroundings<'_>>) -> Loaded {
    let is_folder = path.is_dir();
    let file = match if is_folder { find_agent_file(path) } else { Ok(path.to_owned()) } {
        Ok(file) => file,
        Err(problem) => {
            return Loaded { name: stem(path), path: path.to_owned(), result: Err(problem.into()) };
        }
    };
    let is_named_by_folder = FOLDER_FILES.iter().any(|name| file.ends_with(name));
    let folder = file.parent().filter(|_| is_named_by_folder);
    let fallback = stem(folder.unwrap_or(&file));
    let result = read_file(&file, folder, &fallback, surroundings);
    let name = result.as_ref().map_or(fallback, |checked| checked.blueprint.name.clone());
    Loaded { name, path: file, result }
}

/// Parses and checks the text of an agent. `fallback_name` is used if the definition has no name.
///
/// # Errors
/// Returns every problem, with its line for YAML.
pub fn parse(text: &str, format: Format, fallback_name: Option<&str>) -> Result<Checked, Problems> {
    let document = Document::read(text, format)?;
    check(&document, document.value.clone(), fallback_name, None)
}

fn check(
    document: &Document,
    value: Value,
    fallback_name: Option<&str>,
    surroundings: Option<&Surroundings<'_>>,
) -> Result<Checked, Problems> {
    let mut result = blueprint::check_in(&value, fallback_name, surroundings);
    match &mut result {
        Ok(checked) => document.locate(&mut checked.warnings),
        Err(problems) => document.locate(&mut problems.list),
    }
    result
}

fn read_file(
    file: &Path,
    folder: Option<&Path>,
    fallback: &str,
    surroundings: Option<&Surroundings<'_>>,
) -> Result<Checked, Problems> {
    let Some(format) = Format::of(file) else {
        return Err(Problem::new("$", "agents are .yaml, .yml or .json files").into());
    };
    let document = Document::read(&read_text(file)?, format)?;
    let mut value = document.value.clone();
    let prompt = folder.map(|folder| folder.join(PROMPT_FILE)).filter(|prompt| entry_exists(prompt));
    let Some(prompt) = prompt else { return check(&document, value, Some(fallback), surroundings) };
    let path = match add_prompt(&mut value, file, &prompt) {
        Ok(path) => path,
        Err(mut problems) => {
            // The other problems of the file are reported at the same time.
            if let Err(others) = check(&document, value, Some(fallback), surroundings) {
                problems.list.extend(others.list);
                problems.more += others.more;
            }
            return Err(problems);
        }
    };
    check(&document, value, Some(fallback), surroundings).map_err(|mut problems| {
        for problem in problems.list.iter_mut().filter(|problem| problem.path == path) {
            // The line belongs to the agent file, but the problem is in the prompt file.
            problem.line = None;
            problem.message = format!("in {}: {}", prompt.display(), problem.message);
        }
        problems
    })
}

/// Inserts the text of the prompt file as the system prompt and returns its path in the definition.
fn add_prompt(value: &mut Value, file: &Path, prompt: &Path) -> Result<&'static str, Problems> {
    let Value::Object(definition) = value else { return Ok("$") };
    let is_kb = crate::kb::is_kb(definition);
    let (path, place) = if is_kb {
        ("$.context.static.system", value.pointer("/context/static/system"))
    } else {
        ("$.system_prompt", value.get("system_prompt"))
    };
    if place.is_some_and(|place| !place.is_null()) {
        let (file, prompt) = (file.display(), prompt.display());
        let message = format!("the system prompt is defined in both {file} and {prompt}; keep one of them");
        return Err(Problem::new(path, message).into());
    }
    let text = Value::from(read_text(prompt)?.trim_end());
    let mut parent = value;
    let keys: &[&str] = if is_kb { &["context", "static"] } else { &[] };
    for key in keys {
        let Value::Object(definition) = parent else { return Ok(path) };
        let inner = definition.entry(*key).or_insert(Value::Null);
        if inner.is_null() {
            *inner = Value::Object(serde_json::Map::new());
        }
        parent = inner;
    }
    if let Value::Object(definition) = parent {
        definition.insert(if is_kb { "system" } else { "system_prompt" }.to_owned(), text);
    }
    Ok(path)
}

fn read_text(file: &Path) -> Result<String, Problem> {
    let refused = |error: io::Error| Problem::new("$", format!("{} cannot be read: {error}", file.display()));
    // Checked before opening, because opening a named pipe blocks until another process writes to
    // it.
    if !fs::metadata(file).map_err(refused)?.is_file() {
        let message =
            format!("{} is not a regular file; replace it with a file or a link to one", file.display());
        return Err(Problem::new("$", message));
    }
    let mut bytes = Vec::new();
    File::open(file)
        .and_then(|file| file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes))
        .map_err(refused)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        let message =
            format!("{} is larger than the {FILE_BYTES_MAX} bytes that an agent may have", file.display());
        return Err(Problem::new("$", message));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        Problem::new("$", format!("{} is not UTF-8 text (byte {at}); save it as UTF-8", file.display()))
    })
}

/// Returns whether a directory entry exists. A dangling link counts, so that it is reported instead
/// of skipped.
fn entry_exists(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

/// Returns the file that defines the agent of a folder.
fn find_agent_file(folder: &Path) -> Result<PathBuf, Problem> {
    let files: Vec<PathBuf> =
        FOLDER_FILES.iter().map(|file| folder.join(file)).filter(|file| entry_exists(file)).collect();
    match files.as_slice() {
        [file] => Ok(file.clone()),
        [] => Err(Problem::new("$", format!("{} has none of {}", folder.display(), FOLDER_FILES.join(", ")))),
        [one, other, ..] => {
            let message =
                format!("{} and {} describe the same agent; keep one", one.display(), other.display());
            Err(Problem::new("$", message))
        }
    }
}

fn stem(path: &Path) -> String {
    // A folder name has no extension: `v1.2` is the whole name.
    let name = if path.is_dir() { path.file_name() } else { path.file_stem() };
    name.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Refuses all agents that share a name, because neither has precedence. Agents that are already
/// refused do not count; their name may be wrong.
fn refuse_duplicates(loaded: &mut [Loaded]) {
    let mut files: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
    for agent in loaded.iter().filter(|agent| agent.result.is_ok()) {
        files.entry(agent.name.clone()).or_default().push(agent.path.clone());
    }
    for agent in loaded.iter_mut().filter(|agent| agent.result.is_ok()) {
        let others = files.get(&agent.name).map(Vec::as_slice).unwrap_or_default();
        let Some(other) = others.iter().find(|path| **path != agent.path) else { continue };
        let (path, other) = (agent.path.display(), other.display());
        let message = format!("{path} and {other} have the same name, '{}'; rename one", agent.name);
        agent.result = Err(Problem::new("$.name", message).into());
    }
}
