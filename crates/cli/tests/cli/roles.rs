//! The shipped agents on a scripted model: valid results are returned, and each violation is sent back to the model.

use crate::support::{CommandOutput, Project};
use serde_json::{Value, json};
use slipform_testkit::{ScriptedServer, Step, universal_examples};

/// Creates a project with every file that the example results cite.
fn project(name: &str, server: &ScriptedServer) -> Project {
    let files = [
        (
            "src/auth/jwt.ts",
            "import jwt from 'jsonwebtoken'\nexport function generateToken() {}\nexport function verifyToken() {}\n",
        ),
        ("src/middleware/auth.ts", "// verifies the token of a request\n"),
        ("src/routes/auth.ts", "// logging in\n"),
        ("database/migrations/0001_users.js", "// the table of users\n"),
        ("scripts/migrate.js", "// runs the migrations\n"),
        ("config/database.js", "// where the migrations are\n"),
        ("jobs/cleanup.py", "# deletes old uploads\n"),
        ("settings.py", "DAYS = 30\n"),
        ("shop/cart.py", "# rounds the total\n"),
        ("shop/invoice.py", "# rounds every line\n"),
        ("docs/guide.md", "# Guide\n"),
    ];
    let empty = Project::new(name).backend(&server.base_url());
    files.iter().fold(empty, |project, (path, text)| project.file(path, text))
}

/// Returns whether an agent has tools and therefore submits its result in a tool call.
fn has_tools(agent: &str) -> bool {
    !["clarity", "custom"].contains(&agent)
}

/// Builds the reply in which the agent returns `value`.
fn result_step(agent: &str, value: &Value) -> Step {
    if has_tools(agent) { Step::tool("submit_result", value.clone()) } else { Step::json(value) }
}

/// Runs an agent on a model that returns these results one after the other.
fn run(name: &str, agent: &str, arguments: &[&str], values: &[&Value]) -> (CommandOutput, ScriptedServer) {
    let server =
        ScriptedServer::start(values.iter().map(|value| result_step(agent, value)).collect::<Vec<_>>());
    let project = project(&format!("roles-{name}"), &server);
    let ran = project.run(&[&["run", agent], arguments].concat());
    (ran, server)
}

/// Checks that the agent's first result is accepted unchanged, apart from marks.
#[track_caller]
fn assert_accepted(name: &str, agent: &str, arguments: &[&str], value: &Value) {
    let (ran, server) = run(name, agent, arguments, &[value]);
    assert_eq!(ran.status, 0, "{agent}: {}", ran.all());
    let result = without_marks(ran.json());
    assert_eq!((result, server.requests().len()), (value.clone(), 1), "{agent}: {}", ran.stderr);
}

/// Returns a result without the marks of criteria that the model decided.
fn without_marks(mut result: Value) -> Value {
    let checks = result.pointer_mut("/verification_data/checks").and_then(Value::as_array_mut);
    for check in checks.into_iter().flatten() {
        check.as_object_mut().unwrap().remove("decided_by");
    }
    result
}

/// Checks that the result `wrong` is refused, that the model receives `message`, and that its next result `right` is
/// accepted.
#[track_caller]
fn assert_corrected(
    name: &str,
    agent: &str,
    arguments: &[&str],
    (wrong, message): (&Value, &str),
    right: &Value,
) {
    let (ran, server) = run(name, agent, arguments, &[wrong, right]);
    assert_eq!(ran.status, 0, "{name}: {}", ran.all());
    assert_eq!(without_marks(ran.json()), *right, "{name}: {}", ran.stderr);
    let correction = server.requests()[1].prompt();
    assert!(correction.contains(message), "{name}: {correction}");
}

/// Returns the value with one member replaced.
fn with(mut value: Value, pointer: &str, member: Value) -> Value {
    *value.pointer_mut(pointer).unwrap() = member;
    value
}

#[test]
fn roles_accept_the_specification_examples() {
    let Some(examples) = universal_examples() else { return };
    let criteria = json!([
        "File src/auth/jwt.ts exists",
        "Function generateToken() is exported",
        "Function verifyToken() is exported",
        "Uses jsonwebtoken library",
    ]);
    let criteria = format!("criteria={criteria}");
    for (role, arguments) in [
        ("planning", ["-p", "Add user authentication to the app"].as_slice()),
        ("answer", &["-p", "How does authentication work in this app?"]),
        ("verification", &["--param", &criteria]),
        ("clarity", &["--param", "question=How did you do it?", "--param", "reply=I updated the auth file"]),
        ("research", &["-p", "Find all places where database migrations are defined"]),
        ("custom", &["-p", "Scan the code", "--param", "structure={\"vulnerabilities\": \"a list\"}"]),
    ] {
        let example = examples.iter().find(|example| example["response_type"] == role).unwrap();
        assert_accepted(&format!("seed-{role}"), role, arguments, example);
        let error = examples.iter().find(|example| example["response_type"] == "error").unwrap();
        assert_accepted(&format!("error-{role}"), role, &["-p", "Do it"], error);
    }
}

#[test]
fn roles_accept_their_own_examples_with_only_a_prompt() {
    for role in ["planning", "answer", "verification", "clarity", "research", "custom"] {
        let shown =
            Project::new(&format!("roles-show-{role}")).run(&["agents", "show", role, "--json"]).json();
        assert_eq!(shown["response_type"], role);
        let prompt = shown["system_prompt"].as_str().unwrap();
        assert!(prompt.contains(&format!("- response_type: \"{role}\"")), "{prompt}");
        assert_accepted(&format!("own-{role}"), role, &["-p", "Do it"], &shown["output_example"]);
    }
}

#[test]
fn specialists_accept_valid_results_and_correct_invalid_ones() {
    let research = json!({
        "summary": "Tokens are made and verified in one file, and asked for by the routes.",
        "findings": [{
            "description": "Both functions are exported", "files": ["src/auth/jwt.ts"],
            "evidence": "export function verifyToken", "confidence": "high",
        }],
        "relevantFiles": ["src/routes/auth.ts", "src/auth/"],
    });
    let change = json!({
        "summary": "Tokens end after an hour already.",
        "filesModified": [], "testsCovered": false,
    });
    let review = json!({
        "summary": "The token never ends.", "approved": false, "overallQuality": "needs-work",
        "issues": [{"severity": "high", "description": "src/auth/jwt.ts: no expiry"}],
    });
    let tests = json!({
        "summary": "Both functions have tests.", "coverage": 80,
        "testsCreated": [],
    });
    for (agent, right, pointer, member, message) in [
        (
            "researcher",
            &research,
            "/relevantFiles/0",
            json!("src/made_up.ts"),
            "'src/made_up.ts' is not a file",
        ),
        ("implementer", &change, "/filesModified", json!("none"), "$.filesModified: must be an array"),
        ("reviewer", &review, "/approved", json!("perhaps"), "$.approved: must be a boolean"),
        ("tester", &tests, "/coverage", json!(120), "$.coverage"),
    ] {
        assert_accepted(agent, agent, &["-p", "Work on the tokens"], right);
        let wrong = with(right.clone(), pointer, member);
        assert_corrected(
            &format!("{agent}-corrected"),
            agent,
            &["-p", "Work on the tokens"],
            (&wrong, message),
            right,
        );
    }
}

fn plan() -> Value {
    json!({
        "response_type": "planning", "status": "success", "message": "A plan.",
        "planning_data": {"summary": "s", "steps": [
            {"step_number": 1, "action": "a", "details": "d"}, {"step_number": 2, "action": "b", "details": "e"},
        ]},
    })
}

/// Builds a verification response.
fn checked(status: &str, checks: &[(&str, bool)]) -> Value {
    let check = |(criterion, passed): &(&str, bool)| json!({"criterion": criterion, "passed": passed});
    json!({
        "response_type": "verification", "status": status, "message": "Checked.",
        "verification_data": {"checks": checks.iter().map(check).collect::<Vec<_>>()},
    })
}

fn answer() -> Value {
    json!({
        "response_type": "answer", "status": "success", "message": "30 days.",
        "answer_data": {"confidence": "high", "sources": ["settings.py", "jobs/"]},
    })
}

fn research() -> Value {
    json!({
        "response_type": "research", "status": "success", "message": "One.",
        "research_data": {
            "findings": [{"topic": "t", "description": "d", "source_file": "database/migrations/"}],
            "sources": ["config/database.js"],
        },
    })
}

fn clarity() -> Value {
    json!({
        "response_type": "clarity", "status": "needs_clarification", "message": "Vague.",
        "clarity_data": {"total_score": 35, "follow_up_questions": ["Which file?"]},
    })
}

fn custom() -> Value {
    json!({"response_type": "custom", "status": "success", "message": "m", "custom_fields": {"n": 1}})
}

#[test]
fn violated_role_rules_are_corrected() {
    for (role, right, pointer, member, message) in [
        (
            "planning",
            plan(),
            "/planning_data/steps/1/step_number",
            json!(3),
            "steps[1].step_number: must be 2, not 3",
        ),
        (
            "planning",
            plan(),
            "/response_type",
            json!("custom"),
            "'custom' is not one of ['planning', 'error']",
        ),
        (
            "answer",
            answer(),
            "/answer_data/sources/0",
            json!("conf.py"),
            "sources[0]: 'conf.py' is not a file or folder",
        ),
        (
            "research",
            research(),
            "/research_data/findings/0/source_file",
            json!("db/"),
            "'db/' is not a file or folder",
        ),
        (
            "research",
            research(),
            "/research_data/sources/0",
            json!("made/up.js"),
            "sources[0]: 'made/up.js' is not a file",
        ),
        ("custom", custom(), "/status", json!("PASS"), "$.status: 'PASS' is not one of"),
    ] {
        assert_change_corrected(role, &right, (pointer, member), message);
    }
}

/// Checks that a result with one changed member is refused with `message`, and that the unchanged result is accepted.
#[track_caller]
fn assert_change_corrected(role: &str, right: &Value, (pointer, member): (&str, Value), message: &str) {
    let wrong = with(right.clone(), pointer, member);
    let name = format!("rule-{role}{}", pointer.replace('/', "-"));
    assert_corrected(&name, role, &["-p", "Do it"], (&wrong, message), right);
}

#[test]
fn empty_results_and_unclear_successes_are_corrected() {
    for (role, right, pointer, member, message) in [
        (
            "clarity",
            clarity(),
            "/clarity_data/follow_up_questions",
            json!([]),
            "follow_up_questions: has 0 items",
        ),
        (
            "clarity",
            clarity(),
            "/clarity_data/follow_up_questions/0",
            json!(" "),
            "follow_up_questions[0]: must not be blank",
        ),
        (
            "clarity",
            clarity(),
            "/status",
            json!("success"),
            "$.status: must be 'needs_clarification', not 'success', since total_score is 35, below 85",
        ),
        ("clarity", clarity(), "/clarity_data", json!({}), "$.clarity_data.total_score: required property"),
        ("planning", plan(), "/planning_data/steps", json!([]), "$.planning_data.steps: has 0 items"),
        (
            "research",
            research(),
            "/research_data/findings",
            json!([]),
            "$.research_data.findings: has 0 items",
        ),
    ] {
        assert_change_corrected(role, &right, (pointer, member), message);
    }
}

#[test]
fn section_of_another_role_is_corrected() {
    for (role, right, section, message) in [
        ("planning", plan(), "research_data", "$.research_data: belongs to responses of type 'research'"),
        ("clarity", clarity(), "planning_data", "$.planning_data: belongs to responses of type 'planning'"),
        ("custom", custom(), "error_details", "$.error_details: belongs to responses of type 'error'"),
    ] {
        let mut wrong = right.clone();
        wrong[section] = json!({});
        assert_corrected(&format!("foreign-{role}"), role, &["-p", "Do it"], (&wrong, message), &right);
    }
}

#[test]
fn opening_search_looks_for_the_task_without_headings_and_context() {
    let prompt = "## Task\nFind where the migrations run\n## Context\nUploads are deleted after 30 days.\n";
    for (role, value) in [("research", research()), ("answer", answer())] {
        let (ran, server) = run(&format!("opening-{role}"), role, &["-p", prompt], &[&value]);
        assert_eq!(ran.status, 0, "{role}: {}", ran.all());
        let search = r#"code:search {"query":"Find where the migrations run","limit":8}"#;
        assert!(ran.stderr.contains(search), "{role}: {}", ran.stderr);
        let shown = server.requests()[0].prompt();
        assert!(
            shown.contains("scripts/migrate.js") && !shown.contains("deletes old uploads"),
            "{role}: {shown}"
        );
        assert!(shown.contains("## Context"), "{role}: the model reads the whole prompt: {shown}");
    }
}

#[test]
fn verification_status_that_contradicts_its_checks_is_corrected() {
    let verdict = checked("FAIL", &[("it is short", false)]);
    let wrong = with(verdict.clone(), "/status", json!("PASS"));
    let message = "$.status: must be 'FAIL', not 'PASS', since 1 of 1 checks failed: 'it is short'";
    assert_corrected("rule-verdict", "verification", &["-p", "Do it"], (&wrong, message), &verdict);
}

#[test]
fn verification_cannot_pass_a_failed_criterion() {
    let criteria = json!([
        "File src/auth/session.ts exists", {"criterion": "It verifies", "path": "src/auth/jwt.ts", "contains": "verifyToken"},
        {"criterion": "Tests pass", "command": ["npm", "test"]},
    ]);
    let arguments = ["--param", &format!("criteria={criteria}")];
    let [file, verifies, tests] = ["File src/auth/session.ts exists", "It verifies", "Tests pass"];
    let false_pass = checked("PASS", &[(file, true), (verifies, true), (tests, true)]);
    let right = checked("PARTIAL", &[(file, false), (verifies, true), (tests, false)]);
    let message = "$.verification_data.checks[0].passed: must be false: check:criteria found: src/auth/session.ts does not exist";
    assert_corrected("false-pass", "verification", &arguments, (&false_pass, message), &right);
    let incomplete = checked("PASS", &[(verifies, true), (tests, true)]);
    let message = "$.verification_data.checks: lacks the criterion 'File src/auth/session.ts exists'";
    assert_corrected("incomplete", "verification", &arguments, (&incomplete, message), &right);
    let (ran, server) =
        run("false-passes", "verification", &arguments, &[&false_pass, &false_pass, &false_pass]);
    assert_eq!(ran.status, 1, "{}", ran.all());
    assert!(ran.stderr.contains("contradicted what was checked"), "{}", ran.stderr);
    // The prompt lists the command that may not run and names the setting that allows it.
    let prompt = server.requests()[0].prompt();
    assert!(prompt.contains("allow it in slipform.toml") && prompt.contains("npm test"), "{prompt}");
}

#[test]
fn allowed_command_decides_a_criterion() {
    let criteria =
        r#"criteria=[{"criterion": "It builds", "command": ["sh", "-c", "echo broken >&2; exit 1"]}]"#;
    let right = checked("FAIL", &[("it builds", false)]);
    let wrong = checked("PASS", &[("It builds", true)]);
    let server =
        ScriptedServer::start([result_step("verification", &wrong), result_step("verification", &right)]);
    let settings = format!(
        "[backends.scripted]\nkind = \"openai\"\nbase_url = \"{}\"\nmodel = \"m\"\n[tools]\ncommands = [\"sh -c **\"]\n",
        server.base_url()
    );
    let project = project("roles-command", &server).file("slipform.toml", &settings);
    let ran = project.run(&["run", "verification", "--param", criteria]);
    assert_eq!((ran.status, ran.json()), (0, right), "{}", ran.all());
    let correction = server.requests()[1].prompt();
    assert!(
        correction.contains("must be false: check:criteria found") && correction.contains("broken"),
        "{correction}"
    );
}

#[test]
fn parameters_outside_the_role_schema_are_refused() {
    let project = Project::new("roles-parameters");
    for (role, arguments, message) in [
        ("clarity", ["--param", "question=Why?"].as_slice(), "invalid parameters for agent `clarity`"),
        ("verification", &["--param", "criteria=[]"], "criteria"),
        ("custom", &["--param", "structure=x"], "prompt"),
    ] {
        let ran = project.run(&[&["run", role], arguments].concat());
        assert!(ran.status == 2 && ran.stderr.contains(message), "{role}: {}", ran.all());
    }
}
