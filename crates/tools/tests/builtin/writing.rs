//! Tests `fs:write` and `fs:edit`.

use std::os::unix::fs::PermissionsExt;

use serde_json::json;

use crate::support::Tree;

#[tokio::test]
async fn file_is_created_with_its_folders_and_replaced() {
    let tree = Tree::new(&[]);
    let written = tree.ok("fs:write", json!({"path": "a/b/c.txt", "content": "ü\n"})).await;
    assert_eq!(written, json!({"path": "a/b/c.txt", "bytes": 3, "created": true}));
    std::fs::set_permissions(tree.path("a/b/c.txt"), PermissionsExt::from_mode(0o750)).unwrap();
    let written = tree.ok("fs:write", json!({"path": "a/b/c.txt", "content": ""})).await;
    assert_eq!(written, json!({"path": "a/b/c.txt", "bytes": 0, "created": false}));
    assert_eq!(tree.content("a/b/c.txt"), "");
    assert_eq!(std::fs::metadata(tree.path("a/b/c.txt")).unwrap().permissions().mode() & 0o777, 0o750);
    assert_eq!(std::fs::read_dir(tree.path("a/b")).unwrap().count(), 1, "no temporary file remains");
}

#[tokio::test]
async fn read_only_file_is_not_changed() {
    let tree = Tree::new(&[("kept.txt", "text\n")]);
    std::fs::set_permissions(tree.path("kept.txt"), PermissionsExt::from_mode(0o444)).unwrap();
    for (tool, arguments) in [
        ("fs:write", json!({"path": "kept.txt", "content": "x"})),
        ("fs:edit", json!({"path": "kept.txt", "old_text": "text", "new_text": "x"})),
    ] {
        let reason = tree.refused(tool, arguments).await;
        assert!(reason.contains("is read-only"), "{reason}");
    }
    assert_eq!(tree.content("kept.txt"), "text\n");
}

#[tokio::test]
async fn edit_of_a_hard_link_does_not_change_the_other_name() {
    let tree = Tree::new(&[]);
    std::fs::write(tree.outside("original.txt"), "original").unwrap();
    std::fs::hard_link(tree.outside("original.txt"), tree.path("same.txt")).unwrap();
    tree.ok("fs:edit", json!({"path": "same.txt", "old_text": "original", "new_text": "changed"})).await;
    assert_eq!(tree.content("same.txt"), "changed");
    assert_eq!(std::fs::read_to_string(tree.outside("original.txt")).unwrap(), "original");
}

#[tokio::test]
async fn protected_and_invalid_targets_are_refused() {
    let tree = Tree::new(&[("folder/a.txt", "text\n"), (".git/config", "text\n")]);
    tree.link("folder/a.txt", "link.txt");
    tree.link(".git", "history");
    for (path, expected) in [
        (".git/config", "is in a folder that tools do not write to"),
        ("slipform.toml", "says which programs and keys agents may use"),
        ("agents/evil.yaml", "says which programs and keys agents may use"),
        ("./src/../agents/evil/agent.json", "says which programs and keys agents may use"),
        (".GIT/config", "is in a folder that tools do not write to"),
        ("folder/../.slipform/x", "is in a folder that tools do not write to"),
        ("vendor/.git/hooks/post-checkout", "is in a folder that tools do not write to"),
        ("history/config", "goes through the link 'history'"),
        ("link.txt", "is a link and is not written to"),
        ("folder", "is a folder, not a file"),
        (".", "is the project's folder; name a file in it"),
        ("folder/a.txt/b.txt", "takes the file 'a.txt' for a folder"),
    ] {
        for (tool, arguments) in [
            ("fs:write", json!({"path": path, "content": "changed"})),
            ("fs:edit", json!({"path": path, "old_text": "text", "new_text": "changed"})),
        ] {
            let reason = tree.refused(tool, arguments).await;
            assert!(reason.contains(expected), "{tool} {path}: {reason}");
        }
    }
    assert_eq!(
        (tree.content("folder/a.txt"), tree.content(".git/config")),
        ("text\n".into(), "text\n".into())
    );
    assert!(!tree.path("vendor").exists());
    let content = "a".repeat(1024 * 1024 + 1);
    let reason = tree.refused("fs:write", json!({"path": "huge.txt", "content": content})).await;
    assert!(reason.contains("has 1048577 bytes, and 1048576 are the most"), "{reason}");
    assert!(!tree.path("huge.txt").exists());
    tree.put("many.txt", "a".repeat(1024 * 1024));
    let grow = json!({"path": "many.txt", "old_text": "a", "new_text": content, "replace_all": true});
    let reason = tree.refused("fs:edit", grow).await;
    assert!(reason.contains("it would have 1099512676352 bytes"), "{reason}");
}

#[tokio::test]
async fn text_is_replaced_once_or_everywhere() {
    let tree = Tree::new(&[("a.rs", "let a = 1;\nlet b = 2;\nlet c = 1;\n")]);
    let edited =
        tree.ok("fs:edit", json!({"path": "a.rs", "old_text": "b = 2;\n", "new_text": "b = 3;\n"})).await;
    assert_eq!(edited, json!({"path": "a.rs", "replacements": 1, "first_line": 2}));
    let twice = json!({"path": "a.rs", "old_text": "= 1", "new_text": "= 0"});
    assert_eq!(
        tree.refused("fs:edit", twice).await,
        "'a.rs' is not changed: old_text occurs 2 times, at line 1, line 3; give more lines around it, or set replace_all"
    );
    let all = json!({"path": "a.rs", "old_text": "= 1", "new_text": "= 0", "replace_all": true});
    assert_eq!(tree.ok("fs:edit", all).await["replacements"], 2);
    assert_eq!(tree.content("a.rs"), "let a = 0;\nlet b = 3;\nlet c = 0;\n");
}

#[tokio::test]
async fn missing_old_text_is_refused_with_a_hint() {
    let tree = Tree::new(&[("a.rs", "x\nfn  main()\t{\n    ü();\n}\n"), ("dos.txt", "a\r\nb\r\n")]);
    for (path, old_text, expected) in [
        ("a.rs", "fn main() {\nü();", "with other whitespace it does, at line 2: copy it"),
        ("dos.txt", "a\nb", "with other whitespace it does, at line 1, whose lines end in \\r\\n"),
        ("a.rs", "fn other()", "old_text does not occur in it; read the file again"),
        ("a.rs", "   \n", "old_text does not occur in it; read the file again"),
        ("none.rs", "a", "'none.rs' does not exist in the project"),
        ("none/none.rs", "a", "'none/none.rs' does not exist in the project"),
    ] {
        let reason =
            tree.refused("fs:edit", json!({"path": path, "old_text": old_text, "new_text": "new"})).await;
        assert!(reason.contains(expected), "{reason}");
    }
    let same = tree.refused("fs:edit", json!({"path": "a.rs", "old_text": "x", "new_text": "x"})).await;
    assert!(same.contains("the same as new_text"), "{same}");
    assert!(!tree.path("none").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_edits_are_all_applied() {
    let text: String = (0..20).map(|number| format!("<{number}>\n")).collect();
    let tree = std::sync::Arc::new(Tree::new(&[("a.txt", &text)]));
    let edits: Vec<_> = (0..20)
        .map(|number| {
            let tree = std::sync::Arc::clone(&tree);
            let edit = json!({"path": "a.txt", "old_text": format!("<{number}>"), "new_text": "done"});
            tokio::spawn(async move { tree.ok("fs:edit", edit).await })
        })
        .collect();
    for edit in edits {
        edit.await.unwrap();
    }
    assert_eq!(tree.content("a.txt"), "done\n".repeat(20));
}
