//! The agents that come with the program, with a model that knows what to say: what fits is the result, and what does
//! not is told to the model.

use crate::support::{Project, Ran};
use serde_json::{Value, json};
use slipform_testkit::{ScriptedServer, Step, universal_examples};

/// A project with every file that the examples name.
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

/// Whether an agent gives its result in a call.
fn has_tools(agent: &str) -> bool {
    !["clarity", "custom"].contains(&agent)
}

fn giving(agent: &str, value: &Value) -> Step {
    if has_tools(agent) { Step::tool("submit_result", value.clone()) } else { Step::json(value) }
}

/// Runs an agent on a model that gives these results one after the other.
fn run(name: &str, agent: &str, arguments: &[&str], values: &[&Value]) -> (Ran, ScriptedServer) {
    let server = ScriptedServer::start(values.iter().map(|value| giving(agent, value)).collect::<Vec<_>>());
    let project = project(&format!("roles-{name}"), &server);
    let ran = project.run(&[&["run", agent], arguments].concat());
    (ran, server)
}

/// Checks that an agent takes a result as it is.
#[track_caller]
fn takes(name: &str, agent: &str, arguments: &[&str], value: &Value) {
    let (ran, server) = run(name, agent, arguments, &[value]);
    assert_eq!(ran.status, 0, "{agent}: {}", ran.all());
    assert_eq!((ran.json(), server.requests().len()), (value.clone(), 1), "{agent}: {}", ran.stderr);
}

/// Checks that a result is refused with these words, and that the model is told and can do better.
#[track_caller]
fn mends(name: &str, agent: &str, arguments: &[&str], (wrong, words): (&Value, &str), right: &Value) {
    let (ran, server) = run(name, agent, arguments, &[wrong, right]);
    assert_eq!(ran.status, 0, "{name}: {}", ran.all());
    assert_eq!(ran.json(), *right, "{name}: {}", ran.stderr);
    let told = server.requests()[1].prompt();
    assert!(told.contains(words), "{name}: {told}");
}

/// A value with something else in one place.
fn with(mut value: Value, pointer: &str, member: Value) -> Value {
    *value.pointer_mut(pointer).unwrap() = member;
    value
}

#[test]
fn every_role_gives_the_specifications_example() {
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
        takes(&format!("seed-{role}"), role, arguments, example);
        let error = examples.iter().find(|example| example["response_type"] == "error").unwrap();
        takes(&format!("error-{role}"), role, &["-p", "Do it"], error);
    }
}

#[test]
fn every_role_gives_its_own_example_and_takes_a_prompt_alone() {
    for role in ["planning", "answer", "verification", "clarity", "research", "custom"] {
        let shown =
            Project::new(&format!("roles-show-{role}")).run(&["agents", "show", role, "--json"]).json();
        assert_eq!(shown["response_type"], role);
        let prompt = shown["system_prompt"].as_str().unwrap();
        assert!(prompt.contains(&format!("- response_type: \"{role}\"")), "{prompt}");
        takes(&format!("own-{role}"), role, &["-p", "Do it"], &shown["output_example"]);
    }
}

#[test]
fn every_specialist_gives_what_fits_and_is_told_what_does_not() {
    let research = json!({
        "summary": "Tokens are made and verified in one file, and asked for by the routes.",
        "findings": [{
            "description": "Both functions are exported", "files": ["src/auth/jwt.ts"],
            "evidence": "export function verifyToken", "confidence": "high",
        }],
        "relevantFiles": ["src/routes/auth.ts", "src/auth/"],
    });
    let change = json!({
        "summary": "Tokens end after an hour.",
        "filesModified": [{"path": "src/auth/jwt.ts", "action": "modified", "changes": "an expiry"}],
        "testsCovered": false,
    });
    let review = json!({
        "summary": "The token never ends.", "approved": false, "overallQuality": "needs-work",
        "issues": [{"severity": "high", "description": "src/auth/jwt.ts: no expiry"}],
    });
    let tests = json!({
        "summary": "Tests of both functions.", "coverage": 80,
        "testsCreated": [{"path": "src/auth/jwt.test.ts", "testCount": 4, "type": "unit"}],
    });
    for (agent, right, pointer, member, words) in [
        (
            "researcher",
            &research,
            "/relevantFiles/0",
            json!("src/made_up.ts"),
            "'src/made_up.ts' is not a file",
        ),
        ("implementer", &change, "/filesModified/0/action", json!("touched"), "$.filesModified[0].action"),
        ("reviewer", &review, "/approved", json!("perhaps"), "$.approved: must be a boolean"),
        ("tester", &tests, "/coverage", json!(120), "$.coverage"),
    ] {
        takes(agent, agent, &["-p", "Work on the tokens"], right);
        let wrong = with(right.clone(), pointer, member);
        mends(&format!("{agent}-told"), agent, &["-p", "Work on the tokens"], (&wrong, words), right);
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

fn checked(status: &str, checks: &[(&str, bool)]) -> Value {
    let check = |(criterion, passed): &(&str, bool)| json!({"criterion": criterion, "passed": passed});
    json!({
        "response_type": "verification", "status": status, "message": "Checked.",
        "verification_data": {"checks": checks.iter().map(check).collect::<Vec<_>>()},
    })
}

#[test]
fn every_rule_of_a_role_is_told_to_its_model() {
    let go = ["-p", "Do it"];
    let answer = json!({
        "response_type": "answer", "status": "success", "message": "30 days.",
        "answer_data": {"confidence": "high", "sources": ["settings.py", "jobs/"]},
    });
    let found = json!({
        "response_type": "research", "status": "success", "message": "One.",
        "research_data": {
            "findings": [{"topic": "t", "description": "d", "source_file": "database/migrations/"}],
            "sources": ["config/database.js"],
        },
    });
    let scored = json!({
        "response_type": "clarity", "status": "needs_clarification", "message": "Vague.",
        "clarity_data": {"total_score": 35, "follow_up_questions": ["Which file?"]},
    });
    let custom =
        json!({"response_type": "custom", "status": "success", "message": "m", "custom_fields": {"n": 1}});
    for (role, right, pointer, member, words) in [
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
            answer,
            "/answer_data/sources/0",
            json!("conf.py"),
            "sources[0]: 'conf.py' is not a file or folder",
        ),
        (
            "research",
            found.clone(),
            "/research_data/findings/0/source_file",
            json!("db/"),
            "'db/' is not a file or folder",
        ),
        (
            "research",
            found,
            "/research_data/sources/0",
            json!("made/up.js"),
            "sources[0]: 'made/up.js' is not a file",
        ),
        (
            "clarity",
            scored,
            "/clarity_data/follow_up_questions",
            json!([]),
            "follow_up_questions: has 0 items",
        ),
        ("custom", custom, "/status", json!("PASS"), "$.status: 'PASS' is not one of"),
    ] {
        let wrong = with(right.clone(), pointer, member);
        let name = format!("rule-{role}{}", pointer.replace('/', "-"));
        mends(&name, role, &go, (&wrong, words), &right);
    }
    let verdict = checked("FAIL", &[("it is short", false)]);
    let wrong = with(verdict.clone(), "/status", json!("PASS"));
    let words = "$.status: must be 'FAIL', not 'PASS', since 1 of 1 checks failed: 'it is short'";
    mends("rule-verdict", "verification", &go, (&wrong, words), &verdict);
}

#[test]
fn no_model_gets_a_criterion_past_that_was_found_to_fail() {
    let criteria = json!([
        "File src/auth/session.ts exists", {"criterion": "It verifies", "path": "src/auth/jwt.ts", "contains": "verifyToken"},
        {"criterion": "Tests pass", "command": ["npm", "test"]},
    ]);
    let arguments = ["--param", &format!("criteria={criteria}")];
    let [file, verifies, tests] = ["File src/auth/session.ts exists", "It verifies", "Tests pass"];
    let lie = checked("PASS", &[(file, true), (verifies, true), (tests, true)]);
    let right = checked("PARTIAL", &[(file, false), (verifies, true), (tests, false)]);
    let words = "$.verification_data.checks[0].passed: must be false: check:criteria found: src/auth/session.ts does not exist";
    mends("lie", "verification", &arguments, (&lie, words), &right);
    let silent = checked("PASS", &[(verifies, true), (tests, true)]);
    let words = "$.verification_data.checks: lacks the criterion 'File src/auth/session.ts exists'";
    mends("silent", "verification", &arguments, (&silent, words), &right);
    let (ran, server) = run("lies", "verification", &arguments, &[&lie, &lie, &lie]);
    assert_eq!(ran.status, 1, "{}", ran.all());
    assert!(ran.stderr.contains("contradicted what was checked"), "{}", ran.stderr);
    // What could not be run is left open, and says how it could be.
    let heard = server.requests()[0].prompt();
    assert!(heard.contains("allow it in slipform.toml") && heard.contains("npm test"), "{heard}");
}

#[test]
fn a_command_that_the_project_allows_decides_a_criterion() {
    let criteria =
        r#"criteria=[{"criterion": "It builds", "command": ["sh", "-c", "echo broken >&2; exit 1"]}]"#;
    let right = checked("FAIL", &[("it builds", false)]);
    let wrong = checked("PASS", &[("It builds", true)]);
    let server = ScriptedServer::start([giving("verification", &wrong), giving("verification", &right)]);
    let settings = format!(
        "[backends.scripted]\nkind = \"openai\"\nbase_url = \"{}\"\nmodel = \"m\"\n[tools]\ncommands = [\"sh -c\"]\n",
        server.base_url()
    );
    let project = project("roles-command", &server).file("slipform.toml", &settings);
    let ran = project.run(&["run", "verification", "--param", criteria]);
    assert_eq!((ran.status, ran.json()), (0, right), "{}", ran.all());
    let told = server.requests()[1].prompt();
    assert!(told.contains("must be false: check:criteria found") && told.contains("broken"), "{told}");
}

#[test]
fn parameters_that_a_role_does_not_take_are_refused() {
    let project = Project::new("roles-parameters");
    for (role, arguments, words) in [
        ("clarity", ["--param", "question=Why?"].as_slice(), "does not take these parameters"),
        ("verification", &["--param", "criteria=[]"], "criteria"),
        ("custom", &["--param", "structure=x"], "prompt"),
    ] {
        let ran = project.run(&[&["run", role], arguments].concat());
        assert!(ran.status == 2 && ran.stderr.contains(words), "{role}: {}", ran.all());
    }
}
