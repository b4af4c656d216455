//! The shipped verification agent decides criteria by looking, wherever they come from.

use crate::support::{CommandOutput, Project};
use serde_json::{Value, json};
use slipform_testkit::{ScriptedServer, Step};

/// Creates a project with code to verify, whose settings allow one command.
fn project(name: &str, server: &ScriptedServer) -> Project {
    let settings = format!(
        "[backends.scripted]\nkind = \"openai\"\nbase_url = \"{}\"\nmodel = \"m\"\n[tools]\ncommands = [\"sh tests.sh\"]\n",
        server.base_url()
    );
    Project::new(&format!("verification-{name}"))
        .file("slipform.toml", &settings)
        .file("src/cart.ts", "import Big from 'big.js'\nexport function total() {}\nfunction round() {}\n")
        .file("README.md", "# Cart\n")
        .file("tests.sh", "exit 1\n")
}

/// Builds a verification response.
fn verdict(status: &str, checks: &[(&str, bool)]) -> Value {
    let check = |(criterion, passed): &(&str, bool)| json!({"criterion": criterion, "passed": passed});
    json!({
        "response_type": "verification", "status": status, "message": "Checked.",
        "verification_data": {"checks": checks.iter().map(check).collect::<Vec<_>>()},
    })
}

/// Runs the agent on a model that returns these results one after the other.
fn run(name: &str, arguments: &[&str], results: &[Value]) -> (CommandOutput, ScriptedServer) {
    let steps = results.iter().map(|result| Step::tool("submit_result", result.clone()));
    let server = ScriptedServer::start(steps.collect::<Vec<_>>());
    let ran = project(name, &server).run(&[&["run", "verification"], arguments].concat());
    (ran, server)
}

const PROMPT: &str = "You are the Verification Agent. Check if these acceptance criteria are met.

Criteria:
1. File src/cart.ts exists
2. File src/invoice.ts exists
3. Function total() is exported
4. Function round() is exported
5. Uses the big.js library
6. sh tests.sh passes
7. The names are well chosen

Respond with JSON:
- status: \"PASS\", \"FAIL\", or \"PARTIAL\"
";

const CRITERIA: [(&str, bool); 7] = [
    ("File src/cart.ts exists", true),
    ("File src/invoice.ts exists", false),
    ("Function total() is exported", true),
    ("Function round() is exported", false),
    ("Uses the big.js library", true),
    ("sh tests.sh passes", false),
    ("The names are well chosen", true),
];

#[test]
fn criteria_of_the_prompt_are_decided_by_looking() {
    let all_pass = verdict("PASS", &CRITERIA.map(|(criterion, _)| (criterion, true)));
    let right = verdict("PARTIAL", &CRITERIA);
    let (ran, server) = run("prompt", &["-p", PROMPT, "--receipt"], &[all_pass, right.clone()]);
    assert_eq!(ran.status, 0, "{}", ran.all());
    let first = server.requests()[0].prompt();
    assert!(first.contains("src/invoice.ts does not exist"), "{first}");
    let correction = server.requests()[1].prompt();
    for message in [
        "checks[1].passed: must be false: check:criteria found: src/invoice.ts does not exist",
        "checks[3].passed: must be false: check:criteria found: not exported: line 3 of src/cart.ts",
        "checks[5].passed: must be false: check:criteria found: 'sh tests.sh' ended with exit status: 1",
    ] {
        assert!(correction.contains(message), "{correction}");
    }
    let mut marked = right;
    marked["verification_data"]["checks"][6]["decided_by"] = json!("model");
    let output = ran.json();
    assert_eq!(output["result"], marked);
    assert_eq!(output["receipt"]["model_claims"], json!(["The names are well chosen"]));
    assert_eq!(output["receipt"]["flags"], json!(["undecided_criteria"]));
}

#[test]
fn criteria_of_the_result_are_decided_by_looking() {
    let wrong = verdict("PASS", &[("src/gone.ts exists", true)]);
    let right = verdict("FAIL", &[("src/gone.ts exists", false)]);
    let (ran, server) = run("result", &["-p", "Is src/gone.ts there?"], &[wrong.clone(), right.clone()]);
    assert_eq!((ran.status, ran.json()), (0, right), "{}", ran.all());
    let correction = server.requests()[1].prompt();
    assert!(
        correction.contains("must be false: check:criteria found: src/gone.ts does not exist"),
        "{correction}"
    );
    let (ran, _) = run("kept", &["-p", "Is src/gone.ts there?"], &[wrong.clone(), wrong.clone(), wrong]);
    assert_eq!(ran.status, 1, "{}", ran.all());
}

#[test]
fn listed_criterion_cannot_be_omitted() {
    let prompt = "Check:\n- README.md exists\n- It is well written\n";
    let (exists, written) = (("README.md exists", true), ("It is well written", true));
    let answers = [verdict("PASS", &[exists]), verdict("PASS", &[exists, written])];
    let (ran, server) = run("omitted", &["-p", prompt], &answers);
    assert_eq!(ran.status, 0, "{}", ran.all());
    let correction = server.requests()[1].prompt();
    assert!(correction.contains("lacks the criterion 'It is well written'"), "{correction}");
}

#[test]
fn pass_by_the_models_word_is_shown() {
    let (ran, _) =
        run("pretty", &["-p", "Is it elegant?", "--pretty"], &[verdict("PASS", &[("It is elegant", true)])]);
    assert_eq!(ran.status, 0, "{}", ran.all());
    assert!(ran.stdout.contains("Verification: PASS, 1 of 1 check, 1 by the model's word"), "{}", ran.stdout);
    assert!(ran.stdout.contains("✓ It is elegant (the model's word)"), "{}", ran.stdout);
    assert!(!ran.stdout.contains("decided_by"), "{}", ran.stdout);
}

#[test]
fn gate_refuses_fail_partial_and_error() {
    let readme = ("README.md exists", true);
    let gone = ("src/gone.ts exists", false);
    let error = json!({
        "response_type": "error", "status": "error", "message": "No.", "error_details": {"error_code": "E"},
    });
    for (name, response, status, message) in [
        ("pass", verdict("PASS", &[readme]), 0, ""),
        ("fail", verdict("FAIL", &[gone]), 1, "the response is FAIL, which `--gate` refuses"),
        (
            "partial",
            verdict("PARTIAL", &[readme, gone]),
            1,
            "the response is PARTIAL, which `--gate` refuses",
        ),
        ("error", error, 1, "the response is an error, which `--gate` refuses"),
    ] {
        for form in [&[][..], &["--json"], &["--pretty"], &["--receipt"]] {
            let name = format!("gate-{name}{}", form.concat());
            let (ran, _) = run(
                &name,
                &[&["-p", "Is it there?", "--gate"], form].concat(),
                std::slice::from_ref(&response),
            );
            assert_eq!(ran.status, status, "{name}: {}", ran.all());
            assert!(ran.stderr.contains(message) && !ran.stdout.is_empty(), "{name}: {}", ran.all());
        }
        let (ran, _) = run(&format!("no-gate-{name}"), &["-p", "Is it there?"], &[response]);
        assert_eq!((ran.status, ran.stderr.contains("--gate")), (0, false), "{name}: {}", ran.all());
    }
}

#[test]
fn stats_count_reported_errors_apart_from_results() {
    let error = json!({
        "response_type": "error", "status": "error", "message": "No.", "error_details": {"error_code": "E"},
    });
    let answers = [error, verdict("PASS", &[("README.md exists", true)])];
    let server = ScriptedServer::start(answers.map(|answer| Step::tool("submit_result", answer)));
    let project = project("stats", &server);
    for _ in 0..2 {
        assert_eq!(project.run(&["run", "verification", "-p", "Is it there?"]).status, 0);
    }
    let rows = project.run(&["stats", "--json"]).json();
    let numbers = ["runs", "completed", "reported_errors"].map(|name| rows[0][name].clone());
    assert_eq!((numbers, &rows[0]["success_rate"]), ([json!(2), json!(1), json!(1)], &json!(0.5)), "{rows}");
    let table = project.run(&["stats"]).stdout;
    assert!(table.contains("reported errors") && table.contains("50.0 %"), "{table}");
}
