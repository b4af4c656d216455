//! Fuzzes agent files in both formats: any text is refused with problems or accepted, and what is accepted can be written
//! as JSON and read again as the same agent.
#![no_main]

use libfuzzer_sys::fuzz_target;
use slipform_agents::{Format, parse};

fuzz_target!(|text: &str| {
    for format in [Format::Yaml, Format::Json] {
        let Ok(checked) = parse(text, format, Some("name")) else { continue };
        let written = serde_json::to_string(&checked.blueprint).expect("a blueprint is JSON");
        if let Ok(again) = parse(&written, Format::Json, None) {
            assert_eq!(again.blueprint, checked.blueprint);
        }
    }
});
