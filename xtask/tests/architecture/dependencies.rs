//! The workspace's dependency graph, and the rules for the core crates.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::support::section;

fn metadata() -> Value {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps"])
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap())
        .output()
        .unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Returns the crate's folder name.
fn short(name: &str) -> String {
    match name {
        "slipform" => "cli".to_owned(),
        other => other.trim_start_matches("slipform-").to_owned(),
    }
}

/// Returns the workspace's crates with their dependencies in the workspace, without dev-dependencies.
fn graph() -> BTreeMap<String, BTreeSet<String>> {
    let metadata = metadata();
    let packages = metadata["packages"].as_array().unwrap();
    let ours: BTreeSet<&str> = packages.iter().map(|package| package["name"].as_str().unwrap()).collect();
    packages
        .iter()
        .map(|package| {
            let used = package["dependencies"]
                .as_array()
                .unwrap()
                .iter()
                .filter(|dependency| dependency["kind"].is_null())
                .map(|dependency| dependency["name"].as_str().unwrap())
                .filter(|name| ours.contains(name))
                .map(short)
                .collect();
            (short(package["name"].as_str().unwrap()), used)
        })
        .collect()
}

/// Returns the graph that ARCHITECTURE.md lists: lines of `names -> names`, where `nothing` stands for none.
fn documented_graph() -> BTreeMap<String, BTreeSet<String>> {
    let section = section("## Dependencies");
    let block = section.split("```").nth(1).unwrap();
    let mut graph = BTreeMap::new();
    for line in block.lines().filter(|line| !line.is_empty()) {
        let (users, used) = line.split_once("->").unwrap();
        let used = used.split('(').next().unwrap();
        let used = used.split(',').map(str::trim).filter(|name| !name.starts_with("nothing"));
        let used: BTreeSet<String> = used.map(str::to_owned).collect();
        for user in users.split(',') {
            let before = graph.insert(user.trim().to_owned(), used.clone());
            assert!(before.is_none(), "{user} is listed twice");
        }
    }
    graph
}

#[test]
fn dependency_graph_is_the_documented_one() {
    assert_eq!(graph(), documented_graph());
}

#[test]
fn core_crates_depend_on_no_runtime_network_or_clock() {
    const FORBIDDEN: [&str; 10] =
        ["tokio", "async-std", "smol", "mio", "hyper", "reqwest", "rustls", "chrono", "time", "socket2"];
    for name in ["slipform-schema", "slipform-extract", "slipform-types", "slipform-agents"] {
        let output = Command::new(env!("CARGO"))
            .args(["tree", "--package", name, "--edges", "normal", "--prefix", "none", "--format", "{p}"])
            .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap())
            .output()
            .unwrap();
        let tree = String::from_utf8(output.stdout).unwrap();
        assert!(tree.starts_with(name), "{tree}");
        for line in tree.lines() {
            let used = line.split(' ').next().unwrap();
            assert!(!FORBIDDEN.contains(&used), "{name} depends on {used}");
        }
    }
}

#[test]
fn core_crates_use_no_files_sockets_or_clocks() {
    for folder in ["crates/schema/src", "crates/extract/src", "crates/engine/src"] {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join(folder);
        let mut pending = vec![root];
        while let Some(path) = pending.pop() {
            if path.is_dir() {
                pending.extend(std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()));
                continue;
            }
            let source = std::fs::read_to_string(&path).unwrap();
            for forbidden in ["std::fs", "std::net", "std::time", "std::process", "std::env"] {
                assert!(!source.contains(forbidden), "{} uses {forbidden}", path.display());
            }
        }
    }
}
