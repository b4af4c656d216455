//! Tests that tools neither leave the project nor open special files.

use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::{Value, json};

use crate::support::Tree;

const SECRET: &str = "the secret outside";

/// Creates a project with a file beside it, and links that lead there.
fn project_with_links() -> Tree {
    let tree = Tree::new(&[("src/main.rs", "fn main() {}\n")]);
    std::fs::create_dir(tree.outside("folder")).unwrap();
    std::fs::write(tree.outside("folder/secret.txt"), SECRET).unwrap();
    tree.link("../folder/secret.txt", "link.txt");
    tree.link("../folder", "link");
    tree.link(tree.outside("folder"), "absolute");
    tree
}

/// Returns a call with this path for every tool that takes a path.
fn calls(path: &str) -> Vec<(&'static str, Value)> {
    vec![
        ("fs:read", json!({"path": path})),
        ("fs:list", json!({"path": path})),
        ("fs:search", json!({"pattern": "secret", "path": path})),
        ("fs:glob", json!({"pattern": "*", "path": path})),
        ("fs:write", json!({"path": path, "content": "overwritten"})),
        ("fs:edit", json!({"path": path, "old_text": "secret", "new_text": "overwritten"})),
        ("fs:delete", json!({"path": path})),
        ("fs:move", json!({"from": path, "to": "src/moved.txt"})),
        ("fs:move", json!({"from": "src/main.rs", "to": path})),
    ]
}

#[tokio::test]
async fn paths_and_links_outside_are_refused() {
    let tree = project_with_links();
    let absolute = tree.outside("folder/secret.txt");
    for path in [
        "../folder/secret.txt",
        "src/../../folder/secret.txt",
        absolute.to_str().unwrap(),
        "link.txt",
        "link/secret.txt",
        "absolute/secret.txt",
        "src/../link/secret.txt",
    ] {
        for (tool, arguments) in calls(path) {
            let reason = tree.refused(tool, arguments).await;
            let is_expected = ["outside", "link", "exists already"].iter().any(|it| reason.contains(it));
            assert!(is_expected, "{tool} {path}: {reason}");
            assert!(!reason.contains(SECRET), "{tool} {path}: {reason}");
        }
    }
    assert!(tree.refused("fs:list", json!({"path": "link"})).await.contains("outside the project"));
    assert!(tree.refused("fs:write", json!({"path": "link/new.txt", "content": ""})).await.contains("link"));
    assert_eq!(std::fs::read_to_string(absolute).unwrap(), SECRET);
    assert_eq!(std::fs::read_dir(tree.outside("folder")).unwrap().count(), 1);
}

#[tokio::test]
async fn walks_do_not_follow_links() {
    let tree = project_with_links();
    let found = tree.ok("fs:search", json!({"pattern": "secret|main"})).await;
    assert_eq!(found["matches"].as_array().unwrap().len(), 1);
    assert_eq!(found["files_searched"], 1);
    assert_eq!(tree.ok("fs:glob", json!({"pattern": "**"})).await["files"], json!(["src/main.rs"]));
    let listed = tree.ok("fs:list", json!({"depth": 5})).await;
    assert!(!listed.to_string().contains("secret"), "{listed}");
    assert_eq!(listed["entries"][1], json!({"path": "link", "kind": "link"}));
}

#[tokio::test]
async fn paths_and_links_inside_can_be_read() {
    let tree = project_with_links();
    tree.link("src", "sources");
    for path in ["sources/main.rs", "src/./main.rs", tree.path("src/main.rs").to_str().unwrap()] {
        assert_eq!(tree.ok("fs:read", json!({"path": path})).await["content"], "fn main() {}\n");
    }
    let reason = tree.refused("fs:write", json!({"path": "sources/new.rs", "content": ""})).await;
    assert_eq!(
        reason,
        "'sources/new.rs' goes through the link 'sources'; give the path that the link leads to"
    );
}

/// A thread that exchanges two names in a loop.
struct Swapper {
    done: Arc<AtomicBool>,
    thread: JoinHandle<usize>,
}

impl Swapper {
    fn start(one: PathBuf, other: PathBuf) -> Swapper {
        let done = Arc::new(AtomicBool::new(false));
        let thread = std::thread::spawn({
            let done = Arc::clone(&done);
            move || {
                let mut swaps = 0;
                while !done.load(Ordering::Relaxed) {
                    renameat_with(CWD, &one, CWD, &other, RenameFlags::EXCHANGE).unwrap();
                    swaps += 1;
                }
                swaps
            }
        });
        Swapper { done, thread }
    }

    /// Stops the thread and returns the number of exchanges.
    fn stop(self) -> usize {
        self.done.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

/// Another thread repeatedly exchanges a folder with a link to the outside while tools work in it.
#[tokio::test]
async fn link_swapped_in_during_a_call_leaks_nothing() {
    let tree = Tree::new(&[("swapped/secret.txt", "inside\n")]);
    std::fs::create_dir(tree.outside("folder")).unwrap();
    std::fs::write(tree.outside("folder/secret.txt"), SECRET).unwrap();
    std::fs::write(tree.outside("folder/other.txt"), SECRET).unwrap();
    tree.link("../folder", "out");
    let swapper = Swapper::start(tree.path("swapped"), tree.path("out"));
    let (mut leaked, mut answered) = (Vec::new(), 0);
    for _ in 0..60 {
        for (tool, arguments) in [
            ("fs:read", json!({"path": "swapped/secret.txt"})),
            ("fs:search", json!({"pattern": "."})),
            ("fs:list", json!({"depth": 3})),
            ("fs:list", json!({"path": "swapped"})),
            ("fs:glob", json!({"pattern": "other.*"})),
            ("fs:write", json!({"path": "swapped/written.txt", "content": "inside\n"})),
            ("fs:edit", json!({"path": "swapped/secret.txt", "old_text": "inside", "new_text": "inside!"})),
            ("fs:move", json!({"from": "swapped/secret.txt", "to": "swapped/moved.txt"})),
            ("fs:move", json!({"from": "swapped/moved.txt", "to": "swapped/secret.txt"})),
            ("fs:delete", json!({"path": "swapped/written.txt"})),
        ] {
            let answer = tree
                .call(tool, arguments)
                .await
                .map_or_else(|error| error.to_string(), |value| value.to_string());
            answered += usize::from(answer.contains("inside"));
            if answer.contains(SECRET) || answer.contains("other.txt") {
                leaked.push(answer);
            }
        }
    }
    assert!(swapper.stop() > 0);
    assert!(leaked.is_empty(), "{leaked:?}");
    assert!(answered > 0);
    assert!(!tree.outside("folder/written.txt").exists());
    assert!(!tree.outside("folder/moved.txt").exists());
    assert_eq!(std::fs::read_to_string(tree.outside("folder/secret.txt")).unwrap(), SECRET);
}

#[tokio::test]
async fn pipes_and_devices_are_refused_without_waiting() {
    let tree = Tree::new(&[("a.txt", "text\n"), ("src/main.rs", "fn main() {}\n")]);
    assert!(Command::new("mkfifo").arg(tree.path("pipe")).status().unwrap().success());
    tree.link("/dev/zero", "device");
    for path in ["pipe", "device"] {
        for (tool, arguments) in calls(path) {
            let reason = tree.refused(tool, arguments).await;
            assert!(
                ["neither a file nor a folder", "link", "exists already"]
                    .iter()
                    .any(|it| reason.contains(it)),
                "{tool} {path}: {reason}"
            );
        }
    }
    assert_eq!(tree.ok("fs:search", json!({"pattern": "."})).await["files_searched"], 2);
    let listed = tree.ok("fs:list", json!({})).await;
    assert_eq!(listed["entries"][2], json!({"path": "pipe", "kind": "other"}));
}

#[tokio::test]
async fn pipe_swapped_in_during_a_call_does_not_block() {
    let tree = Tree::new(&[("a.txt", "inside\n")]);
    assert!(Command::new("mkfifo").arg(tree.path("pipe")).status().unwrap().success());
    let swapper = Swapper::start(tree.path("a.txt"), tree.path("pipe"));
    let (mut read, mut refused) = (0, Vec::new());
    for _ in 0..300 {
        match tree.call("fs:read", json!({"path": "a.txt"})).await {
            Ok(value) => read += usize::from(value["content"] == "inside\n"),
            Err(error) => refused.push(error.to_string()),
        }
    }
    assert!(swapper.stop() > 0);
    assert_eq!(read + refused.len(), 300);
    assert!(refused.iter().all(|reason| reason.contains("neither a file nor a folder")), "{refused:?}");
}

#[tokio::test]
async fn device_in_the_project_is_refused() {
    let devices = std::path::Path::new("/dev");
    let project = Arc::new(slipform_tools::Project::open(devices).unwrap());
    let tool = slipform_tools::builtin("fs:read", &project).unwrap();
    let reason = tool.call(&json!({"path": "null"})).await.unwrap_err().to_string();
    assert!(reason.contains("a device, pipe or socket"), "{reason}");
}
