//! Reads cases and runs them against the engine.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Value, json};
use slipform_engine::{Action, ModelCall, State, next};
use slipform_schema::shipped;
use slipform_types::{
    Blueprint, CallError, Contract, ContractOptions, ContractSource, Conversation, EventBody, OptionsPatch,
    Outcome, Reply, Role, RunOverrides, RunStatus, RunType, TierBackend,
};

use crate::support::expect::Expect;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    schemas: BTreeMap<String, Value>,
    cases: Vec<Case>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Case {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) blueprint: Value,
    /// Members of the blueprint in which an attempt has filled the placeholders. The journal does not
    /// have them.
    #[serde(default)]
    filled: Value,
    #[serde(default)]
    input: String,
    pub(crate) contract: Option<ContractCase>,
    /// The conversation of a client that keeps it and executes its tools.
    pub(crate) conversation: Option<Conversation>,
    #[serde(default)]
    overrides: RunOverrides,
    #[serde(default)]
    ladder: Vec<Value>,
    /// The available tools: a name, or members of a definition.
    #[serde(default)]
    tools: Vec<Value>,
    /// The available agents: a name, or members of a card.
    #[serde(default)]
    agents: Vec<Value>,
    /// The answers of tools by name and of agents by `agent NAME`; `{"error": …}` for a failure.
    #[serde(default)]
    answers: BTreeMap<String, Value>,
    #[serde(default)]
    replies: Vec<Value>,
    pub(crate) expect: Expect,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ContractCase {
    pub(crate) schema: Value,
    #[serde(default)]
    options: OptionsPatch,
    source: Option<ContractSource>,
    schema_name: Option<String>,
    example: Option<Value>,
}

/// The record of a run, or of the rest of one.
pub(crate) struct RunRecord {
    /// The journal.
    pub(crate) bodies: Vec<EventBody>,
    /// The next action before each event and after the last.
    pub(crate) actions: Vec<Option<Action>>,
    pub(crate) calls: Vec<ModelCall>,
    /// The tools, programs and children that the run started, in order.
    pub(crate) ran: Vec<Value>,
    pub(crate) outcome: Outcome,
}

pub(crate) fn parse(text: &str) -> Result<Vec<Case>, String> {
    let mut file: File = serde_json::from_str(text).map_err(|error| error.to_string())?;
    for case in &mut file.cases {
        if let Some(contract) = &mut case.contract
            && let Some(name) = contract.schema.as_str()
        {
            let shipped = || shipped().iter().find(|it| it.name == name).map(|it| it.schema.source().clone());
            let found = file.schemas.get(name).cloned().or_else(shipped);
            contract.schema = found.ok_or(format!("no schema {name}"))?;
        }
    }
    Ok(file.cases)
}

/// Runs a case from its first event to its last.
pub(crate) fn run_case(case: &Case) -> Result<RunRecord, String> {
    continue_run(case, State::default(), &[])
}

/// Continues the run whose journal so far is `before`.
pub(crate) fn continue_run(case: &Case, mut state: State, before: &[EventBody]) -> Result<RunRecord, String> {
    let consumes_reply = |body: &&EventBody| {
        use EventBody::{CallFailed, DeadlineReached, Message, StopRequested};
        matches!(body, Message { .. } | CallFailed { .. } | DeadlineReached { .. } | StopRequested { .. })
    };
    let mut replies = case.replies.iter().skip(before.iter().filter(consumes_reply).count());
    let mut ran = Vec::new();
    let mut record = (Vec::new(), Vec::new(), Vec::new());
    let (bodies, actions, calls) = (&mut record.0, &mut record.1, &mut record.2);
    loop {
        let action = next(&state);
        actions.push(action.clone());
        let body = match action {
            None if before.is_empty() && bodies.is_empty() => start(case)?,
            None if before.len() + bodies.len() == 1 => case.attempt()?,
            None => break,
            Some(Action::Note(body)) => *body,
            Some(Action::Call(call)) => {
                let reply = replies.next().ok_or_else(|| format!("no reply is left for {}", call.asked))?;
                let body = answer(reply, &call)?;
                calls.push(*call);
                body
            }
            Some(Action::Tools(list)) => {
                let run = list.first().ok_or("no tool is to be called")?;
                ran.push(json!([run.name, run.arguments]));
                case.tool_answer(&run.call_id, &run.name)
            }
            Some(Action::VerifyPaths(paths)) => {
                ran.push(json!(["look", paths]));
                let (present, missing) = paths
                    .into_iter()
                    .partition(|path| case.answers.get("files").is_some_and(|it| it[path] == true));
                EventBody::PathsChecked { present, missing }
            }
            Some(Action::Execute(program)) => {
                ran.push(json!([program.argv, program.stdin]));
                case.tool_answer(&program.call_id, &program.argv[0])
            }
            Some(Action::Delegate(child)) => {
                ran.push(json!([child.agent_name, format!("{:?}", child.task), child.output_schema]));
                case.child_answer(&child, before.len() + bodies.len())
            }
            Some(Action::Park) => case.child_end(before.iter().chain(&*bodies))?,
            Some(Action::Finish(outcome)) => {
                let last = bodies.last().or(before.last());
                let has_result = matches!(last, Some(EventBody::Result { .. }));
                ending(&outcome, has_result)
            }
            Some(other) => return Err(format!("an unknown action: {other:?}")),
        };
        state.fold(&body).map_err(|error| format!("{error} at {body:?}"))?;
        bodies.push(body);
    }
    if let Some(reply) = replies.next() {
        return Err(format!("the engine did not request the reply {reply}"));
    }
    let outcome = state.outcome().cloned().ok_or("the run has no outcome")?;
    Ok(RunRecord { bodies: record.0, actions: record.1, calls: record.2, ran, outcome })
}

/// Returns the next event that ends a run.
fn ending(outcome: &Outcome, has_result: bool) -> EventBody {
    match outcome {
        Outcome::Completed(success) if !has_result => EventBody::Result {
            result_text: success.result_text.clone(),
            result_data: success.result_data.clone(),
            receipt: Box::new(success.receipt.clone()),
        },
        Outcome::Completed(_) => EventBody::RunCompleted {
            status: RunStatus::Completed,
            error: None,
            salvage: None,
            receipt: None,
        },
        Outcome::ToolCalls(ended) => EventBody::RunCompleted {
            status: RunStatus::Completed,
            error: None,
            salvage: None,
            receipt: Some(Box::new(ended.receipt.clone())),
        },
        Outcome::Failed(failure) => EventBody::RunCompleted {
            status: State::status(outcome),
            error: Some(Box::new(failure.error.clone())),
            salvage: Some(Box::new(failure.salvage.clone())),
            receipt: Some(Box::new(failure.receipt.clone())),
        },
    }
}

fn start(case: &Case) -> Result<EventBody, String> {
    let blueprint: Blueprint =
        serde_json::from_value(case.journaled_blueprint()).map_err(|error| error.to_string())?;
    let contract = case.contract.as_ref().map(|asked| Contract {
        source: asked.source.unwrap_or(ContractSource::Inline),
        schema_name: asked.schema_name.clone(),
        schema: asked.schema.clone().into(),
        hash: "sha256:0".to_owned(),
        options: asked.options.resolve(&ContractOptions::default()),
        example: asked.example.clone(),
    });
    Ok(EventBody::RunStart {
        run_type: RunType::StartSession,
        blueprint: std::sync::Arc::new(blueprint),
        contract: contract.map(std::sync::Arc::new),
        parameters: json!({"prompt": case.input}),
        input: if case.input.is_empty() { "The question".to_owned() } else { case.input.clone() },
        overrides: case.overrides.clone(),
        conversation: case.conversation.clone().map(std::sync::Arc::new),
    })
}

impl Case {
    /// Returns whether the attempts fill placeholders of the blueprint.
    pub(crate) fn has_placeholders(&self) -> bool {
        !self.filled.is_null()
    }

    fn journaled_blueprint(&self) -> Value {
        merge(json!({"name": "agent"}), &self.blueprint)
    }

    /// Returns the event as the journal has it: an attempt is stored with the placeholders.
    pub(crate) fn journaled(&self, body: &EventBody) -> Result<EventBody, String> {
        match body {
            EventBody::AttemptStarted { .. } => self.attempt_with(&Value::Null),
            other => Ok(other.clone()),
        }
    }

    fn attempt(&self) -> Result<EventBody, String> {
        self.attempt_with(&self.filled)
    }

    fn attempt_with(&self, filled: &Value) -> Result<EventBody, String> {
        let tool = |overrides: &Value| {
            let schema =
                json!({"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]});
            let overrides =
                if overrides.is_string() { json!({"name": overrides}) } else { overrides.clone() };
            merge(json!({"description": "A tool.", "parameters": schema, "hash": "sha256:0"}), &overrides)
        };
        let tools: Vec<Value> = self.tools.iter().map(tool).collect();
        let agents: Vec<Value> = self
            .agents
            .iter()
            .map(|agent| if agent.is_string() { json!({"name": agent}) } else { agent.clone() })
            .collect();
        let blueprint = self.has_placeholders().then(|| merge(self.journaled_blueprint(), filled));
        let event = json!({
            "event_type": "attempt_started", "ladder": self.ladder()?, "blueprint": blueprint,
            "tools": tools, "agents": agents,
        });
        serde_json::from_value(event).map_err(|error| error.to_string())
    }

    fn tool_answer(&self, call_id: &str, name: &str) -> EventBody {
        let answer = self.answers.get(name).cloned().unwrap_or_else(|| json!({"of": name}));
        let error = answer["error"].as_str().map(str::to_owned);
        let tool_output = if error.is_some() { Value::Null } else { answer };
        EventBody::PostTool { call_id: call_id.to_owned(), tool_name: name.to_owned(), tool_output, error }
    }

    fn child_answer(&self, child: &slipform_engine::Child, number: usize) -> EventBody {
        let name = &child.agent_name;
        let first = self.answers.get(&format!("agent {name}"));
        if let Some(error) = first.and_then(|it| it["refused"].as_str()) {
            return EventBody::PostTool {
                call_id: child.call_id.clone(),
                tool_name: name.clone(),
                tool_output: Value::Null,
                error: Some(error.to_owned()),
            };
        }
        let session = match &child.task {
            slipform_engine::ChildTask::Resume { session_id, .. } => session_id.clone(),
            slipform_engine::ChildTask::Start { .. } => {
                slipform_types::SessionId::from_random([number as u8; 6])
            }
        };
        EventBody::ChildStarted {
            call_id: child.call_id.clone(),
            agent_name: name.clone(),
            child_session_id: session,
            child_run_id: slipform_types::RunId::from_random([number as u8; 6]),
            execution_mode: child.execution_mode,
        }
    }

    /// Returns the end of the first running child.
    fn child_end<'b>(
        &self,
        bodies: impl Iterator<Item = &'b EventBody> + Clone,
    ) -> Result<EventBody, String> {
        let ended = |run: &slipform_types::RunId| {
            bodies
                .clone()
                .any(|body| matches!(body, EventBody::ChildCompleted(end) if end.child_run_id == *run))
        };
        let open = bodies.clone().find_map(|body| match body {
            EventBody::ChildStarted {
                agent_name, child_session_id, child_run_id, execution_mode, ..
            } if *execution_mode == slipform_types::ExecutionMode::Sync && !ended(child_run_id) => {
                Some((agent_name.clone(), child_session_id.clone(), child_run_id.clone()))
            }
            _ => None,
        });
        let (agent_name, session, run) = open.ok_or("the run parks without a running child")?;
        let before = bodies
            .clone()
            .filter(|body| matches!(body, EventBody::ChildCompleted(end) if end.agent_name == agent_name))
            .count();
        // A list holds the results of successive runs.
        let overrides = self.answers.get(&format!("agent {agent_name}")).map(|said| match said {
            Value::Array(list) => list.get(before).or(list.last()).cloned().unwrap_or_default(),
            same => same.clone(),
        });
        let whole = json!({
            "event_type": "child_completed", "agent_name": agent_name, "child_session_id": session,
            "child_run_id": run, "status": "completed",
        });
        let whole = merge(whole, &overrides.unwrap_or_else(|| json!({"result_text": "Done."})));
        serde_json::from_value(whole).map_err(|error| error.to_string())
    }

    fn ladder(&self) -> Result<Vec<TierBackend>, String> {
        let one = [json!({})];
        let list = if self.ladder.is_empty() { &one[..] } else { &self.ladder };
        let rung = |overrides: &Value| {
            let backend = json!({"name": "b", "kind": "openai", "model": "m", "dialect": "generic"});
            let mut backend = merge(backend, overrides);
            let tier = backend.as_object_mut().and_then(|members| members.remove("tier"));
            json!({"tier": tier.unwrap_or(json!("default")), "backend": backend})
        };
        let ladder: Vec<Value> = list.iter().map(rung).collect();
        serde_json::from_value(json!(ladder)).map_err(|error| error.to_string())
    }
}

fn merge(mut base: Value, overrides: &Value) -> Value {
    for (key, value) in overrides.as_object().into_iter().flatten() {
        base[key] = value.clone();
    }
    base
}

/// Returns the event that a runner would append for a reply of the case.
fn answer(reply: &Value, call: &ModelCall) -> Result<EventBody, String> {
    if let Some(error) = reply.get("call_error") {
        let error: CallError = serde_json::from_value(error.clone()).map_err(|error| error.to_string())?;
        return Ok(EventBody::CallFailed { error });
    }
    if let Some(event) = reply.get("event") {
        let partial = reply.get("partial").map(|partial| json!({"partial": partial})).unwrap_or_default();
        let whole = merge(json!({"event_type": event}), &partial);
        return serde_json::from_value(whole).map_err(|error| error.to_string());
    }
    let text = if reply.is_string() { json!({"text": reply}) } else { reply.clone() };
    let whole = merge(json!({"text": "", "stop": {"reason": "finished"}}), &text);
    let mut reply: Reply = serde_json::from_value(whole).map_err(|error| format!("{error} in {text}"))?;
    Ok(EventBody::Message {
        role: Role::Assistant,
        content: std::mem::take(&mut reply.text),
        reply: Box::new(reply),
        asked: Some(call.asked.clone()),
    })
}
