//! Modules, files and types that ARCHITECTURE.md names.

use std::path::Path;
use std::process::Command;

use crate::support::{quoted, root, rows, section};

/// Returns whether a crate has a module, given by its path without extension.
fn has_module(name: &str, module: &str) -> bool {
    root().join(format!("crates/{name}/src/{module}.rs")).is_file()
}

#[test]
fn life_of_a_run_names_existing_modules() {
    let rows = rows(&section("## Life of a run"));
    let numbers: Vec<String> = rows.iter().map(|row| row[0].split(' ').next().unwrap().to_owned()).collect();
    assert_eq!(numbers, ["1", "2", "3", "4", "5", "6", "7", "8", "9"]);
    for row in &rows {
        // Such as: runner `worker`, `drive` → store `transactions/claim`.
        for step in row[1].split('→') {
            let name = step.split('`').next().unwrap().trim();
            let modules = quoted(step);
            assert!(!modules.is_empty(), "{step:?} names no module");
            for module in modules {
                assert!(has_module(name, module), "crates/{name}/src/{module}.rs does not exist: {}", row[0]);
            }
        }
    }
}

#[test]
fn structs_that_carry_a_run_exist() {
    let section = section("## Life of a run");
    let sentence = section.split("\n\n").find(|part| part.contains("carry a run")).unwrap();
    let names = quoted(sentence);
    assert_eq!(names, ["RunRequest", "Assignment", "RunContext"]);
    for name in names {
        let pattern = format!("pub struct {name}\\b");
        let found = Command::new("git")
            .args(["grep", "-lE", &pattern, "crates"])
            .current_dir(root())
            .output()
            .unwrap();
        let found = String::from_utf8(found.stdout).unwrap();
        assert_eq!(found.lines().count(), 1, "{name}: {found}");
    }
}

#[test]
fn named_tests_and_files_exist() {
    let exists = |path: &str| {
        let short = path.replacen("faults/", "cli/tests/faults/", usize::from(path.starts_with("faults/")));
        let places = [root().join("crates").join(&short), root().join(path)];
        places.iter().any(|place| place.exists())
            || Path::new(path).extension().is_none() && !path.contains('/')
    };
    for heading in ["## Invariants", "## Where to look first"] {
        for row in rows(&section(heading)) {
            for path in quoted(row.last().unwrap()).into_iter().filter(|path| !path.contains(' ')) {
                assert!(exists(path), "{path} does not exist: {}", row[0]);
            }
        }
    }
}
