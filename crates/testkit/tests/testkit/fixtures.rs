//! Tests that the fixtures are consistent.

use slipform_testkit::fixtures;

#[test]
fn replies_satisfy_their_schemas() {
    for fixture in fixtures::all() {
        let validator = jsonschema::validator_for(fixture.output_schema()).unwrap();
        assert!(validator.is_valid(&fixture.reply), "{}", fixture.name);
    }
}

#[test]
fn blueprints_are_complete() {
    for fixture in fixtures::all() {
        assert_eq!(fixture.agent["name"], fixture.name);
        assert!(fixture.agent["description"].is_string(), "{}", fixture.name);
        assert!(fixture.agent["system_prompt"].is_string(), "{}", fixture.name);
        assert!(!fixture.input.is_empty(), "{}", fixture.name);
        assert_eq!(serde_json::from_str::<serde_json::Value>(&fixture.reply_text()).unwrap(), fixture.reply);
    }
}
