//! Tests `fs:read` and `fs:list`.

use serde_json::json;

use crate::support::{Tree, members};

#[tokio::test]
async fn file_is_read_whole_or_in_part() {
    let tree = Tree::new(&[("a.txt", "one\ntwo\r\nthree"), ("empty.txt", "")]);
    let whole = json!({
        "path": "a.txt", "content": "one\ntwo\r\nthree",
        "first_line": 1, "last_line": 3, "total_lines": 3, "truncated": false,
    });
    assert_eq!(tree.ok("fs:read", json!({"path": "./a.txt"})).await, whole);
    let part = tree.ok("fs:read", json!({"path": "a.txt", "offset": 2.0, "limit": 1})).await;
    assert_eq!(part["content"], "two\r\n");
    assert_eq!((part["last_line"].as_u64(), part["truncated"].as_bool()), (Some(2), Some(true)));
    assert_eq!(part["note"], "lines 2 to 2 of 3; go on with offset 3");
    let empty = tree.ok("fs:read", json!({"path": "empty.txt"})).await;
    assert_eq!((empty["last_line"].as_u64(), empty["total_lines"].as_u64()), (Some(0), Some(0)));
    let reason = tree.refused("fs:read", json!({"path": "a.txt", "offset": 4})).await;
    assert_eq!(reason, "'a.txt' has 3 lines; offset 4 is past its end");
}

#[tokio::test]
async fn parts_of_a_long_file_join_to_the_whole_file() {
    let text: String = (0..9_000).map(|number| format!("Zeile {number} mit Umlaut ü\n")).collect();
    let tree = Tree::new(&[("long.txt", &text)]);
    let (mut read, mut offset, mut parts) = (String::new(), 1, 0);
    loop {
        let part = tree.ok("fs:read", json!({"path": "long.txt", "offset": offset})).await;
        let content = part["content"].as_str().unwrap();
        assert!(content.chars().count() <= 60_000);
        read.push_str(content);
        parts += 1;
        if part["truncated"] == false {
            break;
        }
        offset = part["last_line"].as_u64().unwrap() + 1;
    }
    assert!(read == text, "{parts} parts differ from the file");
    assert!(parts > 2);
}

#[tokio::test]
async fn overlong_line_is_cut_with_a_note() {
    let tree = Tree::new(&[("minified.js", &"x".repeat(70_000))]);
    let read = tree.ok("fs:read", json!({"path": "minified.js"})).await;
    assert_eq!(read["content"].as_str().unwrap().len(), 60_000);
    assert_eq!((read["truncated"].as_bool(), read["last_line"].as_u64()), (Some(true), Some(1)));
    assert_eq!(read["note"], "line 1 has more than 60000 characters and is cut");
}

#[tokio::test]
async fn binary_oversized_and_missing_files_are_refused() {
    let tree = Tree::new(&[]);
    tree.put("picture.png", [0x89, b'P', 0, 1]);
    tree.put("latin.txt", [b'a', 0xe9, b'b']);
    tree.put("huge.txt", vec![b'a'; 4 * 1024 * 1024 + 1]);
    std::fs::create_dir(tree.path("folder")).unwrap();
    for (path, expected) in [
        ("picture.png", "'picture.png' is a binary file of 4 bytes; only text can be read"),
        ("latin.txt", "'latin.txt' is not UTF-8 text (3 bytes); only UTF-8 text can be read"),
        (
            "huge.txt",
            "'huge.txt' has 4194305 bytes, and files up to 4194304 are read; no tool opens it, work with other files instead",
        ),
        ("folder", "'folder' is a folder, not a file; fs:list shows what is in it"),
        ("no.txt", "'no.txt' does not exist in the project; fs:list and fs:glob show what there is"),
        ("latin.txt/a", "'latin.txt/a' takes a file for a folder; fs:list shows what there is"),
    ] {
        assert_eq!(tree.refused("fs:read", json!({"path": path})).await, expected);
    }
}

#[tokio::test]
async fn folder_is_listed_to_the_requested_depth() {
    let tree = Tree::new(&[("a/b/c.txt", "12345"), ("a-b.txt", ""), ("a.txt", "1"), ("a/d.txt", "")]);
    let flat = tree.ok("fs:list", json!({})).await;
    assert_eq!(
        flat,
        json!({"path": ".", "truncated": false, "entries": [
            {"path": "a", "kind": "folder"},
            {"path": "a-b.txt", "kind": "file", "size": 0},
            {"path": "a.txt", "kind": "file", "size": 1},
        ]})
    );
    let deep = tree.ok("fs:list", json!({"path": "a", "depth": 2})).await;
    assert_eq!(members(&deep["entries"], "path"), ["a/b", "a/b/c.txt", "a/d.txt"]);
    assert_eq!(deep["entries"][1]["size"], 5);
    let reason = tree.refused("fs:list", json!({"path": "a.txt"})).await;
    assert_eq!(reason, "'a.txt' is a file, not a folder; fs:read reads it");
}

#[tokio::test]
async fn ignore_files_apply_below_their_folder_without_a_repository() {
    let tree = Tree::new(&[
        (".gitignore", "target/\n*.log\n/only-here.txt\n"),
        (".ignore", "!keep.log\n"),
        ("target/out.rs", ""),
        ("only-here.txt", ""),
        ("sub/only-here.txt", ""),
        ("sub/.gitignore", "!wanted.log\nlocal.txt\n"),
        ("sub/wanted.log", ""),
        ("sub/other.log", ""),
        ("sub/local.txt", ""),
        ("local.txt", ""),
        ("keep.log", ""),
        (".git/config", ""),
        (".slipform/record", ""),
        ("sub/.git/config", ""),
    ]);
    let expected = [
        ".gitignore",
        ".ignore",
        "keep.log",
        "local.txt",
        "sub/.gitignore",
        "sub/only-here.txt",
        "sub/wanted.log",
    ];
    assert_eq!(tree.ok("fs:glob", json!({"pattern": "**"})).await["files"], json!(expected));
    let listed = tree.ok("fs:list", json!({"path": "sub"})).await;
    assert_eq!(
        members(&listed["entries"], "path"),
        ["sub/.gitignore", "sub/only-here.txt", "sub/wanted.log"]
    );
    tree.link(".git", "history");
    for path in [".git", ".slipform", "sub/.git", "history"] {
        let reason = tree.refused("fs:list", json!({"path": path})).await;
        assert!(reason.contains("is not listed or searched"), "{reason}");
    }
    tree.link(".git/config", "settings");
    for path in [".git/config", "sub/.git/config", "history/config", "settings", "./sub/../.git/config"] {
        let reason = tree.refused("fs:read", json!({"path": path})).await;
        assert!(reason.contains("are not part of the project's files"), "{reason}");
    }
}

#[tokio::test]
async fn result_with_too_many_entries_is_marked_as_truncated() {
    let tree = Tree::new(&[]);
    for number in 0..1_000 {
        tree.put(&format!("many/{number:04}.txt"), "");
    }
    let list = json!({"path": "many"});
    assert_eq!(tree.ok("fs:list", list.clone()).await["truncated"], false);
    assert_eq!(tree.ok("fs:glob", json!({"pattern": "*.txt"})).await["truncated"], false);
    tree.put("many/one-more.txt", "");
    let listed = tree.ok("fs:list", list).await;
    assert_eq!(
        (listed["truncated"].as_bool(), listed["entries"].as_array().unwrap().len()),
        (Some(true), 1_000)
    );
    let found = tree.ok("fs:glob", json!({"pattern": "*.txt"})).await;
    assert_eq!((found["truncated"].as_bool(), found["files"].as_array().unwrap().len()), (Some(true), 1_000));
}
