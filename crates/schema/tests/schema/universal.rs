//! The rules of the universal response: one test per rule, and the examples of the specification.

use serde_json::{Value, json};
use slipform_schema::universal::Criterion;
use slipform_schema::{Schema, shipped, universal};
use slipform_testkit::{actions_specification, universal_specification};

/// Checks the rule violations of a response that satisfies the schema.
fn check(response_type: Option<&str>, value: &Value, expected: &[&str]) {
    let schema = &shipped()[0].schema;
    assert_eq!(schema.violations(value).lines(), [""; 0], "the schema has to hold first: {value}");
    assert_eq!(universal::pairing_violations(value, response_type).lines(), expected, "{value}");
}

fn plan() -> Value {
    json!({
        "response_type": "planning", "status": "success", "message": "A plan.",
        "planning_data": {"summary": "Log in", "steps": [{"step_number": 1, "action": "a", "details": "d"}]},
    })
}

fn verification(status: &str) -> Value {
    let checks: &[bool] = match status {
        "FAIL" => &[false],
        "PARTIAL" => &[true, false],
        _ => &[true],
    };
    verification_with(status, checks)
}

/// Returns a verification with the criteria `a`, `b` and so on, each with this result.
fn verification_with(status: &str, passed: &[bool]) -> Value {
    let checks = ('a'..).zip(passed).map(|(name, passed)| json!({"criterion": name, "passed": passed}));
    json!({
        "response_type": "verification", "status": status, "message": "Checked.",
        "verification_data": {"checks": checks.collect::<Vec<_>>()},
    })
}

fn clarity(clarity_data: Value) -> Value {
    json!({
        "response_type": "clarity", "status": "success", "message": "Scored.", "clarity_data": clarity_data,
    })
}

/// Returns the value with a member set, or removed if `member` is null.
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
fn response_type_other_than_own_or_error_is_refused() {
    let error = json!({"response_type": "error", "status": "error", "message": "No.", "error_details": {}});
    check(None, &plan(), &[]);
    check(Some("planning"), &plan(), &[]);
    check(Some("planning"), &error, &[]);
    check(Some("answer"), &plan(), &["$.response_type: 'planning' is not one of ['answer', 'error']"]);
}

#[test]
fn error_type_without_error_status_is_refused() {
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
fn error_without_details_is_refused() {
    let error = json!({"response_type": "error", "status": "error", "message": "No."});
    check(None, &with(error.clone(), "/error_details", json!({"error_code": "E"})), &[]);
    check(None, &error, &["$.error_details: required property is missing, since status is 'error'"]);
}

#[test]
fn finished_response_without_its_section_is_refused() {
    let bare = |kind: &str| json!({"response_type": kind, "status": "success", "message": "m"});
    for (kind, name, section, needs) in [
        ("planning", "planning_data", plan()["planning_data"].clone(), "; it needs summary and steps"),
        ("verification", "verification_data", json!({"checks": []}), "; it needs checks"),
        ("clarity", "clarity_data", json!({"total_score": 90}), ""),
        (
            "research",
            "research_data",
            json!({"findings": [{"topic": "t", "description": "d"}]}),
            "; it needs findings",
        ),
        ("answer", "answer_data", json!({"confidence": "low"}), "; it needs confidence"),
        ("custom", "custom_fields", json!({}), ""),
    ] {
        check(None, &with(bare(kind), &format!("/{name}"), section), &[]);
        let why = format!("since response_type is '{kind}' and status is 'success'{needs}");
        check(None, &bare(kind), &[&format!("$.{name}: required property is missing, {why}")]);
        // The section of another type does not replace it.
        let other = if kind == "custom" { "/clarity_data" } else { "/custom_fields" };
        assert!(
            !universal::pairing_violations(&with(bare(kind), other, json!({})), None).is_empty(),
            "{kind}"
        );
        check(None, &with(bare(kind), "/status", json!("needs_clarification")), &[]);
    }
    check(
        None,
        &with(verification("PASS"), "/verification_data", Value::Null),
        &[
            "$.verification_data: required property is missing, since response_type is 'verification' and status is \
           'PASS'; it needs checks",
        ],
    );
}

#[test]
fn plan_without_summary_steps_or_details_is_refused() {
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
fn verification_without_checks_is_refused() {
    check(None, &verification("PASS"), &[]);
    check(
        None,
        &with(verification("PASS"), "/verification_data/checks", Value::Null),
        &["$.verification_data.checks: required property is missing"],
    );
}

#[test]
fn research_without_findings_is_refused() {
    let found = json!({
        "response_type": "research", "status": "success", "message": "m",
        "research_data": {"findings": [{"topic": "t", "description": "d"}]},
    });
    check(None, &found, &[]);
    check(
        None,
        &with(found, "/research_data/findings", Value::Null),
        &["$.research_data.findings: required property is missing"],
    );
}

#[test]
fn answer_without_confidence_is_refused() {
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
fn section_of_another_type_is_refused() {
    let foreign = |name: &str, owner: &str, kind: &str| {
        format!(
            "$.{name}: belongs to responses of type '{owner}'; leave it out, since response_type is '{kind}'"
        )
    };
    let sections = [
        ("planning_data", "planning", plan()["planning_data"].clone()),
        ("verification_data", "verification", json!({"checks": []})),
        ("clarity_data", "clarity", json!({})),
        ("research_data", "research", json!({"findings": []})),
        ("answer_data", "answer", json!({})),
        ("custom_fields", "custom", json!({"priority": 1})),
        ("error_details", "error", json!({})),
    ];
    for status in ["success", "needs_clarification"] {
        let planned = with(plan(), "/status", json!(status));
        for (name, owner, section) in &sections[1..] {
            // Only the section itself is wrong: its members do not matter.
            let extended = with(planned.clone(), &format!("/{name}"), section.clone());
            let wrong = foreign(name, owner, "planning");
            // A response that asks may have questions and further data.
            let is_allowed =
                ["clarity_data", "custom_fields"].contains(name) && status == "needs_clarification";
            let expected: &[&str] = if is_allowed { &[] } else { &[&wrong] };
            check(Some("planning"), &extended, expected);
        }
    }
    let scored = clarity(json!({"total_score": 90}));
    for (name, owner, section) in sections.iter().filter(|(_, owner, _)| *owner != "clarity") {
        let extended = with(scored.clone(), &format!("/{name}"), section.clone());
        check(None, &extended, &[&foreign(name, owner, "clarity")]);
    }
}

#[test]
fn error_may_have_the_section_of_its_agent() {
    let error = json!({"response_type": "error", "status": "error", "message": "No.", "error_details": {}});
    let partial = with(error.clone(), "/planning_data", plan()["planning_data"].clone());
    check(Some("planning"), &partial, &[]);
    check(None, &partial, &[]);
    check(
        Some("answer"),
        &partial,
        &[
            "$.planning_data: belongs to responses of type 'planning'; leave it out, since response_type is 'error'",
        ],
    );
    check(
        None,
        &with(error, "/answer_data", json!({})),
        &["$.answer_data.confidence: required property is missing"],
    );
}

#[test]
fn success_without_steps_or_findings_is_refused() {
    let needed =
        "has 0 items, at least 1 needed, since status is 'success'; say 'needs_clarification' without one";
    let planned = with(plan(), "/planning_data/steps", json!([]));
    check(None, &planned, &[&format!("$.planning_data.steps: {needed}")]);
    check(None, &with(planned, "/status", json!("needs_clarification")), &[]);
    let found = json!({
        "response_type": "research", "status": "success", "message": "m", "research_data": {"findings": []},
    });
    check(None, &found, &[&format!("$.research_data.findings: {needed}")]);
    check(None, &with(found, "/status", json!("needs_clarification")), &[]);
}

#[test]
fn verdict_outside_verification_is_refused() {
    for verdict in ["PASS", "FAIL", "PARTIAL"] {
        check(None, &verification(verdict), &[]);
        let message = format!(
            "$.status: '{verdict}' is not one of ['success', 'needs_clarification', 'error'], since response_type is \
             'planning'"
        );
        check(None, &with(plan(), "/status", json!(verdict)), &[&message]);
    }
}

#[test]
fn misnumbered_steps_are_refused() {
    let numbered = |numbers: &[f64]| {
        let step = |number: &f64| json!({"step_number": number, "action": "a", "details": "d"});
        with(plan(), "/planning_data/steps", numbers.iter().map(step).collect())
    };
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
fn verdict_that_contradicts_checks_is_refused() {
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
        check(None, &verification_with(status, passed), expected.as_deref().as_slice());
    }
    let no_checks = |status: &str| {
        format!(
            "$.status: '{status}' needs at least one check; add to verification_data.checks what was checked, or say \
             'needs_clarification'"
        )
    };
    for status in ["PASS", "FAIL", "PARTIAL"] {
        check(None, &verification_with(status, &[]), &[&no_checks(status)]);
    }
    let error = json!({"response_type": "error", "status": "error", "message": "m", "error_details": {}});
    check(
        None,
        &with(error, "/verification_data", verification_with("FAIL", &[false])["verification_data"].clone()),
        &[],
    );
}

#[test]
fn low_clarity_score_without_questions_is_refused() {
    let unclear = |data: Value| with(clarity(data), "/status", json!("needs_clarification"));
    check(None, &clarity(json!({"total_score": 85})), &[]);
    check(None, &unclear(json!({"total_score": 84, "follow_up_questions": ["Which file?"]})), &[]);
    check(
        None,
        &unclear(json!({"total_score": 84})),
        &[
            "$.clarity_data.follow_up_questions: required property is missing, since total_score is 84, below 85",
        ],
    );
    check(
        None,
        &unclear(json!({"total_score": 84, "follow_up_questions": []})),
        &[
            "$.clarity_data.follow_up_questions: has 0 items, at least 1 needed, since total_score is 84, below 85",
        ],
    );
    // The total decides if present, otherwise every score.
    let scores =
        json!({"completeness_score": 95, "clarity_score": 80, "accuracy_score": 95, "total_score": 90});
    check(None, &clarity(scores.clone()), &[]);
    check(
        None,
        &with(clarity(scores), "/clarity_data/total_score", Value::Null),
        &[
            "$.clarity_data.follow_up_questions: required property is missing, since clarity_score is 80, below 85",
        ],
    );
}

#[test]
fn clarity_success_below_85_is_refused() {
    let asked = |mut data: Value| {
        data["follow_up_questions"] = json!(["Which file?"]);
        clarity(data)
    };
    let wrong = |what: &str| {
        format!("$.status: must be 'needs_clarification', not 'success', since {what}, below 85")
    };
    for total in [0, 35, 84] {
        check(None, &asked(json!({"total_score": total})), &[&wrong(&format!("total_score is {total}"))]);
    }
    let scores = |completeness: u32, clarity: u32, accuracy: u32| {
        asked(json!({
            "completeness_score": completeness, "clarity_score": clarity, "accuracy_score": accuracy,
        }))
    };
    // 0.40, 0.35 and 0.25 of the scores, without rounding up to the threshold.
    check(None, &scores(84, 85, 85), &[&wrong("the weighted score is 84.6")]);
    check(None, &scores(85, 85, 84), &[&wrong("the weighted score is 84.75")]);
    check(None, &scores(20, 40, 45), &[&wrong("the weighted score is 33.25")]);
    check(None, &scores(85, 85, 85), &[]);
    check(None, &scores(100, 71, 81), &[]);
    // The total decides over the scores.
    check(None, &with(scores(20, 40, 45), "/clarity_data/total_score", json!(85)), &[]);
    check(
        None,
        &with(scores(99, 99, 99), "/clarity_data/total_score", json!(84)),
        &[&wrong("total_score is 84")],
    );
}

#[test]
fn score_is_not_rounded_up() {
    let score = |data: Value| universal::score(&clarity(data));
    let weighted = |completeness: u32, clarity: u32, accuracy: u32| {
        score(json!({
            "completeness_score": completeness, "clarity_score": clarity, "accuracy_score": accuracy,
        }))
    };
    assert_eq!((weighted(84, 85, 85), weighted(85, 85, 85)), (Some(84), Some(85)));
    for whole in 0..=100 {
        assert_eq!(weighted(whole, whole, whole), u8::try_from(whole).ok());
    }
    let totals = [json!(84.6), json!(84.999), json!(85.0), json!(101), json!(-1)];
    let scores = totals.map(|total| score(json!({"total_score": total})));
    assert_eq!(scores, [Some(84), Some(84), Some(85), None, None]);
    assert_eq!(score(json!({"completeness_score": 90, "clarity_score": 90})), None);
}

#[test]
fn clarity_without_scores_is_refused() {
    let missing = "$.clarity_data.total_score: required property is missing; without it completeness_score, clarity_score \
                   and accuracy_score are needed";
    for data in [
        json!({}),
        json!({"follow_up_questions": ["Which file?"]}),
        json!({"completeness_score": 90, "clarity_score": 95}),
    ] {
        check(None, &clarity(data.clone()), &[missing]);
        check(None, &with(clarity(data), "/status", json!("needs_clarification")), &[missing]);
    }
    check(None, &clarity(json!({"completeness_score": 90, "clarity_score": 95, "accuracy_score": 85})), &[]);
}

#[test]
fn blank_question_is_refused() {
    let blank = |index: usize| {
        format!(
            "$.clarity_data.follow_up_questions[{index}]: must not be blank; ask a question, or leave it out"
        )
    };
    let asked = |total: u32, questions: Value| {
        let status = if total < 85 { "needs_clarification" } else { "success" };
        let scored = clarity(json!({"total_score": total, "follow_up_questions": questions}));
        with(scored, "/status", json!(status))
    };
    check(None, &asked(35, json!(["", "Which file?", " \t", "?"])), &[&blank(0), &blank(2), &blank(3)]);
    check(None, &asked(90, json!([" "])), &[&blank(0)]);
    check(None, &asked(35, json!(["¿Qué archivo?", "どのファイル?"])), &[]);
}

#[test]
fn several_violations_are_reported_together_in_document_order() {
    let wrong = json!({
        "message": "m", "planning_data": {"steps": [{"step_number": 1, "action": "a"}]}, "status": "PASS",
        "response_type": "planning",
    });
    let found = universal::pairing_violations(&wrong, Some("research"));
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
fn universal_schema_with_sorted_keys_is_recognised() {
    let universal = &shipped()[0];
    assert!(universal::is_universal(&Schema::compile(universal.schema.source()).unwrap()));
    let mut sorted = universal.schema.source().clone();
    sorted.sort_all_objects();
    let sorted = Schema::compile(&sorted).unwrap();
    assert!(sorted.hash() != universal.schema.hash() && universal::is_universal(&sorted));
    let mut other = universal.schema.source().clone();
    other["description"] = json!("almost the same");
    assert!(!universal::is_universal(&Schema::compile(&other).unwrap()));
}

/// Returns every response in a fenced block of the specification, also those below a line of prompt.
fn examples(specification: &str) -> Vec<Value> {
    let blocks = specification.split("```").skip(1).step_by(2);
    let documents = blocks.filter_map(|block| block.get(block.find('{')?..=block.rfind('}')?));
    let values = documents.filter_map(|text| serde_json::from_str(text).ok());
    values.filter(|value: &Value| value["response_type"].is_string()).collect()
}

#[test]
fn shipped_schema_equals_specification() {
    let Some(specification) = universal_specification() else { return };
    let block = specification.split("```json\n").nth(1).and_then(|rest| rest.split("```").next());
    assert_eq!(Some(shipped()[0].text), block);
    assert_eq!(shipped()[0].name, "universal-agent-response");
}

#[test]
fn shipped_action_envelope_equals_specification_and_accepts_its_examples() {
    let Some(specification) = actions_specification() else { return };
    let envelope = shipped().iter().find(|known| known.name == "action-envelope").unwrap();
    let blocks: Vec<&str> =
        specification.split("```json\n").filter_map(|rest| rest.split("```").next()).collect();
    assert_eq!(Some(&envelope.text), blocks.last());
    let values = blocks.iter().filter_map(|block| serde_json::from_str::<Value>(block).ok());
    let examples: Vec<Value> = values.filter(|value| value["action"].is_string()).collect();
    assert!(examples.len() >= 10, "{} examples", examples.len());
    for example in examples {
        assert_eq!(envelope.schema.violations(&example).lines(), [""; 0], "{example}");
    }
}

#[test]
fn specification_examples_are_valid() {
    let Some(specification) = universal_specification() else { return };
    let examples = examples(&specification);
    assert_eq!(examples.len(), 9, "seven examples and two prompts with one");
    for example in examples {
        check(example["response_type"].as_str(), &example, &[]);
    }
}

#[test]
fn modified_specification_examples_are_refused() {
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
        ("clarity", "/clarity_data/total_score", json!(84.6), "$.clarity_data.total_score"),
        ("clarity", "/status", json!("success"), "$.status"),
        ("clarity", "/clarity_data", json!({}), "$.clarity_data.total_score"),
        (
            "clarity",
            "/clarity_data/follow_up_questions",
            json!([" "]),
            "$.clarity_data.follow_up_questions[0]",
        ),
        ("planning", "/planning_data/steps", json!([]), "$.planning_data.steps"),
        ("planning", "/research_data", json!({"findings": []}), "$.research_data"),
        ("answer", "/planning_data", plan()["planning_data"].clone(), "$.planning_data"),
        ("research", "/research_data/findings", json!([]), "$.research_data.findings"),
        ("verification", "/custom_fields", json!({}), "$.custom_fields"),
        ("research", "/research_data", Value::Null, "$.research_data"),
        ("research", "/research_data/findings", Value::Null, "$.research_data.findings"),
        ("custom", "/custom_fields", Value::Null, "$.custom_fields"),
        ("error", "/status", json!("success"), "$.status"),
        ("error", "/error_details", Value::Null, "$.error_details"),
    ] {
        let example = examples.iter().find(|example| example["response_type"] == kind).unwrap();
        let modified = with(example.clone(), pointer, member);
        let mut found = shipped()[0].schema.violations(&modified);
        if found.is_empty() {
            found = universal::pairing_violations(&modified, Some(kind));
        }
        assert!(found.list.iter().any(|violation| violation.path == path), "{pointer}: {:?}", found.lines());
    }
}

#[test]
fn verification_success_with_failed_check_is_refused() {
    check(None, &verification_with("success", &[true, true]), &[]);
    let expected = "$.status: must be 'PARTIAL' or 'FAIL', not 'success', since 1 of 2 checks failed: 'b'";
    check(None, &verification_with("success", &[true, false]), &[expected]);
}

/// Generates the smallest and the largest instances of each exact schema, and checks them against the rules.
#[test]
fn exact_schema_instances_satisfy_the_rules() {
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
    for response_type in ["planning", "answer", "verification", "clarity", "research", "custom"] {
        for criteria in &known {
            let exact = universal::exact_schema(response_type, criteria).unwrap();
            let several = exact["anyOf"].as_array().cloned();
            for schema in several.unwrap_or_else(|| vec![exact.clone()]) {
                let compiled = Schema::compile(&schema).unwrap();
                for (least, bit) in [(true, false), (false, true), (true, true), (false, false)] {
                    let value = instance_of(&schema, least, bit);
                    assert_eq!(
                        compiled.violations(&value).lines(),
                        Vec::<String>::new(),
                        "{response_type}: {value}"
                    );
                    check(Some(response_type), &value, &[]);
                    if response_type == "verification" {
                        verdicts.push((criteria.len(), value["status"].as_str().unwrap().to_owned()));
                    }
                }
            }
        }
    }
    assert!(verdicts.contains(&(0, "PARTIAL".to_owned())));
    // A single criterion cannot be partly met.
    assert!(!verdicts.contains(&(1, "PARTIAL".to_owned())));
    assert_eq!(universal::exact_schema("error", &[]), None);
}

/// Returns the smallest or largest instance of a schema that has only the keywords of exact schemas.
fn instance_of(schema: &Value, least: bool, bit: bool) -> Value {
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
                Some(item) => instance_of(item, least, bit),
                None => instance_of(&schema["items"], least, bit),
            };
            (0..count).map(item).collect()
        }
        _ => match schema["properties"].as_object() {
            Some(members) => {
                members.iter().map(|(name, member)| (name.clone(), instance_of(member, least, bit))).collect()
            }
            None => json!({"a": 1}),
        },
    }
}

#[test]
fn extra_rules_apply_to_universal_response_only() {
    let bare = json!({"response_type": "planning", "status": "success", "message": "A plan."});
    let schema = universal::schema().unwrap();
    assert!(universal::is_universal(schema) && universal::is_universal_source(schema.source()));
    assert_eq!(universal::extra_rules(schema, &bare, None), universal::pairing_violations(&bare, None));
    assert_eq!(universal::extra_rules(schema, &plan(), Some("answer")).total(), 1);
    let other = Schema::compile(&json!({"type": "object"})).unwrap();
    assert!(universal::extra_rules(&other, &bare, Some("answer")).is_empty());
    assert!(!universal::is_universal_source(other.source()));
}
