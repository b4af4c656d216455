//! Executes the examples of `README.md` and `docs/` and compares their output with the page.
//!
//! - A fence with `file=NAME` in its info string is written to the page's folder.
//! - In a `console` fence each line that starts with `$ ` is run in that folder; the lines after it are the expected
//!   output.
//!
//! Pages that need a model define a backend with recorded replies (`kind = "replay"`) or a script, so that readers can
//! run them too.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

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

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A fenced block of a page.
pub(crate) struct Fence {
    pub(crate) info: String,
    pub(crate) body: String,
}

/// Returns the fenced blocks of a page, in order.
pub(crate) fn fences(page: &str) -> Vec<Fence> {
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

fn run(command: &str, folder: &Path) -> String {
    let binary = Path::new(env!("CARGO_BIN_EXE_slipform")).parent().unwrap();
    let path = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap_or_default());
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("({command}) 2>&1")]).current_dir(folder).env("PATH", path);
    for name in CLEARED_VARIABLES {
        shell.env_remove(name);
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
    for fence in fences(&text) {
        if let Some((_, file)) = fence.info.split_once("file=") {
            let path = folder.join(file.trim());
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, &fence.body).unwrap();
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
            let printed = run(command, &folder);
            total += 1;
            if normalize(&printed) != normalize(expected) {
                differences.push(format!(
                    "{name}: $ {command}\n--- the page\n{expected}\n--- the command\n{printed}"
                ));
            }
        }
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
