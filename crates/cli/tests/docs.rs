//! The examples in the documentation, executed: what a page shows is what the command prints.
//!
//! A fence with `file=NAME` in its info string is written to the page's own folder; in a `console`
//! fence every line that starts with `$ ` is run there, and what follows is its output.
#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "tests")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

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

fn run(command: &str, folder: &Path) -> String {
    let binary = Path::new(env!("CARGO_BIN_EXE_formwork")).parent().unwrap();
    let path = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap_or_default());
    let output = Command::new("sh")
        .args(["-c", &format!("({command}) 2>&1")])
        .current_dir(folder)
        .env("PATH", path)
        .env_remove("FORMWORK_MODEL")
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// Runs the examples of one page and gives (how many, what differs).
fn check(page: &Path) -> (usize, Vec<String>) {
    let name = page.file_stem().unwrap().to_string_lossy().into_owned();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("docs-{name}"));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    let (mut total, mut differences) = (0, Vec::new());
    for fence in fences(&fs::read_to_string(page).unwrap()) {
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
            // The project's own commands build and test everything; they are not run from a test.
            if command.starts_with("cargo xtask") {
                continue;
            }
            let folder = if name == "README" { root() } else { folder.clone() };
            let given = run(command, &folder);
            total += 1;
            if given.trim_end() != expected.trim_end() {
                differences
                    .push(format!("{name}: $ {command}\n--- the page\n{expected}\n--- the command\n{given}"));
            }
        }
    }
    (total, differences)
}

#[test]
fn every_example_prints_what_its_page_shows() {
    let mut pages: Vec<PathBuf> =
        fs::read_dir(root().join("docs")).unwrap().map(|entry| entry.unwrap().path()).collect();
    pages.push(root().join("README.md"));
    pages.sort();
    let mut total = 0;
    let mut differences = Vec::new();
    for page in pages.iter().filter(|page| page.extension().is_some_and(|extension| extension == "md")) {
        let (count, found) = check(page);
        total += count;
        differences.extend(found);
    }
    println!("{total} examples");
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    assert!(total >= 10, "only {total} examples were found");
}

#[test]
fn every_repair_is_documented() {
    let page = fs::read_to_string(root().join("docs/extraction.md")).unwrap();
    let missing: Vec<String> = formwork_extract::RepairKind::ALL
        .iter()
        .map(|kind| {
            let class = if kind.is_lossless() { "lossless" } else { "lossy" };
            format!("| `{}` | {class} | {} |", kind.name(), kind.describe())
        })
        .filter(|line| !page.contains(line))
        .collect();
    assert!(missing.is_empty(), "docs/extraction.md lacks:\n{}", missing.join("\n"));
}
