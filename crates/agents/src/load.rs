//! Agent files: a folder in, every agent or what is wrong with it out.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::document::{Document, Format};
use crate::{Checked, Error, Problem, Problems, blueprint};

/// The largest agent file, in bytes. An agent is a page or two; a larger file is something else, and is
/// refused before it fills the memory.
pub const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// The files that may describe the agent of a folder.
const FOLDER_FILES: [&str; 3] = ["agent.yaml", "agent.yml", "agent.json"];

/// The file beside them that holds its system prompt.
const PROMPT_FILE: &str = "system-prompt.md";

/// An agent file and what came of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    /// The agent's name: the one it says, or the one its file says.
    pub name: String,
    /// The file.
    pub path: PathBuf,
    /// The agent, or everything that is wrong with it.
    pub result: Result<Checked, Problems>,
}

/// Loads every agent of a folder, sorted by name: `NAME.{yaml,yml,json}` and `NAME/agent.{yaml,yml,json}`.
/// A bad file never keeps the others from being loaded. A folder that does not exist has no agents.
/// Files and folders whose names begin with a dot, and files of other kinds, are passed over.
///
/// # Errors
/// When the folder cannot be listed.
pub fn load(folder: &Path) -> Result<Vec<Loaded>, Error> {
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
        let is_agent = match path.is_dir() {
            true => FOLDER_FILES.iter().any(|file| is_there(&path.join(file))),
            false => Format::of(&path).is_some(),
        };
        if is_agent && !is_hidden {
            loaded.push(load_one(&path));
        }
    }
    loaded.sort_by(|one, other| (&one.name, &one.path).cmp(&(&other.name, &other.path)));
    refuse_duplicates(&mut loaded);
    Ok(loaded)
}

/// Loads the agent of one file, or of a folder with an `agent.{yaml,yml,json}`.
pub fn load_one(path: &Path) -> Loaded {
    let is_folder = path.is_dir();
    let file = match if is_folder { file_of(path) } else { Ok(path.to_owned()) } {
        Ok(file) => file,
        Err(problem) => {
            return Loaded { name: stem(path), path: path.to_owned(), result: Err(problem.into()) };
        }
    };
    let is_named_by_folder = FOLDER_FILES.iter().any(|name| file.ends_with(name));
    let folder = file.parent().filter(|_| is_named_by_folder);
    let fallback = stem(folder.unwrap_or(&file));
    let result = read_file(&file, folder, &fallback);
    let name = result.as_ref().map_or(fallback, |checked| checked.blueprint.name.clone());
    Loaded { name, path: file, result }
}

/// Reads and checks the text of an agent. `fallback_name` is the name of one that does not say its own.
///
/// # Errors
/// Everything that is wrong with it, with lines where the format tells them.
pub fn parse(text: &str, format: Format, fallback_name: Option<&str>) -> Result<Checked, Problems> {
    let document = Document::read(text, format)?;
    check(&document, document.value.clone(), fallback_name)
}

fn check(document: &Document, value: Value, fallback_name: Option<&str>) -> Result<Checked, Problems> {
    let mut result = blueprint::check(&value, fallback_name);
    match &mut result {
        Ok(checked) => document.locate(&mut checked.warnings),
        Err(problems) => document.locate(&mut problems.list),
    }
    result
}

fn read_file(file: &Path, folder: Option<&Path>, fallback: &str) -> Result<Checked, Problems> {
    let Some(format) = Format::of(file) else {
        return Err(Problem::new("$", "agents are .yaml, .yml or .json files").into());
    };
    let document = Document::read(&read_text(file)?, format)?;
    let mut value = document.value.clone();
    let prompt = folder.map(|folder| folder.join(PROMPT_FILE)).filter(|prompt| is_there(prompt));
    let Some(prompt) = prompt else { return check(&document, value, Some(fallback)) };
    let path = add_prompt(&mut value, file, &prompt)?;
    check(&document, value, Some(fallback)).map_err(|mut problems| {
        for problem in problems.list.iter_mut().filter(|problem| problem.path == path) {
            // The line is one of the agent's file, and the fault is not there.
            problem.line = None;
            problem.message = format!("in {}: {}", prompt.display(), problem.message);
        }
        problems
    })
}

/// Puts the text of the prompt's file where the system prompt belongs, and says where that is.
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
        let message = format!("the system prompt stands in {file} and in {prompt}; keep one of them");
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
    // Before it is opened: opening a pipe waits until somebody writes to it, which may be never.
    if !fs::metadata(file).map_err(refused)?.is_file() {
        let message = format!("{} is no regular file; put a file there, or a link to one", file.display());
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

/// Whether a folder has an entry of this name. A link that leads nowhere is one: somebody meant something by it.
fn is_there(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok()
}

/// The file that describes the agent of a folder.
fn file_of(folder: &Path) -> Result<PathBuf, Problem> {
    let files: Vec<PathBuf> =
        FOLDER_FILES.iter().map(|file| folder.join(file)).filter(|file| is_there(file)).collect();
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
    // A folder's name has no extension: `v1.2` is one name.
    let name = if path.is_dir() { path.file_name() } else { path.file_stem() };
    name.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Refuses every agent whose name another agent has too: which of them was meant is not ours to say.
/// A file that is refused already has no say in this; its name may not be the one it means.
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
