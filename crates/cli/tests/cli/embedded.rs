//! `slipform run` on the embedded model, with the real weights. Tests that need them are skipped without them.
#![cfg(feature = "embedded")]

use std::fs;
use std::path::Path;

use crate::support::{Project, REVIEWER};
use serde_json::{Value, json};
use slipform_embedded::weights;
use slipform_schema::{Schema, universal};
use slipform_testkit::wait_until;

/// Creates a project whose only backend is the embedded model; `None` without weights.
pub(crate) fn project(name: &str) -> Option<Project> {
    match weights::locate(&weights::environment) {
        Ok(path) => Some(Project::new(name).variable("SLIPFORM_MODEL", path.to_str().unwrap())),
        Err(error) => {
            eprintln!("SKIPPED: no weights ({error})");
            None
        }
    }
}

fn example(path: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    fs::read_to_string(folder.join(path)).unwrap()
}

#[test]
fn embedded_model_answers_example_validly_without_configuration() {
    let Some(project) = project("embedded-example") else { return };
    let project = project.file("agents/triage.yaml", &example("tickets/agents/triage.yaml"));
    let shown = project.run(&["agents", "show", "triage", "--json"]).json();
    let ran = project.run_with(&["run", "triage", "-p", "-", "--receipt"], &example("tickets/ticket.txt"));
    assert_eq!(ran.status, 0, "{}", ran.all());
    let value = ran.json();
    let schema = Schema::compile(schema_of(&shown)).unwrap();
    assert_eq!(schema.violations(&value["result"]).lines(), Vec::<String>::new());
    let notice = "slipform: built-in 135M model: the form is guaranteed, the content is not\n";
    assert_eq!(ran.stderr.matches(notice).count(), 1, "{}", ran.all());
    let model = value["receipt"]["rungs"][0]["model"].as_str().unwrap();
    assert!(model.starts_with("SmolLM2-135M"), "{model}");
    assert_eq!(value["result"]["order"], "AB-1234");
    assert_eq!(value["receipt"]["strategy"], "native");
    assert_eq!(value["receipt"]["calls"], 1);
    assert_eq!(value["receipt"]["unenforced"], json!([]));
    assert_eq!(value["receipt"]["rungs"][0]["backend"], "embedded");
}

fn schema_of(agent: &Value) -> &Value {
    let found = agent.get("output_schema").or_else(|| agent.get("default_output_schema"));
    found.unwrap_or_else(|| panic!("no schema in {agent}"))
}

#[test]
fn embedded_model_returns_root_array_in_auto_and_tool_strategy() {
    let Some(project) = project("embedded-root") else { return };
    let schema = json!({"type": "array", "items": {"enum": ["red", "green"]}, "minItems": 1, "maxItems": 3});
    let project = project
        .file("agents/colours.yaml", "name: colours\nlimits: {max_tokens: 40}\n")
        .file("schema.json", &schema.to_string());
    for strategy in ["auto", "tool"] {
        let ran = project.run(&[
            "run",
            "colours",
            "-p",
            "The flag is red.",
            "--schema",
            "schema.json",
            "--strategy",
            strategy,
            "--receipt",
        ]);
        assert_eq!(ran.status, 0, "{}", ran.all());
        let value = ran.json();
        assert!(Schema::compile(&schema).unwrap().is_valid(&value["result"]), "{value}");
    }
}

#[test]
fn keywords_without_grammar_are_listed_and_validated() {
    let Some(project) = project("embedded-unenforced") else { return };
    let schema = json!({
        "type": "object",
        "properties": {"names": {"type": "array", "items": {"type": "string"}, "uniqueItems": true, "maxItems": 3}},
        "required": ["names"],
        "additionalProperties": false
    });
    let project = project
        .file("agents/names.yaml", "name: names\nlimits: {max_tokens: 60}\n")
        .file("schema.json", &schema.to_string());
    let ran =
        project.run(&["run", "names", "-p", "Ana, Bo and Cy met.", "--schema", "schema.json", "--json"]);
    let value = ran.json();
    assert_eq!(value["receipt"]["unenforced"], json!(["uniqueItems"]), "{value}");
    if ran.status == 0 {
        assert!(Schema::compile(&schema).unwrap().is_valid(&value["result_data"]), "{value}");
    }
}

#[test]
fn run_without_weights_names_the_remedy() {
    let project = Project::new("embedded-missing")
        .variable("SLIPFORM_MODEL_DIR", "models")
        .file("agents/reviewer.yaml", REVIEWER);
    let ran = project.run(&["run", "reviewer", "-p", "x"]);
    assert_eq!((ran.status, ran.stdout.as_str()), (3, ""), "{}", ran.stderr);
    assert!(ran.stderr.contains("slipform model pull"), "{}", ran.stderr);
    assert!(ran.stderr.contains("SLIPFORM_MODEL"), "{}", ran.stderr);
}

#[test]
fn damaged_weights_exit_with_status_3() {
    let mut bytes = b"GGUF\x03\0\0\0".to_vec();
    bytes.extend([0xff; 64]);
    let project = Project::new("embedded-damaged").file("agents/reviewer.yaml", REVIEWER);
    fs::write(project.folder.join("damaged.gguf"), bytes).unwrap();
    let project = project.variable("SLIPFORM_MODEL", "damaged.gguf");
    let ran = project.run(&["run", "reviewer", "-p", "x"]);
    assert_eq!((ran.status, ran.stdout.as_str()), (3, ""), "{}", ran.stderr);
    assert!(ran.stderr.contains("not valid GGUF"), "{}", ran.stderr);
    assert!(!ran.stderr.contains("panicked"), "{}", ran.stderr);
}

#[test]
fn missing_weights_of_settings_exit_with_status_2() {
    let settings = "[backends.mine]\nkind = \"embedded\"\nmodel = \"nowhere.gguf\"\n";
    let project = Project::new("embedded-settings")
        .file("slipform.toml", settings)
        .file("agents/reviewer.yaml", REVIEWER);
    let ran = project.run(&["run", "reviewer", "-p", "x"]);
    assert_eq!(ran.status, 2, "{}", ran.stderr);
    assert!(ran.stderr.contains("backends.mine.model"), "{}", ran.stderr);
    assert!(ran.stderr.contains("nowhere.gguf"), "{}", ran.stderr);
}

#[test]
fn interrupt_ends_a_running_embedded_call() {
    let Some(project) = project("embedded-interrupted") else { return };
    let project = project.file("agents/writer.yaml", "name: writer\nlimits: {max_tokens: 3000}\n");
    let mut child =
        project.command(&["run", "writer", "-p", "Write a long story about a dog."]).spawn().unwrap();
    drop(child.stdin.take());
    // The model runs on a named thread: once the thread exists, the call has begun.
    let id = child.id().to_string();
    let is_model = |task: &fs::DirEntry| {
        fs::read_to_string(task.path().join("comm")).is_ok_and(|name| name.trim() == "embedded model")
    };
    let tasks = || fs::read_dir(format!("/proc/{id}/task")).into_iter().flatten().flatten();
    wait_until("the model is called", || {
        assert!(child.try_wait().unwrap().is_none(), "the command ended before it called the model");
        tasks().any(|task| is_model(&task))
    });
    assert!(std::process::Command::new("kill").arg(&id).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

/// Adds a small code base for agents to search.
fn with_code(project: Project) -> Project {
    project
        .file("src/retry.rs", "/// Counts how often a request was retried.\npub fn count_retries(calls: u32) -> u32 {\n    calls - 1\n}\n")
        .file("src/colour.rs", "/// Mixes two colours of paint.\npub fn mix(red: u8, blue: u8) -> u8 {\n    red / 2 + blue / 2\n}\n")
        .file("README.md", "# Paint\n\nA service that mixes paint and retries what fails.\n")
}

#[test]
fn researcher_cites_existing_files_under_both_protocols() {
    let Some(project) = project("embedded-researcher") else { return };
    let project = with_code(project);
    let shipped = project.run(&["agents", "show", "researcher", "--json"]).json();
    let mut with_actions = shipped.clone();
    with_actions["name"] = json!("speaker");
    with_actions["protocol"] = json!("actions");
    let project = project.file("agents/speaker.json", &with_actions.to_string());
    for agent in ["researcher", "speaker"] {
        let ran = project.run(&["run", agent, "-p", "Find where retries are counted", "--receipt"]);
        assert_eq!(ran.status, 0, "{agent}: {}", ran.all());
        let value = ran.json();
        let schema = Schema::compile(schema_of(&shipped)).unwrap();
        assert_eq!(schema.violations(&value["result"]).lines(), Vec::<String>::new());
        let findings = value["result"]["findings"].as_array().unwrap();
        assert!(!findings.is_empty(), "{agent} found nothing");
        for file in findings.iter().flat_map(|finding| finding["files"].as_array().unwrap()) {
            assert!(project.folder.join(file.as_str().unwrap()).is_file(), "{agent} made up {file}");
        }
        assert!(ran.stderr.contains("code:search"), "{}", ran.stderr);
    }
}

#[test]
fn shipped_agents_return_valid_results_on_embedded_model() {
    let Some(project) = project("embedded-shipped") else { return };
    let project = with_code(project);
    for (agent, task) in [
        ("reviewer", "Review src/colour.rs"),
        ("implementer", "Add a function that mixes three colours to src/colour.rs"),
        ("tester", "Write a test for src/retry.rs"),
        ("planning", "Mix three colours."),
        ("answer", "How are colours mixed?"),
        ("clarity", "Question: Which colour? Reply: One of them."),
        ("research", "Where is something tried again?"),
        ("custom", "List the fruits: milk, apples, bread, pears."),
    ] {
        run_validly(&project, agent, &["-p", task]);
    }
    let criteria =
        r#"criteria=["File src/colour.rs exists", "File src/paint.rs exists", "Colours are mixed well"]"#;
    let verified = run_validly(&project, "verification", &["--param", criteria]);
    let checks = &verified["verification_data"]["checks"];
    assert_eq!((&checks[0]["passed"], &checks[1]["passed"]), (&json!(true), &json!(false)), "{verified}");
    assert_ne!(verified["status"], "PASS", "{verified}");
}

/// Runs an agent, checks its result against its schema and the extra rules, and returns the result.
fn run_validly(project: &Project, agent: &str, arguments: &[&str]) -> Value {
    let shown = project.run(&["agents", "show", agent, "--json"]).json();
    let ran = project.run(&[&["run", agent], arguments].concat());
    assert_eq!(ran.status, 0, "{agent}: {}", ran.all());
    let (schema, value) = (Schema::compile(schema_of(&shown)).unwrap(), ran.json());
    let mut violations = schema.violations(&value);
    if violations.is_empty() {
        violations = universal::extra_rules(&schema, &value, shown["response_type"].as_str());
    }
    assert_eq!(violations.lines(), Vec::<String>::new(), "{agent}: {value}");
    value
}

#[test]
fn orchestration_on_embedded_model_completes() {
    let Some(project) = project("embedded-team") else { return };
    let project = with_code(project);
    let ran = project.run(&["orchestrate", "-t", "Find out how colours are mixed.", "--json"]);
    let run = ran.json();
    assert_eq!(ran.status, 0, "{}", ran.all());
    // The engine adds the citations that the model leaves out.
    assert!(run["result_text"].as_str().is_some_and(|text| text.contains("[t1]")), "{run}");
}
