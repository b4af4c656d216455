//! The pairing rules of the universal response: one test a rule, and the examples of the specification, read in place.

use serde_json::{Value, json};
use slipform_schema::universal::Criterion;
use slipform_schema::{Schema, shipped, universal};
use slipform_testkit::universal_specification;

/// A response that satisfies the schema, held against the rules.
fn check(own: Option<&str>, value: &Value, expected: &[&str]) {
    let schema = &shipped()[0].schema;
    assert_eq!(schema.violations(value).lines(), [""; 0], "the schema has to hold first: {value}");
    assert_eq!(universal::pairing(value, own).lines(), expected, "{value}");
}

fn plan() -> Value {
    json!({
        "response_type": "planning", "status": "success", "message": "A plan.",
        "planning_data": {"summary": "Log in", "steps": [{"step_number": 1, "action": "a", "details": "d"}]},
    })
}

fn verified(status: &str) -> Value {
    let checks: &[bool] = match status {
        "FAIL" => &[false],
        "PARTIAL" => &[true, false],
        _ => &[true],
    };
    judged(status, checks)
}

/// A verification with criteria that were met or not: `a`, `b` and so on.
fn judged(status: &str, passed: &[bool]) -> Value {
    let checks = ('a'..).zip(passed).map(|(name, passed)| json!({"criterion": name, "passed": passed}));
    json!({
        "response_type": "verification", "status": status, "message": "Checked.",
        "verification_data": {"checks": checks.collect::<Vec<_>>()},
    })
}

fn scored(clarity_data: Value) -> Value {
    json!({
        "response_type": "clarity", "status": "success", "message": "Scored.", "clarity_data": clarity_data,
    })
}

/// A value with a member set, or taken away by null.
fn with(mut value: Value, pointer: &str, member: Value) -> Value {
    let (parent, name) = pointer.rsplit_once('/').unwrap();
    let parent = value.pointer_mut(parent).unwrap().as_object_mut().unwrap();
    match member {
        Value::Null => parent.shift_remove(name),
        member => parent.insert(name.to_owned(), member),
    };
    value
}

#[test]
fn an_agent_responds_as_itself_or_with_an_error() {
    let error = json!({"response_type": "error", "status": "error", "message": "No.", "error_details": {}});
    check(None, &plan(), &[]);
    check(Some("planning"), &plan(), &[]);
    check(Some("planning"), &error, &[]);
    check(Some("answer"), &plan(), &["$.response_type: 'planning' is not one of ['answer', 'error']"]);
}

#[test]
fn a_response_is_an_error_if_and_only_if_its_status_is() {
    let error = json!({"response_type": "error", "status": "error", "message": "No.", "error_details": {}});
    check(None, &error, &[]);
    check(
        None,
        &with(error.clone(), "/status", json!("success")),
        &["$.status: must be 'error', not 'success', since response_type is 'error'"],
    );
    check(
        None,
        &with(error.clone(), "/status", json!("FAIL")),
        &["$.status: must be 'error', not 'FAIL', since response_type is 'error'"],
    );
    check(
        Some("planning"),
        &with(error, "/response_type", json!("planning")),
        &["$.response_type: must be 'error', not 'planning', since status is 'error'"],
    );
}

#[test]
fn an_error_has_details() {
    let error = json!({"response_type": "error", "status": "error", "message": "No."});
    check(None, &with(error.clone(), "/error_details", json!({"error_code": "E"})), &[]);
    check(None, &error, &["$.error_details: required property is missing, since status is 'error'"]);
}

#[test]
fn a_response_that_is_done_has_its_section() {
    let bare = |kind: &str| json!({"response_type": kind, "status": "success", "message": "m"});
    for (kind, name, section, needs) in [
        ("planning", "planning_data", plan()["planning_data"].clone(), "; it needs summary and steps"),
        ("verification", "verification_data", json!({"checks": []}), "; it needs checks"),
        ("clarity", "clarity_data", json!({}), ""),
        ("research", "research_data", json!({"findings": []}), "; it needs findings"),
        ("answer", "answer_data", json!({"confidence": "low"}), "; it needs confidence"),
        ("custom", "custom_fields", json!({}), ""),
    ] {
        check(None, &with(bare(kind), &format!("/{name}"), section), &[]);
        let why = format!("since response_type is '{kind}' and status is 'success'{needs}");
        check(None, &bare(kind), &[&format!("$.{name}: required property is missing, {why}")]);
        // Another one's section does not stand for it.
        let other = if kind == "custom" { "/clarity_data" } else { "/custom_fields" };
        assert!(!universal::pairing(&with(bare(kind), other, json!({})), None).is_empty(), "{kind}");
        check(None, &with(bare(kind), "/status", json!("needs_clarification")), &[]);
    }
    check(
        None,
        &with(verified("PASS"), "/verification_data", Value::Null),
        &[
            "$.verification_data: required property is missing, since response_type is 'verification' and status is \
           'PASS'; it needs checks",
        ],
    );
}

#[test]
fn a_plan_has_a_summary_and_steps_with_details() {
    check(None, &plan(), &[]);
    check(
        None,
        &with(plan(), "/planning_data/summary", Value::Null),
        &["$.planning_data.summary: required property is missing"],
    );
    check(
        None,
        &with(plan(), "/planning_data/steps", Value::Null),
        &["$.planning_data.steps: required property is missing"],
    );
    let steps = json!([
        {"step_number": 1, "action": "a"}, {"step_number": 2, "action": "b", "details": "d"},
        {"step_number": 3, "action": "c"},
    ]);
    check(
        None,
        &with(plan(), "/planning_data/steps", steps),
        &[
            "$.planning_data.steps[0].details: required property is missing",
            "$.planning_data.steps[2].details: required property is missing",
        ],
    );
}

#[test]
fn a_verification_has_checks() {
    check(None, &verified("PASS"), &[]);
    check(
        None,
        &with(verified("PASS"), "/verification_data/checks", Value::Null),
        &["$.verification_data.checks: required property is missing"],
    );
}

#[test]
fn a_research_has_findings() {
    let found = json!({
        "response_type": "research", "status": "success", "message": "m", "research_data": {"findings": []},
    });
    check(None, &found, &[]);
    check(
        None,
        &with(found, "/research_data/findings", Value::Null),
        &["$.research_data.findings: required property is missing"],
    );
}

#[test]
fn an_answer_has_a_confidence() {
    let answer = json!({
        "response_type": "answer", "status": "success", "message": "m", "answer_data": {"confidence": "high"},
    });
    check(None, &answer, &[]);
    check(
        None,
        &with(answer, "/answer_data/confidence", Value::Null),
        &["$.answer_data.confidence: required property is missing"],
    );
}

#[test]
fn a_section_that_is_there_is_complete_whoever_filled_it_in() {
    let asking = with(plan(), "/status", json!("needs_clarification"));
    check(None, &with(asking.clone(), "/answer_data", json!({"confidence": "low"})), &[]);
    check(
        None,
        &with(asking, "/answer_data", json!({})),
        &["$.answer_data.confidence: required property is missing"],
    );
}

#[test]
fn verdicts_come_from_verifications_alone() {
    for verdict in ["PASS", "FAIL", "PARTIAL"] {
        check(None, &verified(verdict), &[]);
        let message = format!(
            "$.status: '{verdict}' is not one of ['success', 'needs_clarification', 'error'], since response_type is \
             'planning'"
        );
        check(None, &with(plan(), "/status", json!(verdict)), &[&message]);
    }
}

#[test]
fn steps_are_numbered_in_order() {
    let numbered = |numbers: &[f64]| {
        let step = |number: &f64| json!({"step_number": number, "action": "a", "details": "d"});
        with(plan(), "/planning_data/steps", numbers.iter().map(step).collect())
    };
    check(None, &numbered(&[]), &[]);
    check(None, &numbered(&[1.0, 2.0, 3.0]), &[]);
    check(
        None,
        &numbered(&[1.0, 3.0, 2.0, 4.0]),
        &[
            "$.planning_data.steps[1].step_number: must be 2, not 3.0: steps are numbered in order from 1",
            "$.planning_data.steps[2].step_number: must be 3, not 2.0: steps are numbered in order from 1",
        ],
    );
}

#[test]
fn a_verdict_follows_from_the_checks() {
    for (status, passed, expected) in [
        ("PASS", [true, true].as_slice(), ""),
        ("PASS", &[true, false], "must be 'PARTIAL' or 'FAIL', not 'PASS', since 1 of 2 checks failed: 'b'"),
        ("PASS", &[false, false], "must be 'FAIL', not 'PASS', since 2 of 2 checks failed: 'a', 'b'"),
        ("FAIL", &[false], ""),
        ("FAIL", &[true, false], ""),
        ("FAIL", &[true, true], "must be 'PASS', not 'FAIL', since every check has passed"),
        ("PARTIAL", &[true, false], ""),
        ("PARTIAL", &[true], "must be 'PASS', not 'PARTIAL', since every check has passed"),
        (
            "PARTIAL",
            &[false; 6],
            "must be 'FAIL', not 'PARTIAL', since 6 of 6 checks failed: 'a', 'b', 'c', 'd', 'e', and 1 more",
        ),
        ("needs_clarification", &[false], ""),
    ] {
        let expected = Some(format!("$.status: {expected}")).filter(|_| !expected.is_empty());
        check(None, &judged(status, passed), expected.as_deref().as_slice());
    }
    let alone = |status: &str| {
        format!(
            "$.status: '{status}' needs at least one check; add to verification_data.checks what was checked, or say \
             'needs_clarification'"
        )
    };
    for status in ["PASS", "FAIL", "PARTIAL"] {
        check(None, &judged(status, &[]), &[&alone(status)]);
    }
    let error = json!({"response_type": "error", "status": "error", "message": "m", "error_details": {}});
    check(
        None,
        &with(error, "/verification_data", judged("FAIL", &[false])["verification_data"].clone()),
        &[],
    );
}

#[test]
fn what_is_not_clear_is_asked() {
    let asks = json!(["Which file?"]);
    check(None, &scored(json!({"total_score": 85})), &[]);
    check(None, &scored(json!({"total_score": 84, "follow_up_questions": asks})), &[]);
    check(
        None,
        &scored(json!({"total_score": 84})),
        &[
            "$.clarity_data.follow_up_questions: required property is missing, since total_score is 84, below 85",
        ],
    );
    let unasked = scored(json!({"total_score": 84, "follow_up_questions": []}));
    check(
        None,
        &with(unasked, "/status", json!("needs_clarification")),
        &[
            "$.clarity_data.follow_up_questions: has 0 items, at least 1 needed, since total_score is 84, below 85",
        ],
    );
    // The total decides where there is one, and every score where there is none.
    let scores =
        json!({"completeness_score": 95, "clarity_score": 80, "accuracy_score": 95, "total_score": 90});
    check(None, &scored(scores.clone()), &[]);
    check(
        None,
        &with(scored(scores), "/clarity_data/total_score", Value::Null),
        &[
            "$.clarity_data.follow_up_questions: required property is missing, since clarity_score is 80, below 85",
        ],
    );
}

#[test]
fn everything_wrong_is_told_at_once_in_document_order() {
    let wrong = json!({
        "message": "m", "planning_data": {"steps": [{"step_number": 1, "action": "a"}]}, "status": "PASS",
        "response_type": "planning",
    });
    let found = universal::pairing(&wrong, Some("research"));
    assert_eq!(
        found.lines(),
        [
            "$.planning_data.steps[0].details: required property is missing",
            "$.planning_data.summary: required property is missing",
            "$.status: 'PASS' is not one of ['success', 'needs_clarification', 'error'], since response_type is \
             'planning'",
            "$.response_type: 'planning' is not one of ['research', 'error']",
        ]
    );
    assert_eq!(found.list[2].value, "PASS");
    assert_eq!(found.list[0].value, Value::Null);
}

#[test]
fn the_schema_is_recognised_by_what_it_says() {
    let own = &shipped()[0];
    assert!(universal::is_universal(&Schema::compile(own.schema.source()).unwrap()));
    let mut sorted = own.schema.source().clone();
    sorted.sort_all_objects();
    let sorted = Schema::compile(&sorted).unwrap();
    assert!(sorted.hash() != own.schema.hash() && universal::is_universal(&sorted));
    let mut other = own.schema.source().clone();
    other["description"] = json!("almost the same");
    assert!(!universal::is_universal(&Schema::compile(&other).unwrap()));
}

/// Every response in a fenced block of the specification, those below a line of prompt too.
fn examples(specification: &str) -> Vec<Value> {
    let blocks = specification.split("```").skip(1).step_by(2);
    let documents = blocks.filter_map(|block| block.get(block.find('{')?..=block.rfind('}')?));
    let values = documents.filter_map(|text| serde_json::from_str(text).ok());
    values.filter(|value: &Value| value["response_type"].is_string()).collect()
}

#[test]
fn the_shipped_schema_is_the_specification_byte_for_byte() {
    let Some(specification) = universal_specification() else { return };
    let block = specification.split("```json\n").nth(1).and_then(|rest| rest.split("```").next());
    assert_eq!(Some(shipped()[0].text), block);
    assert_eq!(shipped()[0].name, "universal-agent-response");
}

#[test]
fn every_example_of_the_specification_passes() {
    let Some(specification) = universal_specification() else { return };
    let examples = examples(&specification);
    assert_eq!(examples.len(), 9, "seven examples and two prompts with one");
    for example in examples {
        check(example["response_type"].as_str(), &example, &[]);
    }
}

#[test]
fn the_examples_fail_when_they_are_spoilt() {
    let Some(specification) = universal_specification() else { return };
    let examples = examples(&specification);
    for (kind, pointer, member, path) in [
        ("planning", "/response_type", json!("research"), "$.response_type"),
        ("planning", "/status", json!("PARTIAL"), "$.status"),
        ("planning", "/status", json!("error"), "$.response_type"),
        ("planning", "/planning_data", Value::Null, "$.planning_data"),
        ("planning", "/planning_data/summary", Value::Null, "$.planning_data.summary"),
        ("planning", "/planning_data/steps", Value::Null, "$.planning_data.steps"),
        ("planning", "/planning_data/steps/1/step_number", json!(1), "$.planning_data.steps[1].step_number"),
        ("verification", "/verification_data/checks/2/passed", json!(false), "$.status"),
        ("planning", "/planning_data/steps/4/details", Value::Null, "$.planning_data.steps[4].details"),
        ("answer", "/answer_data", Value::Null, "$.answer_data"),
        ("answer", "/answer_data/confidence", Value::Null, "$.answer_data.confidence"),
        ("verification", "/verification_data", Value::Null, "$.verification_data"),
        ("verification", "/verification_data/checks", Value::Null, "$.verification_data.checks"),
        ("clarity", "/clarity_data/follow_up_questions", json!([]), "$.clarity_data.follow_up_questions"),
        ("clarity", "/clarity_data/follow_up_questions", Value::Null, "$.clarity_data.follow_up_questions"),
        ("clarity", "/clarity_data/total_score", json!("low"), "$.clarity_data.total_score"),
        ("research", "/research_data", Value::Null, "$.research_data"),
        ("research", "/research_data/findings", Value::Null, "$.research_data.findings"),
        ("custom", "/custom_fields", Value::Null, "$.custom_fields"),
        ("error", "/status", json!("success"), "$.status"),
        ("error", "/error_details", Value::Null, "$.error_details"),
    ] {
        let example = examples.iter().find(|example| example["response_type"] == kind).unwrap();
        let spoilt = with(example.clone(), pointer, member);
        let mut found = shipped()[0].schema.violations(&spoilt);
        if found.is_empty() {
            found = universal::pairing(&spoilt, Some(kind));
        }
        assert!(found.list.iter().any(|violation| violation.path == path), "{pointer}: {:?}", found.lines());
    }
}

#[test]
fn a_success_of_a_verification_is_as_good_as_a_pass_and_no_better() {
    check(None, &judged("success", &[true, true]), &[]);
    let told = "$.status: must be 'PARTIAL' or 'FAIL', not 'success', since 1 of 2 checks failed: 'b'";
    check(None, &judged("success", &[true, false]), &[told]);
}

/// Everything that a schema of [`universal::exactly`] allows satisfies the rules, as far as values made of it show.
#[test]
fn an_exact_schema_allows_nothing_that_the_rules_refuse() {
    let criterion = |text: &str, passed: Option<bool>| Criterion { criterion: text.to_owned(), passed };
    let known = [
        vec![],
        vec![criterion("a", None)],
        vec![criterion("a", Some(true))],
        vec![criterion("a", Some(false))],
        vec![criterion("a", Some(true)), criterion("b", Some(false))],
        vec![criterion("a", Some(true)), criterion("b", None)],
        vec![criterion("a", Some(false)), criterion("b", None), criterion("c", None)],
    ];
    let mut verdicts = Vec::new();
    for own in ["planning", "answer", "verification", "clarity", "research", "custom"] {
        for criteria in &known {
            let exact = universal::exactly(own, criteria).unwrap();
            let several = exact["anyOf"].as_array().cloned();
            for form in several.unwrap_or_else(|| vec![exact.clone()]) {
                let compiled = Schema::compile(&form).unwrap();
                for (least, bit) in [(true, false), (false, true), (true, true), (false, false)] {
                    let value = made(&form, least, bit);
                    assert_eq!(compiled.violations(&value).lines(), Vec::<String>::new(), "{own}: {value}");
                    check(Some(own), &value, &[]);
                    if own == "verification" {
                        verdicts.push((criteria.len(), value["status"].as_str().unwrap().to_owned()));
                    }
                }
            }
        }
    }
    assert!(verdicts.contains(&(0, "PARTIAL".to_owned())));
    // One criterion alone is met or is not.
    assert!(!verdicts.contains(&(1, "PARTIAL".to_owned())));
    assert_eq!(universal::exactly("error", &[]), None);
}

/// A value of a schema that has nothing but what exact schemas have: the smallest, or the largest.
fn made(schema: &Value, least: bool, bit: bool) -> Value {
    if let Some(value) = schema.get("const") {
        return value.clone();
    }
    if let Some(values) = schema["enum"].as_array() {
        return if least { values[0].clone() } else { values[values.len() - 1].clone() };
    }
    match schema["type"].as_str().unwrap() {
        "string" => "x".into(),
        "boolean" => bit.into(),
        "integer" => schema[if least { "minimum" } else { "maximum" }].clone(),
        "array" => {
            let fewest = schema["minItems"].as_u64().unwrap_or(0);
            let count = if least { fewest } else { schema["maxItems"].as_u64().unwrap() };
            let item = |index: u64| match schema["items"].get(index as usize) {
                Some(own) => made(own, least, bit),
                None => made(&schema["items"], least, bit),
            };
            (0..count).map(item).collect()
        }
        _ => match schema["properties"].as_object() {
            Some(members) => {
                members.iter().map(|(name, member)| (name.clone(), made(member, least, bit))).collect()
            }
            None => json!({"a": 1}),
        },
    }
}

#[test]
fn there_are_rules_beyond_the_universal_response_and_beyond_nothing_else() {
    let bare = json!({"response_type": "planning", "status": "success", "message": "A plan."});
    let form = universal::schema().unwrap();
    assert!(universal::is_universal(form) && universal::says_universal(form.source()));
    assert_eq!(universal::extra_rules(form, &bare, None), universal::pairing(&bare, None));
    assert_eq!(universal::extra_rules(form, &plan(), Some("answer")).total(), 1);
    let other = Schema::compile(&json!({"type": "object"})).unwrap();
    assert!(universal::extra_rules(&other, &bare, Some("answer")).is_empty());
    assert!(!universal::says_universal(other.source()));
}
