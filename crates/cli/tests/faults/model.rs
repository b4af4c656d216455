//! The model: it knows what each task wants, answers nothing twice in the same words, and notes what it was asked.
//!
//! Every task says who it is in its first words, as in `[leader-7]`; those that work for it are `[leader-7/1]` and so
//! on. Every answer is signed: the name of the model that gave it is its number. The journal keeps that name, so that
//! it is known of each reply in a journal which request it answered.

use std::ops::RangeBounds;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use slipform_testkit::{Gate, Recorded, ScriptedServer, Step};

use crate::random::Random;
use crate::wait::until;

/// What an agent of the cluster does, and what it needs for that.
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
    ("looking", "name: looking\ntools: [fs:read]\n"),
    ("leader", "name: leader\nagents: [helper]\n"),
    ("caller", "name: caller\nagents: [helper]\n"),
    ("helper", "name: helper\n"),
    ("team", "name: team\ntype: orchestrator\nagents: [helper]\n"),
];

/// How often `looking` reads before it answers.
const READS: usize = 3;

/// A request, and what it was answered with.
#[derive(Debug, Clone)]
pub(crate) struct Asked {
    /// Whose it was, such as `leader-7/1`.
    pub(crate) task: String,
    /// The conversation so far.
    pub(crate) messages: Value,
    /// What was said.
    pub(crate) text: String,
    /// The tools that were called, with their arguments.
    pub(crate) calls: Vec<(String, Value)>,
}

/// A model server.
pub(crate) struct Model {
    pub(crate) server: ScriptedServer,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Model {
    /// A model that takes some time for each answer.
    pub(crate) fn start(mut random: Random) -> Model {
        Model::answering(move |_, step| step.delay(random.millis(5, 150)))
    }

    /// A model that keeps some of its answers to a task behind a gate: those of these numbers, from 0.
    pub(crate) fn holding(
        task: &'static str,
        held: impl RangeBounds<usize> + Send + 'static,
        gate: &Gate,
    ) -> Model {
        let (gate, mut seen) = (gate.clone(), 0);
        Model::answering(move |asked, step| {
            let number = seen;
            seen += usize::from(asked.task == task);
            if asked.task == task && held.contains(&number) { step.gate(&gate) } else { step }
        })
    }

    fn answering(mut deliver: impl FnMut(&Asked, Step) -> Step + Send + 'static) -> Model {
        let asked: Arc<Mutex<Vec<Asked>>> = Arc::default();
        let notes = asked.clone();
        let server = ScriptedServer::respond(move |request, _| {
            let mut notes = notes.lock().unwrap();
            let asked = answer(request, notes.len());
            let step = asked.calls.iter().fold(Step::text(asked.text.clone()), |step, (name, arguments)| {
                step.and_tool(name, arguments.clone())
            });
            let step = deliver(&asked, step.model(&signature(notes.len())));
            notes.push(asked);
            step
        });
        Model { server, asked }
    }

    /// Everything that it was asked, in order.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    /// Waits until a task has asked it so often.
    pub(crate) fn wait_for(&self, task: &str, count: usize) {
        let asked = || self.asked.lock().unwrap().iter().filter(|asked| asked.task == task).count();
        until(&format!("{task} asks the model {count} times"), || (asked() >= count).then_some(()));
    }
}

/// How the answer to a request is signed.
fn signature(number: usize) -> String {
    format!("answer-{number}")
}

/// Which request a signature belongs to.
pub(crate) fn signed(name: &str) -> Option<usize> {
    name.strip_prefix("answer-")?.parse().ok()
}

fn answer(request: &Recorded, number: usize) -> Asked {
    let prompt = request.prompt();
    let marks = AGENTS.iter().filter_map(|(name, _)| prompt.find(&format!("[{name}-")));
    let own = marks.min().map_or("", |at| &prompt[at + 1..]);
    let task = own.split(']').next().unwrap_or_default();
    let messages = request.body["messages"].clone();
    let (text, calls) = reply(task, messages.as_array().unwrap(), number);
    Asked { task: task.to_owned(), messages, text, calls }
}

/// What is said, and which tools are called.
fn reply(task: &str, messages: &[Value], number: usize) -> (String, Vec<(String, Value)>) {
    let role = |message: &Value| message["role"].as_str().unwrap_or_default().to_owned();
    let rounds = messages.iter().filter(|message| role(message) == "assistant").count();
    let last = messages.last().unwrap();
    let said = format!("{task}, number {number}");
    let start = |child: usize, mode: &str| {
        let prompt = format!("[{task}/{child}] Help.");
        let arguments = json!({"agent_name": "helper", "prompt": prompt, "mode": mode});
        ("start_agent_session".to_owned(), arguments)
    };
    let kind = if task.contains('/') { "helper" } else { task.split('-').next().unwrap_or_default() };
    match kind {
        "plain" => (json!({"task": said}).to_string(), Vec::new()),
        "strict" if !is_correction(messages) => (json!({"task": said}).to_string(), Vec::new()),
        "strict" => (json!({"task": said, "colour": "red"}).to_string(), Vec::new()),
        "looking" if rounds < READS => {
            (said, vec![("fs_read".to_owned(), json!({"path": format!("notes/{rounds}.txt")}))])
        }
        "leader" if role(last) == "user" => (said, vec![start(1, "sync")]),
        "team" if !summed_up(messages) => (said, vec![plan(task)]),
        "team" => (format!("{said} [s1] [s2] [s3]"), Vec::new()),
        "caller" if role(last) == "user" && !is_callback(last) => {
            (said, vec![start(1, "callback"), start(2, "callback")])
        }
        _ => (said, Vec::new()),
    }
}

/// Two subtasks at once, and one after them.
fn plan(task: &str) -> (String, Value) {
    let subtask = |number: usize, needed: &[&str]| {
        let (id, description) = (format!("s{number}"), format!("[{task}/{number}] Help."));
        json!({"id": id, "description": description, "agent": "helper", "dependencies": needed})
    };
    let subtasks = [subtask(1, &[]), subtask(2, &[]), subtask(3, &["s1", "s2"])];
    ("create_execution_plan".to_owned(), json!({"subtasks": subtasks}))
}

/// Whether all subtasks are done.
fn summed_up(messages: &[Value]) -> bool {
    messages.iter().any(|message| message.to_string().contains("All subtasks are done."))
}

/// Whether the model was told what is wrong with its first answer.
fn is_correction(messages: &[Value]) -> bool {
    messages.iter().any(|message| message.to_string().contains("required property is missing"))
}

fn is_callback(message: &Value) -> bool {
    message["content"].as_str().is_some_and(|text| text.starts_with("<agent-callback"))
}
