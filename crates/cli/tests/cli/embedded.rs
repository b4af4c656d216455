//! `slipform run` on the model inside the process, with the real weights where they are.
#![cfg(feature = "embedded")]

use std::fs;
use std::path::Path;

use crate::support::{Project, REVIEWER};
use serde_json::{Value, json};
use slipform_embedded::weights;
use slipform_schema::{Schema, universal};

/// A project that knows no backend but the embedded one.
fn project(name: &str) -> Option<Project> {
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
fn without_any_backend_the_embedded_model_answers_the_example_validly() {
    let Some(project) = project("embedded-example") else { return };
    let project = project.file("agents/triage.yaml", &example("tickets/agents/triage.yaml"));
    let shown = project.run(&["agents", "show", "triage", "--json"]).json();
    let ran = project.run_with(&["run", "triage", "-p", "-", "--receipt"], &example("tickets/ticket.txt"));
    assert_eq!(ran.status, 0, "{}", ran.all());
    let value = ran.json();
    let schema = Schema::compile(schema_of(&shown)).unwrap();
    assert_eq!(schema.violations(&value["result"]).lines(), Vec::<String>::new());
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
fn a_list_at_the_root_and_a_forced_tool_need_nothing_around_them() {
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
fn what_no_grammar_guarantees_is_named_and_checked() {
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
fn without_weights_it_says_what_to_do() {
    let project = Project::new("embedded-missing")
        .variable("SLIPFORM_MODEL_DIR", "models")
        .file("agents/reviewer.yaml", REVIEWER);
    let ran = project.run(&["run", "reviewer", "-p", "x"]);
    assert_eq!((ran.status, ran.stdout.as_str()), (3, ""), "{}", ran.stderr);
    assert!(ran.stderr.contains("slipform model pull"), "{}", ran.stderr);
    assert!(ran.stderr.contains("SLIPFORM_MODEL"), "{}", ran.stderr);
}

#[test]
fn damaged_weights_are_a_clear_failure() {
    let mut bytes = b"GGUF\x03\0\0\0".to_vec();
    bytes.extend([0xff; 64]);
    let project = Project::new("embedded-damaged").file("agents/reviewer.yaml", REVIEWER);
    fs::write(project.folder.join("damaged.gguf"), bytes).unwrap();
    let project = project.variable("SLIPFORM_MODEL", "damaged.gguf");
    let ran = project.run(&["run", "reviewer", "-p", "x"]);
    assert_eq!((ran.status, ran.stdout.as_str()), (3, ""), "{}", ran.stderr);
    assert!(ran.stderr.contains("not sound GGUF"), "{}", ran.stderr);
    assert!(!ran.stderr.contains("panicked"), "{}", ran.stderr);
}

#[test]
fn weights_named_in_the_settings_have_to_be_there() {
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
fn an_answer_that_is_under_way_can_be_interrupted() {
    let Some(project) = project("embedded-interrupted") else { return };
    let project = project.file("agents/writer.yaml", "name: writer\nlimits: {max_tokens: 3000}\n");
    let mut child =
        project.command(&["run", "writer", "-p", "Write a long story about a dog."]).spawn().unwrap();
    drop(child.stdin.take());
    // The model has a thread of its own, by whose name it is known to be at work.
    let id = child.id().to_string();
    let is_model = |task: &fs::DirEntry| {
        fs::read_to_string(task.path().join("comm")).is_ok_and(|name| name.trim() == "embedded model")
    };
    let tasks = || fs::read_dir(format!("/proc/{id}/task")).into_iter().flatten().flatten();
    while !tasks().any(|task| is_model(&task)) {
        assert!(child.try_wait().unwrap().is_none(), "it ended before the model was asked");
        std::thread::yield_now();
    }
    assert!(std::process::Command::new("kill").arg(&id).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

/// A small project to look at.
fn with_code(project: Project) -> Project {
    project
        .file("src/retry.rs", "/// Counts how often a request was retried.\npub fn count_retries(calls: u32) -> u32 {\n    calls - 1\n}\n")
        .file("src/colour.rs", "/// Mixes two colours of paint.\npub fn mix(red: u8, blue: u8) -> u8 {\n    red / 2 + blue / 2\n}\n")
        .file("README.md", "# Paint\n\nA service that mixes paint and retries what fails.\n")
}

#[test]
fn the_researcher_finds_files_that_exist_under_both_protocols() {
    let Some(project) = project("embedded-researcher") else { return };
    let project = with_code(project);
    let shipped = project.run(&["agents", "show", "researcher", "--json"]).json();
    let mut speaking = shipped.clone();
    speaking["name"] = json!("speaker");
    speaking["protocol"] = json!("actions");
    let project = project.file("agents/speaker.json", &speaking.to_string());
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
fn every_shipped_agent_ends_validly_on_the_smallest_model() {
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
        ends_validly(&project, agent, &["-p", task]);
    }
    let criteria =
        r#"criteria=["File src/colour.rs exists", "File src/paint.rs exists", "Colours are mixed well"]"#;
    let verified = ends_validly(&project, "verification", &["--param", criteria]);
    let checks = &verified["verification_data"]["checks"];
    assert_eq!((&checks[0]["passed"], &checks[1]["passed"]), (&json!(true), &json!(false)), "{verified}");
    assert_ne!(verified["status"], "PASS", "{verified}");
}

/// A result that satisfies everything that the agent's results have to.
fn ends_validly(project: &Project, agent: &str, given: &[&str]) -> Value {
    let shown = project.run(&["agents", "show", agent, "--json"]).json();
    let ran = project.run(&[&["run", agent], given].concat());
    assert_eq!(ran.status, 0, "{agent}: {}", ran.all());
    let (schema, value) = (Schema::compile(schema_of(&shown)).unwrap(), ran.json());
    let mut wrong = schema.violations(&value);
    if wrong.is_empty() {
        wrong = universal::extra_rules(&schema, &value, shown["response_type"].as_str());
    }
    assert_eq!(wrong.lines(), Vec::<String>::new(), "{agent}: {value}");
    value
}

#[test]
fn a_team_of_the_smallest_models_comes_to_an_end() {
    let Some(project) = project("embedded-team") else { return };
    let project = with_code(project);
    let ran = project.run(&["orchestrate", "-t", "Find out how colours are mixed.", "--json"]);
    let run = ran.json();
    assert_eq!(ran.status, 0, "{}", ran.all());
    // Whether the model names its sources or not, they are there.
    assert!(run["result_text"].as_str().is_some_and(|text| text.contains("[t1]")), "{run}");
}
