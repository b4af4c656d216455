//! The specification of the universal response, read where it stands: beside the checkout, or not at all.

use std::path::Path;

use serde_json::Value;

/// Its text; none where it is not there, which is said.
#[allow(clippy::print_stdout, reason = "whoever reads the output learns what was left out")]
pub fn universal_specification() -> Option<String> {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/seeds/universal-agent-response.md");
    let text = std::fs::read_to_string(&path).ok();
    if text.is_none() {
        println!("SKIPPED: the specification is not beside this checkout ({})", path.display());
    }
    text
}

/// Its examples, one for each kind of response.
pub fn universal_examples() -> Option<Vec<Value>> {
    let text = universal_specification()?;
    // What stands before the first block is none.
    let blocks = text.split("```json\n").skip(1).filter_map(|rest| rest.split_once("```"));
    let values = blocks.map(|(block, _)| serde_json::from_str(block).unwrap());
    let found: Vec<Value> = values.filter(|value: &Value| value.get("response_type").is_some()).collect();
    assert_eq!(found.len(), 7, "one for each kind of response");
    Some(found)
}
