//! Executes the examples of `README.md` and `docs/` and compares their output with the page.
//!
//! - A fence with `file=NAME` in its info string is written to the page's folder.
//! - In a `console` fence each line that starts with `$ ` is run in that folder; the lines after it are the expected
//!   output.
//! - A fence whose info string ends in ` model` holds the model's next replies, one JSON value per line: a string is
//!   a text reply, an object maps tool names to their arguments.

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use slipform_testkit::{ScriptedServer, Step};

/// Variables of the developer's environment that would change an example's output.
const CLEARED_VARIABLES: [&str; 10] = [
    "SLIPFORM_URL",
    "SLIPFORM_TOKEN",
    "SLIPFORM_MODEL",
    "OPENAI_BASE_URL",
    "OPENAI_API_KEY",
    "OPENAI_MODEL",
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_BASE_URL",
    "OLLAMA_HOST",
    "SCHEMA_ENFORCEMENT_MAX_RETRIES",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

struct Fence {
    info: String,
    body: String,
}

fn fences(page: &str) -> Vec<Fence> {
    let mut fences = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        // A longer fence may hold shorter ones.
        let ticks = line.bytes().take_while(|&byte| byte == b'`').count();
        if ticks < 3 {
            continue;
        }
        let close = "`".repeat(ticks);
        let body: Vec<&str> = lines.by_ref().take_while(|line| *line != close).collect();
        fences.push(Fence { info: line[ticks..].to_owned(), body: body.join("\n") + "\n" });
    }
    fences
}

fn run(command: &str, folder: &Path, model: Option<&Model>) -> String {
    let binary = Path::new(env!("CARGO_BIN_EXE_slipform")).parent().unwrap();
    let path = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap_or_default());
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("({command}) 2>&1")]).current_dir(folder).env("PATH", path);
    for name in CLEARED_VARIABLES {
        shell.env_remove(name);
    }
    if let Some(model) = model {
        shell.env("OPENAI_BASE_URL", model.server.base_url());
    }
    String::from_utf8(shell.output().unwrap().stdout).unwrap()
}

/// Replaces ids and timestamps by `…`, since each run of a command creates different ones.
fn normalize(text: &str) -> String {
    let mut words = Vec::new();
    for word in text
        .trim_end()
        .split_inclusive(|letter: char| !(letter.is_ascii_alphanumeric() || "_-:.".contains(letter)))
    {
        let trimmed = word.trim_end_matches(|letter: char| !letter.is_ascii_alphanumeric());
        let is_id = ["ses_", "run_", "tok_"].iter().any(|prefix| {
            trimmed.strip_prefix(prefix).is_some_and(|digits| {
                digits.len() == 12 && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
            })
        });
        let is_timestamp = trimmed.len() == 24
            && trimmed.starts_with("20")
            && trimmed.ends_with('Z')
            && trimmed.as_bytes()[10] == b'T';
        words.push(match (is_id, is_timestamp) {
            (true, _) => word.replace(&trimmed[4..], "…"),
            (_, true) => word.replace(trimmed, "…"),
            _ => word.to_owned(),
        });
    }
    let text = words.concat();
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

/// The scripted model of one page.
struct Model {
    server: ScriptedServer,
    replies: Arc<Mutex<VecDeque<Value>>>,
}

impl Model {
    fn start() -> Model {
        let replies = Arc::new(Mutex::new(VecDeque::<Value>::new()));
        let queue = replies.clone();
        let server = ScriptedServer::respond(move |_, _| match queue.lock().unwrap().pop_front() {
            Some(Value::String(text)) => Step::text(text),
            Some(calls) => tool_step(&calls),
            None => Step::status(400),
        });
        Model { server, replies }
    }

    fn add_replies(&self, lines: &str) {
        self.replies.lock().unwrap().extend(lines.lines().map(|line| serde_json::from_str(line).unwrap()));
    }

    /// Counts the replies that no request has used.
    fn unused(&self) -> usize {
        self.replies.lock().unwrap().len()
    }
}

/// Builds a reply with tool calls from an object of names and arguments, or from a list of such objects.
fn tool_step(calls: &Value) -> Step {
    let list = calls.as_array().cloned().unwrap_or_else(|| vec![calls.clone()]);
    let mut calls = list.iter().flat_map(|calls| calls.as_object().unwrap());
    let (name, arguments) = calls.next().unwrap();
    let first = Step::tool(name, arguments.clone());
    calls.fold(first, |step, (name, arguments)| step.and_tool(name, arguments.clone()))
}

/// Copies a folder without hidden entries, which earlier runs have left.
fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(|entry| entry.unwrap()) {
        let (path, copied) = (entry.path(), to.join(entry.file_name()));
        if entry.file_name().to_string_lossy().starts_with('.') {
            continue;
        }
        if path.is_dir() {
            copy(&path, &copied);
        } else {
            fs::copy(path, copied).unwrap();
        }
    }
}

/// Runs the examples of one page and returns their number and the differences.
fn check(page: &Path) -> (usize, Vec<String>) {
    let name = page.strip_prefix(root()).unwrap().with_extension("").to_string_lossy().replace('/', "-");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("page-{name}"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    let text = fs::read_to_string(page).unwrap();
    if name != "README" && text.contains("$ cd examples/") {
        copy(&root().join("examples"), &folder.join("examples"));
    }
    let (mut total, mut differences) = (0, Vec::new());
    let mut model: Option<Model> = None;
    for fence in fences(&text) {
        if let Some((_, file)) = fence.info.split_once("file=") {
            let path = folder.join(file.trim());
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, &fence.body).unwrap();
        }
        if fence.info.ends_with(" model") {
            model.get_or_insert_with(Model::start).add_replies(&fence.body);
        }
        if fence.info != "console" {
            continue;
        }
        for example in format!("\n{}", fence.body).split("\n$ ").filter(|example| !example.trim().is_empty())
        {
            let (command, expected) = example.split_once('\n').unwrap_or((example, ""));
            // `cargo xtask` builds and tests the whole workspace, which a test must not do.
            if command.starts_with("cargo xtask") {
                continue;
            }
            let folder = if name == "README" { root() } else { folder.clone() };
            let printed = run(command, &folder, model.as_ref());
            total += 1;
            if normalize(&printed) != normalize(expected) {
                differences.push(format!(
                    "{name}: $ {command}\n--- the page\n{expected}\n--- the command\n{printed}"
                ));
            }
        }
    }
    if let Some(unused) = model.map(|model| model.unused()).filter(|unused| *unused > 0) {
        differences.push(format!("{name}: {unused} model replies were not used"));
    }
    (total, differences)
}

/// Lists the Markdown pages of a folder and of the folders in it.
fn pages_in(folder: &Path) -> Vec<PathBuf> {
    let mut pages = Vec::new();
    for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if path.is_dir() {
            pages.extend(pages_in(&path));
        } else if path.extension().is_some_and(|extension| extension == "md") {
            pages.push(path);
        }
    }
    pages
}

#[test]
fn documented_examples_print_the_documented_output() {
    let mut pages = pages_in(&root().join("docs"));
    pages.push(root().join("README.md"));
    pages.sort();
    let mut total = 0;
    let mut differences = Vec::new();
    for page in &pages {
        let (count, found) = check(page);
        total += count;
        differences.extend(found);
    }
    println!("{total} examples");
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    assert!(total >= 10, "only {total} examples were found");
}

#[test]
fn repair_kinds_are_documented() {
    let page = fs::read_to_string(root().join("docs/reference/extraction.md")).unwrap();
    let missing: Vec<String> = slipform_extract::RepairKind::ALL
        .iter()
        .map(|kind| {
            let class = if kind.is_lossless() { "lossless" } else { "lossy" };
            format!("| `{}` | {class} | {} |", kind.name(), kind.describe())
        })
        .filter(|line| !page.contains(line))
        .collect();
    assert!(missing.is_empty(), "docs/reference/extraction.md lacks:\n{}", missing.join("\n"));
}
