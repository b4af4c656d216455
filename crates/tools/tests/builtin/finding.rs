//! Tests `fs:search` and `fs:glob`.

use serde_json::json;

use crate::support::{Tree, members};

#[tokio::test]
async fn matches_have_line_numbers_and_context() {
    let tree = Tree::new(&[
        ("b.rs", "fn one() {}\n\nfn two() {}\n// end\n"),
        ("a/c.rs", "let x = one();\r\nx\r\n"),
        ("note.md", "one\n"),
    ]);
    let found = tree.ok("fs:search", json!({"pattern": r"\bone\(", "context": 1})).await;
    assert_eq!(
        found,
        json!({"matches": [
            {"path": "a/c.rs", "line": 1, "text": "let x = one();", "after": ["x"]},
            {"path": "b.rs", "line": 1, "text": "fn one() {}", "after": [""]},
        ], "files_searched": 3, "truncated": false})
    );
    let last = tree.ok("fs:search", json!({"pattern": "end$", "context": 5})).await;
    assert_eq!(last["matches"][0]["before"], json!(["fn one() {}", "", "fn two() {}"]));
    assert!(last["matches"][0].get("after").is_none(), "{last}");
    let ends = tree.ok("fs:search", json!({"pattern": r"^x$"})).await;
    assert_eq!(members(&ends["matches"], "path"), ["a/c.rs"]);
}

#[tokio::test]
async fn search_is_narrowed_by_path_glob_and_options() {
    let tree =
        Tree::new(&[("src/a.rs", "Needle(\n"), ("src/deep/a.ts", "needle(\n"), ("doc.md", "needle(\n")]);
    for (arguments, expected) in [
        (json!({"pattern": "needle(", "literal": true}), vec!["doc.md", "src/deep/a.ts"]),
        (json!({"pattern": "needle", "ignore_case": true}), vec!["doc.md", "src/a.rs", "src/deep/a.ts"]),
        (json!({"pattern": "(?i)needle", "glob": "*.rs"}), vec!["src/a.rs"]),
        (json!({"pattern": "needle", "glob": "!*.md"}), vec!["src/deep/a.ts"]),
        (json!({"pattern": "needle", "glob": "src/**/*.{ts,tsx}"}), vec!["src/deep/a.ts"]),
        (json!({"pattern": "needle", "path": "src", "glob": "deep/*"}), vec!["src/deep/a.ts"]),
        (json!({"pattern": "needle", "path": "doc.md"}), vec!["doc.md"]),
        (json!({"pattern": "needle", "path": "doc.md", "glob": "*.rs"}), vec![]),
        (json!({"pattern": "nothing"}), vec![]),
    ] {
        let found = tree.ok("fs:search", arguments.clone()).await;
        assert_eq!(members(&found["matches"], "path"), expected, "{arguments}");
    }
}

#[tokio::test]
async fn invalid_pattern_is_refused_with_a_reason() {
    let tree = Tree::new(&[("a.txt", "a\nb\n")]);
    let unclosed = tree.refused("fs:search", json!({"pattern": "fn ("})).await;
    assert!(unclosed.contains("unclosed group") && unclosed.contains("literal: true"), "{unclosed}");
    let lines = tree.refused("fs:search", json!({"pattern": r"a\nb"})).await;
    assert!(lines.contains("lines are searched one by one"), "{lines}");
    let large = tree.refused("fs:search", json!({"pattern": r"(\w{1000}){1000}"})).await;
    assert!(large.contains("cannot be used"), "{large}");
    let glob = tree.refused("fs:glob", json!({"pattern": "a{b"})).await;
    assert!(glob.contains("the pattern 'a{b' cannot be used"), "{glob}");
}

#[tokio::test]
async fn results_are_bounded_in_number_and_length() {
    let tree = Tree::new(&[("many.txt", &"hit\n".repeat(300)), ("z.txt", "hit\n")]);
    for (arguments, count, truncated) in [
        (json!({"pattern": "hit"}), 50, true),
        (json!({"pattern": "hit", "max_results": 200}), 200, true),
        (json!({"pattern": "hit", "path": "z.txt", "max_results": 1}), 1, false),
    ] {
        let found = tree.ok("fs:search", arguments).await;
        assert_eq!(found["matches"].as_array().unwrap().len(), count);
        assert_eq!(found["truncated"], truncated);
    }
    let long = format!("{}needle{}", "ä".repeat(5_000), "b".repeat(5_000));
    tree.put("long.txt", &long);
    let found = tree.ok("fs:search", json!({"pattern": "needle"})).await;
    let text = found["matches"][0]["text"].as_str().unwrap();
    assert_eq!(text.chars().count(), 402);
    assert!(text.starts_with("…ä") && text.contains("needlebb") && text.ends_with("b…"), "{text}");
    let wide = format!("{}\n", "w".repeat(390)).repeat(300);
    tree.put("wide.txt", &wide);
    let found = tree.ok("fs:search", json!({"pattern": "w", "max_results": 200, "context": 5})).await;
    assert_eq!(found["truncated"], true);
    assert!(found.to_string().len() < 70_000);
}

#[tokio::test]
async fn binary_and_oversized_files_are_skipped() {
    let tree = Tree::new(&[("a.txt", "needle\n")]);
    tree.put("binary", b"needle\0needle\n");
    tree.put("huge.txt", "needle\n".repeat(700_000));
    let found = tree.ok("fs:search", json!({"pattern": "needle"})).await;
    assert_eq!(members(&found["matches"], "path"), ["a.txt"]);
    assert_eq!((found["files_searched"].as_u64(), found["files_too_large"].as_u64()), (Some(1), Some(1)));
}

#[tokio::test]
async fn files_are_found_by_path_pattern() {
    let tree = Tree::new(&[
        ("src/main.rs", ""),
        ("src/a/b.rs", ""),
        ("build.rs", ""),
        ("a.yml", ""),
        ("b.yaml", ""),
    ]);
    for (arguments, expected) in [
        (json!({"pattern": "*.rs"}), vec!["build.rs", "src/a/b.rs", "src/main.rs"]),
        (json!({"pattern": "./src/*.rs"}), vec!["src/main.rs"]),
        (json!({"pattern": "/*.rs"}), vec!["build.rs"]),
        (json!({"pattern": "src/**"}), vec!["src/a/b.rs", "src/main.rs"]),
        (json!({"pattern": "*.{yml,yaml}"}), vec!["a.yml", "b.yaml"]),
        (json!({"pattern": "a/*.rs", "path": "src"}), vec!["src/a/b.rs"]),
        (json!({"pattern": "*.py"}), vec![]),
    ] {
        let found = tree.ok("fs:glob", arguments.clone()).await;
        assert_eq!(found, json!({"files": expected, "truncated": false}), "{arguments}");
    }
}
