//! Tests ranked search and the refresh of its index.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};

use crate::support::{Tree, members};

const LEDGER: &str = "//! Keeps the books of a run.\n\n\
    /// How many attempts were made again.\npub struct Ledger {\n    retries: u32,\n}\n\n\
    impl Ledger {\n    /// Counts one retry more.\n    pub fn count_retry(&mut self) {\n        self.retries += 1;\n    }\n}\n";

const WEIGHTS: &str = "/// Fetches the model's weights unless they are there.\n\
    pub async fn download(url: &str) -> Result<PathBuf, Error> {\n    let weights = cache().join(name(url));\n    Ok(weights)\n}\n";

const SERVER: &str = "class HttpServer {\n  async acceptConnection(socket) {\n    this.open.push(socket);\n  }\n\n\
    closeIdleConnections() {\n    this.open = this.open.filter((socket) => !socket.idle);\n  }\n}\n";

/// Creates a project with several subjects whose words also occur elsewhere.
fn project() -> Tree {
    let prose = "The model answers. A retry may follow. The server counts on it.\n".repeat(30);
    Tree::new(&[
        ("engine/ledger.rs", LEDGER),
        (
            "engine/decide.rs",
            "/// Decides what comes next.\npub fn decide(event: Event) -> Vec<Action> {\n    vec![]\n}\n",
        ),
        ("embedded/weights/fetch.rs", WEIGHTS),
        ("embedded/model.rs", "/// A model.\npub struct Model {\n    layers: Vec<Layer>,\n}\n"),
        ("web/server.js", SERVER),
        ("docs/intro.md", &prose),
        ("docs/weather.md", "# Weather\n\nIt rains.\n"),
    ])
}

async fn search(tree: &Tree, query: &str) -> Value {
    tree.ok("code:search", json!({"query": query})).await
}

#[tokio::test]
async fn query_finds_the_file_it_is_about() {
    let tree = project();
    for (query, expected) in [
        ("where retries are counted", "engine/ledger.rs"),
        ("count_retry", "engine/ledger.rs"),
        ("model weights download", "embedded/weights/fetch.rs"),
        ("Where do we close idle connections?", "web/server.js"),
        ("httpserver", "web/server.js"),
        ("deciding", "engine/decide.rs"),
        ("struct of layers", "embedded/model.rs"),
        ("raining", "docs/weather.md"),
    ] {
        let found = search(&tree, query).await;
        assert_eq!(members(&found["results"], "path")[0], expected, "{query}: {found}");
    }
    let found = search(&tree, "where retries are counted").await;
    assert_eq!(found["results"][0]["text"], LEDGER.trim_end());
    assert_eq!(
        (found["results"][0]["first_line"].as_u64(), found["indexed_files"].as_u64()),
        (Some(1), Some(7))
    );
    assert_eq!(search(&tree, "xylophone").await["results"], json!([]));
}

#[tokio::test]
async fn results_are_bounded_and_come_from_different_files() {
    let tree = project();
    let long: String = (0..20)
        .map(|number| format!("fn zebra_{number}() {{\n{}}}\n\n", "    stripe();\n".repeat(30)))
        .collect();
    tree.put("zoo/long.rs", &long);
    tree.put("zoo/short.rs", "fn zebra() {}\n");
    let found = search(&tree, "zebra").await;
    let mut paths = members(&found["results"], "path");
    paths.sort_unstable();
    assert_eq!(paths, ["zoo/long.rs", "zoo/long.rs", "zoo/short.rs"]);
    let limited = tree.ok("code:search", json!({"query": "zebra", "limit": 1})).await;
    assert_eq!(members(&limited["results"], "path").len(), 1);
    let within = tree.ok("code:search", json!({"query": "model", "path": "docs"})).await;
    assert_eq!(members(&within["results"], "path")[0], "docs/intro.md");
    assert!(members(&within["results"], "path").iter().all(|path| path.starts_with("docs/")), "{within}");
    tree.put("wide.txt", format!("quagga {}\n", "w ".repeat(900)).repeat(3));
    let wide = search(&tree, "quagga").await;
    assert_eq!(wide["results"][0]["text"].as_str().unwrap().chars().count(), 2_000);
}

#[tokio::test]
async fn words_on_one_line_rank_first_and_tests_rank_last() {
    let apart = format!("{}\n{}okapi();\n", "zebra();", "other();\n".repeat(8));
    let together = format!("{}\n{}other();\n", "zebra(okapi());", "other();\n".repeat(8));
    let tree = Tree::new(&[("a.rs", &apart), ("b.rs", &together), ("tests/b.rs", &together)]);
    assert_eq!(
        members(&search(&tree, "okapi zebra").await["results"], "path"),
        ["b.rs", "a.rs", "tests/b.rs"]
    );
    tree.put("a.rs", format!("#[test]\n{together}"));
    tree.put("b.rs", &apart);
    let found = search(&tree, "okapi zebra").await;
    assert_eq!(members(&found["results"], "path")[0], "b.rs");
    let found = search(&tree, "tests of okapi zebra").await;
    assert!(members(&found["results"], "path")[..2].contains(&"tests/b.rs".to_owned()), "{found}");
}

#[tokio::test]
async fn only_changed_files_are_read_again() {
    let mut tree = project();
    let refreshed = async |tree: &Tree| search(tree, "retry").await["refreshed_files"].as_u64().unwrap();
    assert_eq!((refreshed(&tree).await, refreshed(&tree).await), (7, 0));
    tree.reopen();
    assert_eq!(refreshed(&tree).await, 0, "the index was kept on disk");
    let edit = json!({"path": "docs/weather.md", "old_text": "It rains.", "new_text": "It snows."});
    tree.ok("fs:edit", edit).await;
    tree.put("new.txt", "snow\n");
    let found = search(&tree, "snowing").await;
    assert_eq!(found["refreshed_files"], 2);
    assert_eq!(members(&found["results"], "path"), ["new.txt", "docs/weather.md"]);
    assert_eq!(search(&tree, "rain").await["results"], json!([]));
    std::fs::remove_file(tree.path("new.txt")).unwrap();
    tree.reopen();
    let found = search(&tree, "snowing").await;
    assert_eq!((found["refreshed_files"].as_u64(), found["indexed_files"].as_u64()), (Some(0), Some(7)));
    assert_eq!(members(&found["results"], "path"), ["docs/weather.md"]);
}

#[tokio::test]
async fn damaged_or_foreign_index_is_rebuilt() {
    let mut tree = project();
    search(&tree, "retry").await;
    let index = tree.path(".slipform/index/code");
    let whole = std::fs::read(&index).unwrap();
    for broken in [&whole[..whole.len() - 1], b"", b"something else", &[whole.as_slice(), b"more"].concat()] {
        std::fs::write(&index, broken).unwrap();
        tree.reopen();
        let found = search(&tree, "where retries are counted").await;
        assert_eq!(found["refreshed_files"], 7);
        assert_eq!(found["results"][0]["path"], "engine/ledger.rs");
        assert_eq!(std::fs::read(&index).unwrap(), whole, "the index is complete again");
    }
    assert_eq!(tree.content(".slipform/index/.gitignore"), "*\n");
}

#[tokio::test]
async fn read_only_project_is_searched_from_memory() {
    let tree = project();
    // A file in place of the folder blocks writes for every user, even the superuser.
    tree.put(".slipform", "");
    std::fs::set_permissions(tree.root(), Permissions::from_mode(0o555)).unwrap();
    let (first, second) = (search(&tree, "count retries").await, search(&tree, "count retries").await);
    std::fs::set_permissions(tree.root(), Permissions::from_mode(0o755)).unwrap();
    assert_eq!((first["refreshed_files"].as_u64(), second["refreshed_files"].as_u64()), (Some(7), Some(0)));
    assert_eq!(second["results"][0]["path"], "engine/ledger.rs");
}

#[tokio::test]
async fn ignored_binary_and_outside_files_are_not_indexed() {
    let tree = project();
    tree.put(".gitignore", "target/\n");
    tree.put("target/generated.rs", "fn okapi() {}\n");
    tree.put("data.bin", b"okapi\0okapi\n");
    tree.put("large.txt", "okapi\n".repeat(100_000));
    tree.put(".git/okapi", "okapi\n");
    std::fs::write(tree.outside("okapi.txt"), "okapi\n").unwrap();
    tree.link("../okapi.txt", "okapi.txt");
    tree.link("..", "above");
    assert_eq!(search(&tree, "okapi").await["results"], json!([]));
    tree.put("here.txt", "okapi\n");
    assert_eq!(members(&search(&tree, "okapi").await["results"], "path"), ["here.txt"]);
}

#[tokio::test]
async fn alias_accepts_its_own_arguments() {
    let tree = project();
    let query = json!({"text": "where retries are counted", "mode": "auto"});
    let found = tree.ok("mind:rag-query", query).await;
    assert_eq!(found["results"][0]["path"], "engine/ledger.rs");
    let found = tree.ok("mind:rag-query", json!({"query": "weights", "limit": 1})).await;
    assert_eq!(members(&found["results"], "path"), ["embedded/weights/fetch.rs"]);
    assert_eq!(found["refreshed_files"], 0, "both names share one index");
    let reason = tree.refused("code:search", json!({"query": "?!"})).await;
    assert_eq!(reason, "'?!' has no word to look for; give words, or use fs:search for signs");
    let reason = tree.refused("code:search", json!({"query": "a", "path": "../x"})).await;
    assert!(reason.contains("leads outside the project"), "{reason}");
}
