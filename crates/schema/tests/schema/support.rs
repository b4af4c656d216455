//! Real-world schemas with labelled instances, read from the shared corpora.

use std::fs;

use serde_json::Value;
use slipform_testkit::corpus;

/// Returns every row of jsonschemabench. Returns `None` and prints a note if the corpus is missing.
pub(crate) fn rows() -> Option<Vec<Value>> {
    let entries = fs::read_dir(corpus("jsonschemabench")?).unwrap();
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let texts = files.into_iter().map(|file| fs::read_to_string(file).unwrap());
    let parse =
        |text: String| text.lines().map(|line| serde_json::from_str(line).unwrap()).collect::<Vec<_>>();
    Some(texts.flat_map(parse).collect())
}
