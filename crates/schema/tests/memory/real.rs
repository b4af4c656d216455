//! Real schemas.

use std::fs;

use serde_json::Value;
use slipform_schema::{COMPILED_BYTES_MAX, shipped};
use slipform_testkit::corpus;

use crate::compile_measured;

/// The part of the limit that real schemas may take, so that larger ones have room.
const PART_OF_LIMIT: u64 = 4;

fn check(source: &Value) -> Option<u64> {
    let (compiled, usage) = compile_measured(source);
    let schema = compiled.ok()?;
    let estimate = schema.memory_bytes();
    assert!(
        usage.kept as u64 <= estimate,
        "takes {} bytes, estimated {estimate}: {:.500}",
        usage.kept,
        source.to_string()
    );
    assert!(
        estimate / 2 <= COMPILED_BYTES_MAX / PART_OF_LIMIT,
        "estimated {estimate}: {:.500}",
        source.to_string()
    );
    Some(estimate)
}

#[test]
fn shipped_schemas_stay_far_below_limit() {
    for known in shipped() {
        assert!(check(known.schema.source()).is_some(), "{}", known.name);
    }
}

#[test]
fn real_schemas_stay_far_below_limit() {
    let Some(folder) = corpus("jsonschemabench") else { return };
    let mut largest = 0;
    for file in fs::read_dir(folder).unwrap() {
        let text = fs::read_to_string(file.unwrap().path()).unwrap();
        for line in text.lines() {
            let row: Value = serde_json::from_str(line).unwrap();
            largest = largest.max(check(&row["schema"]).unwrap_or(0));
        }
    }
    assert!(largest > 0);
    println!("largest estimate: {largest} bytes");
}
