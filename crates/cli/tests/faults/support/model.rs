//! The scripted model: it plays every agent, gives each reply a different text, and records each exchange.
//!
//! Every prompt begins with its task, such as `[leader-7]`; the tasks of its children are `[leader-7/1]` and so on. The
//! model name in each reply contains the number of its request. Journals store that name, so [`request_number`] finds
//! the request of each stored reply.

use std::ops::RangeBounds;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use slipform_testkit::{Gate, Recorded, ScriptedServer, Step, wait_until};

use crate::support::random::Random;

/// The agents of the project: name and file content.
pub(crate) const AGENTS: [(&str, &str); 7] = [
    (
        "plain",
        "name: plain\noutput_schema: {type: object, required: [task], properties: {task: {type: string}}}\n",
    ),
    (
        "strict",
        "name: strict\noutput_schema: {type: object, required: [task, colour], \
         properties: {task: {type: string}, colour: {type: string}}}\n",
    ),
    ("reader", "name: reader\ntools: [fs:read]\n"),
    ("leader", "name: leader\nagents: [helper]\n"),
    ("caller", "name: caller\nagents: [helper]\n"),
    ("helper", "name: helper\n"),
    ("team", "name: team\ntype: orchestrator\nagents: [helper]\n"),
];

/// The number of files that `reader` reads before it answers.
const READS: usize = 3;

/// A request and its reply.
#[derive(Debug, Clone)]
pub(crate) struct Exchange {
    /// The task of the request, such as `leader-7/1`.
    pub(crate) task: String,
    /// The messages of the request.
    pub(crate) messages: Value,
    /// The text of the reply.
    pub(crate) text: String,
    /// The tool calls of the reply: name and arguments.
    pub(crate) calls: Vec<(String, Value)>,
}

/// A model server that records its exchanges.
pub(crate) struct Model {
    pub(crate) server: ScriptedServer,
    exchanges: Arc<Mutex<Vec<Exchange>>>,
}

impl Model {
    /// Starts a model that delays each reply by 5 to 150 ms.
    pub(crate) fn start(mut random: Random) -> Model {
        Model::with_delivery(move |_, step| step.delay(random.millis(5, 150)))
    }

    /// Starts a model that holds some replies to `task` until the gate opens. `held` counts these replies from 0.
    pub(crate) fn with_gate(
        task: &'static str,
        held: impl RangeBounds<usize> + Send + 'static,
        gate: &Gate,
    ) -> Model {
        let (gate, mut seen) = (gate.clone(), 0);
        Model::with_delivery(move |exchange, step| {
            let number = seen;
            seen += usize::from(exchange.task == task);
            if exchange.task == task && held.contains(&number) { step.gate(&gate) } else { step }
        })
    }

    fn with_delivery(mut deliver: impl FnMut(&Exchange, Step) -> Step + Send + 'static) -> Model {
        let exchanges: Arc<Mutex<Vec<Exchange>>> = Arc::default();
        let recorded = exchanges.clone();
        let server = ScriptedServer::respond(move |request, _| {
            let mut recorded = recorded.lock().unwrap();
            let exchange = answer(request, recorded.len());
            let text = Step::text(exchange.text.clone());
            let step = exchange
                .calls
                .iter()
                .fold(text, |step, (name, arguments)| step.and_tool(name, arguments.clone()));
            let step = deliver(&exchange, step.model(&model_name(recorded.len())));
            recorded.push(exchange);
            step
        });
        Model { server, exchanges }
    }

    /// Returns all exchanges in the order of their requests.
    pub(crate) fn exchanges(&self) -> Vec<Exchange> {
        self.exchanges.lock().unwrap().clone()
    }

    /// Waits until a task has sent `count` requests.
    pub(crate) fn wait_for_calls(&self, task: &str, count: usize) {
        let calls = || self.exchanges.lock().unwrap().iter().filter(|exchange| exchange.task == task).count();
        wait_until(&format!("{task} calls the model {count} times"), || calls() >= count);
    }

    /// Returns the number of requests so far.
    pub(crate) fn requests(&self) -> usize {
        self.exchanges.lock().unwrap().len()
    }
}

/// Returns the model name in the reply to a request.
fn model_name(number: usize) -> String {
    format!("answer-{number}")
}

/// Returns the number of the request whose reply has this model name.
pub(crate) fn request_number(name: &str) -> Option<usize> {
    name.strip_prefix("answer-")?.parse().ok()
}

fn answer(request: &Recorded, number: usize) -> Exchange {
    let prompt = request.prompt();
    let marks = AGENTS.iter().filter_map(|(name, _)| prompt.find(&format!("[{name}-")));
    let own = marks.min().map_or("", |at| &prompt[at + 1..]);
    let task = own.split(']').next().unwrap_or_default();
    let messages = request.body["messages"].clone();
    let (text, calls) = reply(task, messages.as_array().unwrap(), number);
    Exchange { task: task.to_owned(), messages, text, calls }
}

/// Returns the text and the tool calls of the reply. `number` makes each text different.
fn reply(task: &str, messages: &[Value], number: usize) -> (String, Vec<(String, Value)>) {
    let role = |message: &Value| message["role"].as_str().unwrap_or_default().to_owned();
    let rounds = messages.iter().filter(|message| role(message) == "assistant").count();
    let last = messages.last().unwrap();
    let text = format!("{task}, number {number}");
    let start = |child: usize, mode: &str| {
        let prompt = format!("[{task}/{child}] Help.");
        let arguments = json!({"agent_name": "helper", "prompt": prompt, "mode": mode});
        ("start_agent_session".to_owned(), arguments)
    };
    let kind = if task.contains('/') { "helper" } else { task.split('-').next().unwrap_or_default() };
    match kind {
        "plain" => (json!({"task": text}).to_string(), Vec::new()),
        "strict" if !is_correction(messages) => (json!({"task": text}).to_string(), Vec::new()),
        "strict" => (json!({"task": text, "colour": "red"}).to_string(), Vec::new()),
        "reader" if rounds < READS => {
            (text, vec![("fs_read".to_owned(), json!({"path": format!("notes/{rounds}.txt")}))])
        }
        "leader" if role(last) == "user" => (text, vec![start(1, "sync")]),
        "team" if !is_summary(messages) => (text, vec![plan(task)]),
        "team" => (format!("{text} [s1] [s2] [s3]"), Vec::new()),
        "caller" if role(last) == "user" && !is_callback(last) => {
            (text, vec![start(1, "callback"), start(2, "callback")])
        }
        _ => (text, Vec::new()),
    }
}

/// Plans two independent subtasks and one that depends on both.
fn plan(task: &str) -> (String, Value) {
    let subtask = |number: usize, dependencies: &[&str]| {
        let (id, description) = (format!("s{number}"), format!("[{task}/{number}] Help."));
        json!({"id": id, "description": description, "agent": "helper", "dependencies": dependencies})
    };
    let subtasks = [subtask(1, &[]), subtask(2, &[]), subtask(3, &["s1", "s2"])];
    ("create_execution_plan".to_owned(), json!({"subtasks": subtasks}))
}

/// Returns whether the orchestrator asks for the summary.
fn is_summary(messages: &[Value]) -> bool {
    messages.iter().any(|message| message.to_string().contains("All subtasks are done."))
}

/// Returns whether the request contains the violation of the first reply.
fn is_correction(messages: &[Value]) -> bool {
    messages.iter().any(|message| message.to_string().contains("required property is missing"))
}

fn is_callback(message: &Value) -> bool {
    message["content"].as_str().is_some_and(|text| text.starts_with("<agent-callback"))
}
