//! A case as it is written down.

use std::fs;
use std::path::Path;

use formwork_schema::Schema;
use formwork_types::{
    Blueprint, Body, CallError, Contract, ContractOptions, ContractSource, OptionsPatch, Reply, Role,
    RunType, Stop, TierBackend, ToolCall, Usage,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};

/// A file of cases. `defaults` are merged under each of them, object by object.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    defaults: Value,
    cases: Vec<Value>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Case {
    #[serde(default)]
    pub(crate) file: String,
    pub(crate) name: String,
    agent: Value,
    input: String,
    contract: Option<Given>,
    /// Leaves the contract of the defaults out.
    #[serde(default)]
    plain: bool,
    #[serde(default)]
    backend: Value,
    #[serde(default)]
    ladder: Vec<Value>,
    /// What is asked and answered, in order.
    pub(crate) steps: Vec<Step>,
    /// How it ends: `status`, `result`, `text`, and what has to be in `error`, `receipt`, `salvage`.
    pub(crate) expect: Map<String, Value>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Given {
    schema: Value,
    #[serde(default)]
    schema_name: Option<String>,
    #[serde(default)]
    options: OptionsPatch,
    #[serde(default)]
    example: Option<Value>,
}

/// One call: what has to be true of it, and what comes back.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Step {
    pub(crate) call: Map<String, Value>,
    text: String,
    /// How many more characters follow the text, for replies too long to write down.
    padding: usize,
    /// A value that the model writes as compact JSON.
    json: Option<Value>,
    /// Calls of `submit_result`: arguments as values, or as strings where the text matters.
    submit: Vec<Value>,
    /// Calls of other tools, by name.
    other_tools: Vec<String>,
    reasoning: String,
    /// `length`, `filtered`, or `refused: WORDS`.
    stop: String,
    usage: Option<Usage>,
    error: Option<CallError>,
    /// `stop_requested` or `deadline_reached` instead of an answer.
    event: Option<String>,
}

impl Step {
    pub(crate) fn body(&self, asked: &str) -> Body {
        if let Some(error) = &self.error {
            return Body::CallFailed { error: error.clone() };
        }
        match self.event.as_deref() {
            Some("stop_requested") => return Body::StopRequested,
            Some("deadline_reached") => return Body::DeadlineReached,
            Some(other) => panic!("there is no event {other}"),
            None => {}
        }
        let mut content = self.json.as_ref().map_or_else(|| self.text.clone(), ToString::to_string);
        content.push_str(&"x".repeat(self.padding));
        let reply = Reply {
            text: String::new(),
            reasoning: self.reasoning.clone(),
            tool_calls: self.tool_calls(),
            stop: self.stop(),
            usage: self.usage.unwrap_or(Usage { input: 10, output: 5, estimated: false }),
            model: String::new(),
        };
        Body::Message {
            role: Role::Assistant,
            content,
            reply: Box::new(reply),
            asked: Some(asked.to_owned()),
        }
    }

    fn tool_calls(&self) -> Vec<ToolCall> {
        let others = self.other_tools.iter().map(|name| (name.clone(), "{}".to_owned()));
        let submits = self.submit.iter().map(|given| {
            let arguments = given.as_str().map_or_else(|| given.to_string(), str::to_owned);
            ("submit_result".to_owned(), arguments)
        });
        let all = others.chain(submits).enumerate();
        all.map(|(number, (name, arguments))| ToolCall { id: format!("call_{number}"), name, arguments })
            .collect()
    }

    fn stop(&self) -> Stop {
        match self.stop.as_str() {
            "" if self.submit.is_empty() && self.other_tools.is_empty() => Stop::Finished,
            "" => Stop::ToolCalls,
            "length" => Stop::Length,
            "filtered" => Stop::Filtered,
            other => match other.strip_prefix("refused:") {
                Some(message) => Stop::Refused { message: message.trim().to_owned() },
                None => panic!("there is no stop {other}"),
            },
        }
    }
}

impl Case {
    pub(crate) fn label(&self) -> String {
        format!("{}: {}", self.file, self.name)
    }

    pub(crate) fn contract(&self) -> Option<Contract> {
        let given = self.contract.as_ref().filter(|_| !self.plain)?;
        let schema = Schema::compile(&given.schema).expect("a usable schema");
        Some(Contract {
            source: ContractSource::Inline,
            schema_name: given.schema_name.clone(),
            schema: given.schema.clone(),
            hash: schema.hash().to_owned(),
            options: given.options.resolve(&ContractOptions::default()),
            example: given.example.clone(),
        })
    }

    pub(crate) fn ladder(&self) -> Vec<TierBackend> {
        let base = json!({"name": "main", "kind": "openai", "model": "some-model", "dialect": "generic"});
        let rung = |given: &Value| {
            let tier = given["tier"].as_str().unwrap_or("default");
            let backend = merged(&base, &merged(&self.backend, &given["backend"]));
            serde_json::from_value(json!({"tier": tier, "backend": backend})).expect("a backend")
        };
        if self.ladder.is_empty() {
            return vec![rung(&Value::Null)];
        }
        self.ladder.iter().map(rung).collect()
    }

    /// The events with which every journal begins.
    pub(crate) fn opening(&self) -> [Body; 2] {
        let base = json!({"name": "reviewer", "system_prompt": "You review code."});
        let blueprint: Blueprint =
            serde_json::from_value(merged(&base, &self.agent)).expect("an agent of the case");
        let start = Body::RunStart {
            run_type: RunType::StartSession,
            blueprint: Box::new(blueprint),
            contract: self.contract().map(Box::new),
            parameters: json!({"prompt": self.input}),
            input: self.input.clone(),
        };
        [start, Body::AttemptStarted { ladder: self.ladder() }]
    }
}

/// `over` laid on `under`: objects member by member, everything else as a whole.
fn merged(under: &Value, over: &Value) -> Value {
    match (under, over) {
        (_, Value::Null) => under.clone(),
        (Value::Object(under), Value::Object(over)) => {
            let mut all = under.clone();
            for (key, value) in over {
                let below = all.get(key).unwrap_or(&Value::Null);
                // A schema is a whole: half of one and half of another is neither.
                let laid = if key == "schema" { value.clone() } else { merged(below, value) };
                all.insert(key.clone(), laid);
            }
            Value::Object(all)
        }
        _ => over.clone(),
    }
}

/// All cases of the folder.
pub(crate) fn all() -> Vec<Case> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let mut files: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let base = json!({"agent": {}, "input": "Review src/a.rs."});
    let mut cases = Vec::new();
    for path in files {
        let text = fs::read_to_string(&path).unwrap();
        let file: File =
            serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let under = merged(&base, &file.defaults);
        for case in file.cases {
            let whole = merged(&under, &case);
            let mut case: Case = serde_json::from_value(whole)
                .unwrap_or_else(|error| panic!("{}: {}: {error}", path.display(), case["name"]));
            case.file.clone_from(&name);
            cases.push(case);
        }
    }
    cases
}
