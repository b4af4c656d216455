//! Real-world schemas with labelled instances, read from the shared corpora.

use std::fs;
use std::path::Path;

use serde_json::Value;

/// Returns every row of jsonschemabench. Returns `None` and prints a note if the corpus is missing.
pub(crate) fn rows() -> Option<Vec<Value>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpora/jsonschemabench");
    let Ok(entries) = fs::read_dir(&folder) else {
        println!("SKIPPED: jsonschemabench not found at {}", folder.display());
        return None;
    };
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let texts = files.into_iter().map(|file| fs::read_to_string(file).unwrap());
    let parse =
        |text: String| text.lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<_>>();
    Some(texts.flat_map(parse).collect())
}
