//! Snapshots of every example of the specification, and of text with control characters.

use expect_test::{Expect, expect};
use serde_json::{Value, json};
use slipform_testkit::universal_examples;

use super::{Style, value};

const PLAIN: Style = Style { width: 72, is_coloured: false };

fn check(given: &Value, expected: &Expect) {
    expected.assert_eq(&(value(given, PLAIN) + "\n"));
}

/// Returns the example of a response type, or `None` if the specification is not next to the checkout.
fn example(kind: &str) -> Option<Value> {
    universal_examples()?.into_iter().find(|value| value["response_type"] == kind)
}

fn check_example(kind: &str, expected: &Expect) {
    if let Some(example) = example(kind) {
        check(&example, expected);
    }
}

#[test]
fn plan_shows_numbered_steps_with_estimates() {
    check_example(
        "planning",
        &expect![[r#"
        Plan

        Created 5-step authentication implementation plan

        Implement JWT-based user authentication with email/password

          1. Create User database table (20 min)
             Schema: id, email, password_hash, created_at, updated_at
          2. Implement password hashing (15 min)
             Use bcrypt with salt rounds=10, hash on user creation
          3. Create JWT helper functions (25 min)
             generateToken(), verifyToken() using jsonwebtoken library
          4. Build login endpoint (30 min)
             POST /api/auth/login - validates credentials, returns JWT
          5. Add authentication middleware (20 min)
             Verify JWT on protected routes, attach user to req.user

        Total: 110 min

        Depends on
          - database setup
          - express server
    "#]],
    );
}

#[test]
fn answer_is_wrapped_and_lists_sources() {
    check_example(
        "answer",
        &expect![[r#"
        Answer (high confidence)

        Authentication uses JWT (JSON Web Tokens) stored in httpOnly cookies.
        When users log in with email/password, the server validates credentials
        against the database, then generates a JWT containing the user ID and
        expiration time. This token is returned in a secure httpOnly cookie. On
        subsequent requests, the authentication middleware (in
        src/middleware/auth.ts) verifies the JWT and attaches the user object to
        the request.

        Sources
          - src/auth/jwt.ts
          - src/middleware/auth.ts
          - src/routes/auth.ts

        No follow-up is needed.
    "#]],
    );
}

#[test]
fn verification_shows_verdict_and_each_check() {
    check_example(
        "verification",
        &expect![[r#"
        Verification: PASS, 4 of 4 checks

        All 4 acceptance criteria passed

          ✓ File src/auth/jwt.ts exists
            Found at src/auth/jwt.ts
          ✓ Function generateToken() is exported
            Exported on line 15
          ✓ Function verifyToken() is exported
            Exported on line 28
          ✓ Uses jsonwebtoken library
            Imported on line 1: import jwt from 'jsonwebtoken'
    "#]],
    );
}

#[test]
fn unclear_reply_shows_scores_and_questions() {
    check_example(
        "clarity",
        &expect![[r#"
        Clarity: 35 of 100 · needs clarification

        Reply is too vague (total score: 35/100). Missing file name, changes
        made, and implementation details.

          completeness   20
          clarity        40
          accuracy       45
          total          35

        Questions
          1. Which specific auth file did you update? (e.g., src/auth/login.ts)
          2. What changes did you make to implement login?
          3. Does the login feature use JWT tokens or sessions?
          4. Are there any new dependencies added?
          5. What testing did you perform?
    "#]],
    );
}

#[test]
fn findings_are_grouped_by_relevance() {
    check_example(
        "research",
        &expect![[r#"
        Research: 3 findings

        Found 3 database migration locations

        High relevance
          - Sequelize Migrations Folder (database/migrations/)
            Primary migration files stored in database/migrations/ directory.
            Contains 15 migration files using Sequelize syntax.
          - Migration Runner Script (scripts/migrate.js)
            Script to run migrations: scripts/migrate.js. Executes 'sequelize
            db:migrate' command.

        Medium relevance
          - Migration Config (config/database.js)
            Sequelize configuration in config/database.js defines migration
            table name and path.

        Sources
          - database/migrations/
          - scripts/migrate.js
          - config/database.js
    "#]],
    );
}

#[test]
fn custom_fields_are_shown_as_outline() {
    check_example(
        "custom",
        &expect![[r#"
        Response

        Security scan complete: Found 3 vulnerabilities (1 critical, 2 medium)

        scan_type: static_analysis
        files_scanned: 12
        vulnerabilities:
          1.
            severity: critical
            type: SQL Injection
            file: src/api/users.ts
            line: 45
            description: User input directly concatenated into SQL query
            suggestion: Use parameterized queries or an ORM
          2.
            severity: medium
            type: Hardcoded Secret
            file: src/config/api.ts
            line: 12
            description: API key hardcoded in source
            suggestion: Move to environment variable
          3.
            severity: medium
            type: Missing Input Validation
            file: src/api/auth.ts
            line: 78
            description: Email input not validated before database query
            suggestion: Add email format validation
        scan_duration_ms: 1250
        timestamp: 2026-02-05T14:30:00Z
    "#]],
    );
}

#[test]
fn error_shows_suggested_action() {
    check_example(
        "error",
        &expect![[r#"
        Error: MISSING_CONTEXT

        Failed to complete planning due to missing context

        Cannot plan without PRD or feature specification

        What to do: Provide PRD.json or detailed feature description
    "#]],
    );
}

#[test]
fn failed_checks_are_marked_and_suggestions_listed() {
    let given = json!({
        "response_type": "verification", "status": "PARTIAL", "message": "One of two.",
        "verification_data": {
            "checks": [
                {"criterion": "It builds", "passed": true},
                {"criterion": "It is tested", "passed": false, "note": "No test names it.", "line": 3, "decided_by": "model"},
            ],
            "suggestions": ["Write a test."],
        },
    });
    check(
        &given,
        &expect![[r#"
        Verification: PARTIAL, 1 of 2 checks, 1 by the model's word

        One of two.

          ✓ It builds
          ✗ It is tested (the model's word)
            No test names it.
            line: 3

        Suggestions
          - Write a test.
    "#]],
    );
}

#[test]
fn total_is_weighted_if_it_is_not_given() {
    let scores = json!({"completeness_score": 100, "clarity_score": 90, "accuracy_score": 86});
    let scored =
        json!({"response_type": "clarity", "status": "success", "message": "Clear.", "clarity_data": scores});
    check(
        &scored,
        &expect![[r#"
        Clarity: 93 of 100

        Clear.

          completeness  100
          clarity        90
          accuracy       86
          total          93  (weighted)
    "#]],
    );
}

#[test]
fn findings_are_sorted_and_missing_estimates_counted() {
    let research = json!({
        "response_type": "research", "status": "success", "message": "Found.",
        "research_data": {"findings": [
            {"topic": "d", "description": "Unknown."},
            {"topic": "c", "description": "Low.", "relevance": "low"},
            {"topic": "a", "description": "High.", "relevance": "high", "source_file": "a.rs"},
        ]},
    });
    check(
        &research,
        &expect![[r#"
        Research: 3 findings

        Found.

        High relevance
          - a (a.rs)
            High.

        Low relevance
          - c
            Low.

        Unknown relevance
          - d
            Unknown.
    "#]],
    );
    let plan = json!({
        "response_type": "planning", "status": "success", "message": "A plan.",
        "planning_data": {"summary": "In short.", "steps": [
            {"step_number": 1, "action": "Look", "details": "", "estimated_minutes": 5},
            {"step_number": 2, "action": "Leap", "details": "First line.\nSecond line."},
        ]},
    });
    check(
        &plan,
        &expect![[r#"
            Plan

            A plan.

            In short.

              1. Look (5 min)
              2. Leap
                 First line.
                 Second line.

            Total: 5 min, and 1 step without an estimate
        "#]],
    );
}

#[test]
fn clarification_request_shows_all_present_sections() {
    let given = json!({
        "response_type": "planning", "status": "needs_clarification", "message": "Which database?",
        "clarity_data": {"follow_up_questions": ["PostgreSQL or SQLite?"]},
        "custom_fields": {"asked_by": "Ada"},
    });
    check(
        &given,
        &expect![[r#"
        Plan · needs clarification

        Which database?

        Questions
          1. PostgreSQL or SQLite?

        asked_by: Ada
    "#]],
    );
}

#[test]
fn escape_sequences_are_shown_not_interpreted() {
    let hostile = "\u{1b}[2J\u{1b}]0;owned\u{7}\r\u{9b}31mred\u{202e}desrever";
    let given = json!({
        "response_type": "error", "status": "error", "message": hostile,
        "error_details": {
            "error_code": format!("E\n✓ all is well\n{hostile}"), "error_message": hostile, "suggested_action": hostile,
            "note": {hostile: [hostile, {"\n": hostile}]},
        },
    });
    check(
        &given,
        &expect![[r#"
        Error: E ✓ all is well
        \u{1b}[2J\u{1b}]0;owned\u{7}\r\u{9b}31mred\u{202e}desrever

        \u{1b}[2J\u{1b}]0;owned\u{7}\r\u{9b}31mred\u{202e}desrever

        What to do: \u{1b}[2J\u{1b}]0;owned\u{7}\r\u{9b}31mred\u{202e}desrever

        note:
          \u{1b}[2J\u{1b}]0;owned\u{7}\r\u{9b}31mred\u{202e}desrever:
            - \u{1b}[2J\u{1b}]0;owned\u{7}\r\u{9b}31mred\u{202e}desrever
            2.
              : \u{1b}[2J\u{1b}]0;owned\u{7}\r\u{9b}31mred\u{202e}desrever
    "#]],
    );
    for kind in ["planning", "verification", "clarity", "research", "answer", "custom", "error"] {
        let Some(example) = example(kind) else { return };
        let text = value(&with_suffix(&example, hostile), PLAIN);
        let is_harmful = |it: char| (it.is_control() && it != '\n') || it == '\u{202e}';
        assert!(!text.contains(is_harmful), "{kind}: {text:?}");
    }
}

/// Appends `suffix` to every free text of a value.
fn with_suffix(given: &Value, suffix: &str) -> Value {
    const FIXED: [&str; 4] = ["response_type", "status", "confidence", "relevance"];
    match given {
        Value::String(text) => json!(format!("{text}{suffix}")),
        Value::Array(items) => items.iter().map(|item| with_suffix(item, suffix)).collect(),
        Value::Object(members) => Value::Object(
            members
                .iter()
                .map(|(name, member)| {
                    let is_fixed = FIXED.contains(&name.as_str());
                    let member = if is_fixed { member.clone() } else { with_suffix(member, suffix) };
                    (name.clone(), member)
                })
                .collect(),
        ),
        other => other.clone(),
    }
}

#[test]
fn colours_apply_only_to_titles_and_marks() {
    let given = json!({
        "response_type": "verification", "status": "FAIL", "message": "It does not.",
        "verification_data": {"checks": [{"criterion": "It builds", "passed": false}]},
    });
    let text = value(&given, Style { is_coloured: true, ..PLAIN });
    expect![[r#"
        "\u{1b}[1;31mVerification: FAIL, 0 of 1 check\u{1b}[0m\n\nIt does not.\n\n  \u{1b}[31m✗\u{1b}[0m It builds"
    "#]].assert_debug_eq(&text);
    assert!(!value(&given, PLAIN).contains('\u{1b}'));
}

#[test]
fn long_words_are_split_in_narrow_output() {
    let word = "x".repeat(50);
    let given = json!({
        "response_type": "answer", "status": "success", "message": format!("See {word} now.\n    indented code stays where it is, and is wrapped when it is too long"),
        "answer_data": {"confidence": "low", "follow_up_needed": true},
    });
    let text = value(&given, Style { width: 40, is_coloured: false });
    expect![[r#"
        Answer (low confidence)

        See
        xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
        xxxxxxxxxx now.
            indented code stays where it is, and
            is wrapped when it is too long

        A follow-up is needed.
    "#]]
    .assert_eq(&(text + "\n"));
}

#[test]
fn other_values_are_shown_as_outline() {
    let given = json!({
        "summary": "Fine.", "empty": "", "nothing": null, "count": 3, "ok": true,
        "list": ["a", "b\nc"], "nested": {"deep": [{"x": 1}, []], "none": {}}, "text": "one\ntwo",
    });
    check(
        &given,
        &expect![[r#"
        summary: Fine.
        empty: (empty)
        nothing: (none)
        count: 3
        ok: yes
        list:
          - a
          - b
            c
        nested:
          deep:
            1.
              x: 1
            - (empty)
          none: (empty)
        text:
          one
          two
    "#]],
    );
    check(
        &json!([1, [2, 3]]),
        &expect![[r#"
        - 1
        2.
          - 2
          - 3
    "#]],
    );
    check(
        &json!("Just words."),
        &expect![[r#"
        Just words.
    "#]],
    );
    let unpaired = json!({"response_type": "planning", "status": "success", "message": "A plan."});
    check(
        &unpaired,
        &expect![[r#"
        response_type: planning
        status: success
        message: A plan.
    "#]],
    );
}
