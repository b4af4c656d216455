//! Reads the specifications of the universal response and of the action protocol, which lie beside some checkouts.

use std::path::Path;

use serde_json::Value;

/// Returns the specification of the universal response. If it is missing, prints that and returns `None`.
pub fn universal_specification() -> Option<String> {
    specification("universal-agent-response.md")
}

/// Returns the specification of the action protocol. If it is missing, prints that and returns `None`.
pub fn actions_specification() -> Option<String> {
    specification("structured-response-format.md")
}

#[allow(clippy::print_stdout, reason = "reports skipped tests")]
fn specification(file: &str) -> Option<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/seeds").join(file);
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
