//! Tests `fs:delete` and `fs:move`.

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use serde_json::json;

use crate::support::Tree;

#[tokio::test]
async fn file_is_deleted_and_its_folder_stays() {
    let tree = Tree::new(&[("src/old.rs", "fn old() {}\n"), ("src/kept.rs", "")]);
    let deleted = tree.ok("fs:delete", json!({"path": "./src//old.rs"})).await;
    assert_eq!(deleted, json!({"path": "src/old.rs", "deleted": true}));
    assert!(!tree.path("src/old.rs").exists() && tree.path("src/kept.rs").exists());
    let reason = tree.refused("fs:delete", json!({"path": "src/old.rs"})).await;
    assert!(reason.contains("'src/old.rs' does not exist in the project"), "{reason}");
    let written = tree.ok("fs:write", json!({"path": "src/old.rs", "content": "again"})).await;
    assert_eq!(written["created"], true);
}

#[tokio::test]
async fn file_is_moved_with_its_content_and_permissions() {
    let tree = Tree::new(&[("a.sh", "echo\n")]);
    std::fs::set_permissions(tree.path("a.sh"), PermissionsExt::from_mode(0o750)).unwrap();
    let moved = tree.ok("fs:move", json!({"from": "a.sh", "to": "bin/./new/b.sh"})).await;
    assert_eq!(moved, json!({"from": "a.sh", "path": "bin/new/b.sh"}));
    assert!(!tree.path("a.sh").exists());
    assert_eq!(tree.content("bin/new/b.sh"), "echo\n");
    assert_eq!(std::fs::metadata(tree.path("bin/new/b.sh")).unwrap().permissions().mode() & 0o777, 0o750);
    tree.ok("fs:move", json!({"from": "bin/new/b.sh", "to": "bin/new/c.sh"})).await;
    assert_eq!(tree.content("bin/new/c.sh"), "echo\n");
}

#[tokio::test]
async fn move_replaces_nothing() {
    let tree = Tree::new(&[("a.txt", "a"), ("b.txt", "b"), ("folder/c.txt", "c")]);
    tree.link("b.txt", "link.txt");
    for (from, to, expected) in [
        ("a.txt", "b.txt", "'b.txt' exists already and is not replaced"),
        ("a.txt", "link.txt", "'link.txt' exists already and is not replaced"),
        ("a.txt", "folder", "'folder' is a folder; give the new path with the name of the file"),
        ("a.txt", "./a.txt", "from and to are the same path"),
        ("a.txt", "a.txt/b.txt", "takes the file 'a.txt' for a folder"),
        ("folder", "other", "'folder' is a folder, not a file"),
        ("link.txt", "other.txt", "'link.txt' is a link"),
        ("none.txt", "new/other.txt", "'none.txt' does not exist in the project"),
    ] {
        let reason = tree.refused("fs:move", json!({"from": from, "to": to})).await;
        assert!(reason.contains(expected), "{from} to {to}: {reason}");
    }
    assert_eq!((tree.content("a.txt"), tree.content("b.txt")), ("a".into(), "b".into()));
    assert!(!tree.path("new").exists(), "no folder is created for a missing file");
}

#[tokio::test]
async fn protected_and_invalid_files_are_neither_deleted_nor_moved() {
    let tree = Tree::new(&[
        ("a.txt", "text\n"),
        ("folder/a.txt", "text\n"),
        (".git/config", "text\n"),
        ("slipform.toml", ""),
        ("agents/a.yaml", "name: a\n"),
        ("schemas/a.json", "{}"),
    ]);
    tree.link("folder/a.txt", "link.txt");
    tree.link("folder", "linked");
    for (path, expected) in [
        (".git/config", "is in a folder that tools do not write to"),
        ("slipform.toml", "says which programs and keys agents may use"),
        ("agents/a.yaml", "says which programs and keys agents may use"),
        ("folder/../schemas/a.json", "says which programs and keys agents may use"),
        ("linked/a.txt", "goes through the link 'linked'"),
        (".", "is the project's folder; name a file in it"),
    ] {
        for (tool, arguments) in [
            ("fs:delete", json!({"path": path})),
            ("fs:move", json!({"from": path, "to": "moved.txt"})),
            ("fs:move", json!({"from": "a.txt", "to": path})),
        ] {
            let reason = tree.refused(tool, arguments).await;
            assert!(reason.contains(expected), "{tool} {path}: {reason}");
        }
    }
    for (path, expected) in [("link.txt", "is a link"), ("folder", "is a folder, not a file")] {
        let reason = tree.refused("fs:delete", json!({"path": path})).await;
        assert!(reason.contains(expected), "{path}: {reason}");
    }
    for path in ["a.txt", "folder/a.txt", ".git/config", "slipform.toml", "agents/a.yaml", "schemas/a.json"] {
        assert!(tree.path(path).exists(), "{path}");
    }
}

#[tokio::test]
async fn read_only_file_is_neither_deleted_nor_moved() {
    let tree = Tree::new(&[("kept.txt", "text\n")]);
    std::fs::set_permissions(tree.path("kept.txt"), PermissionsExt::from_mode(0o444)).unwrap();
    for (tool, arguments) in [
        ("fs:delete", json!({"path": "kept.txt"})),
        ("fs:move", json!({"from": "kept.txt", "to": "moved.txt"})),
    ] {
        let reason = tree.refused(tool, arguments).await;
        assert!(reason.contains("is read-only"), "{reason}");
    }
    assert_eq!(tree.content("kept.txt"), "text\n");
}

#[tokio::test]
async fn file_that_may_hold_keys_is_not_moved_to_a_readable_name() {
    let key = "-----BEGIN OPENSSH PRIVATE KEY-----\n";
    let tree = Tree::new(&[(".env", "KEY=1\n"), ("notes.txt", key)]);
    for path in [".env", "notes.txt"] {
        let reason = tree.refused("fs:move", json!({"from": path, "to": "open.txt"})).await;
        assert!(reason.contains("may hold keys"), "{path}: {reason}");
    }
    assert!(!tree.path("open.txt").exists());
}

#[tokio::test]
async fn file_that_changed_since_it_was_read_is_neither_deleted_nor_moved() {
    let tree = Tree::new(&[("a.txt", "one\n")]);
    tree.ok("fs:read", json!({"path": "a.txt"})).await;
    tree.put("a.txt", "two\n");
    for (tool, arguments, expected) in [
        ("fs:delete", json!({"path": "a.txt"}), "is not deleted: it has changed"),
        ("fs:move", json!({"from": "a.txt", "to": "b.txt"}), "is not moved: it has changed"),
    ] {
        let reason = tree.refused(tool, arguments).await;
        assert!(reason.contains(expected), "{reason}");
    }
    tree.ok("fs:read", json!({"path": "a.txt"})).await;
    tree.ok("fs:move", json!({"from": "a.txt", "to": "b.txt"})).await;
    // The run knows the content of the moved file, and nothing of the old path.
    tree.put("a.txt", "another\n");
    tree.ok("fs:delete", json!({"path": "a.txt"})).await;
    tree.put("b.txt", "changed\n");
    let reason = tree.refused("fs:delete", json!({"path": "b.txt"})).await;
    assert!(reason.contains("it has changed"), "{reason}");
}

#[tokio::test]
async fn file_too_large_to_read_can_be_moved_and_deleted() {
    let tree = Tree::new(&[]);
    tree.put("large.bin", vec![0; 4 * 1024 * 1024 + 1]);
    tree.ok("fs:move", json!({"from": "large.bin", "to": "assets/large.bin"})).await;
    tree.ok("fs:delete", json!({"path": "assets/large.bin"})).await;
    assert!(!tree.path("assets/large.bin").exists());
}

/// Moves in opposite directions lock the same two folders.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_moves_do_not_wait_for_each_other_forever() {
    let tree = Arc::new(Tree::new(&[]));
    for number in 0..20 {
        tree.put(&format!("a/{number}"), "a");
        tree.put(&format!("b/{}", number + 20), "b");
    }
    let moves: Vec<_> = (0..40)
        .map(|number| {
            let (from, to) = if number < 20 { ("a", "b") } else { ("b", "a") };
            let arguments = json!({"from": format!("{from}/{number}"), "to": format!("{to}/{number}")});
            let tree = Arc::clone(&tree);
            tokio::spawn(async move { tree.ok("fs:move", arguments).await })
        })
        .collect();
    for done in moves {
        done.await.unwrap();
    }
    assert_eq!(std::fs::read_dir(tree.path("a")).unwrap().count(), 20);
    assert_eq!(std::fs::read_dir(tree.path("b")).unwrap().count(), 20);
}
