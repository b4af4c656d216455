//! Reads the specification of the universal response, which lies beside some checkouts.

use std::path::Path;

use serde_json::Value;

/// Returns the specification. If it is missing, prints that and returns `None`.
#[allow(clippy::print_stdout, reason = "reports skipped tests")]
pub fn universal_specification() -> Option<String> {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/seeds/universal-agent-response.md");
    let text = std::fs::read_to_string(&path).ok();
    if text.is_none() {
        println!("SKIPPED: the specification is not beside this checkout ({})", path.display());
    }
    text
}

/// Returns the examples of the specification, one per kind of response.
pub fn universal_examples() -> Option<Vec<Value>> {
    let text = universal_specification()?;
    // The text before the first block is not a block.
    let blocks = text.split("```json\n").skip(1).filter_map(|rest| rest.split_once("```"));
    let values = blocks.map(|(block, _)| serde_json::from_str(block).unwrap());
    let found: Vec<Value> = values.filter(|value: &Value| value.get("response_type").is_some()).collect();
    assert_eq!(found.len(), 7, "one example per kind of response");
    Some(found)
}
