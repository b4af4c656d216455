//! Fake tools, and rungs with fake backends or programs.

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::support::contexts::TestRun;
use serde_json::{Value, json};
use slipform_model::{Backend, BackendConfig, Call, CallFuture, connect};
use slipform_runner::LadderRung;
use slipform_tools::{Error, Tool, ToolFuture, Toolbox};
use slipform_types::{BackendKind, Capabilities, Reply, TierBackend, ToolDefinition};
use tokio::sync::OnceCell;

type Answer = Pin<Box<dyn Future<Output = Result<Value, Error>> + Send>>;
type ToolClosure = Box<dyn Fn(Value) -> Answer + Send + Sync>;

/// A tool that runs a closure and counts its calls.
pub(crate) struct FakeTool {
    definition: ToolDefinition,
    run: ToolClosure,
    pub(crate) calls: AtomicUsize,
}

impl std::fmt::Debug for FakeTool {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.definition.name)
    }
}

impl FakeTool {
    /// Creates a tool that accepts any object.
    pub(crate) fn new<F>(name: &str, run: impl Fn(Value) -> F + Send + Sync + 'static) -> Arc<FakeTool>
    where
        F: Future<Output = Result<Value, Error>> + Send + 'static,
    {
        FakeTool::with_parameters(name, json!({"type": "object"}), run)
    }

    pub(crate) fn with_parameters<F>(
        name: &str,
        parameters: Value,
        run: impl Fn(Value) -> F + Send + Sync + 'static,
    ) -> Arc<FakeTool>
    where
        F: Future<Output = Result<Value, Error>> + Send + 'static,
    {
        let definition = ToolDefinition {
            name: name.to_owned(),
            description: format!("The tool {name}."),
            parameters,
            output: None,
            hash: format!("sha256:{name}"),
        };
        let run: ToolClosure = Box::new(move |arguments| Box::pin(run(arguments)));
        Arc::new(FakeTool { definition, run, calls: AtomicUsize::new(0) })
    }

    /// Creates a tool that returns its arguments.
    pub(crate) fn echo(name: &str) -> Arc<FakeTool> {
        FakeTool::new(name, |arguments| std::future::ready(Ok(json!({"heard": arguments}))))
    }

    /// Returns the same tool with a different hash.
    pub(crate) fn with_hash(tool: Arc<FakeTool>, hash: &str) -> Arc<FakeTool> {
        let Some(FakeTool { mut definition, run, calls }) = Arc::into_inner(tool) else {
            panic!("the tool is shared")
        };
        definition.hash = hash.to_owned();
        Arc::new(FakeTool { definition, run, calls })
    }

    pub(crate) fn call_count(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }
}

impl Tool for FakeTool {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn call<'a>(&'a self, arguments: &'a Value) -> ToolFuture<'a> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        (self.run)(arguments.clone())
    }
}

/// Returns the run with these tools and no others.
pub(crate) fn with_tools(run: TestRun, tools: &[Arc<FakeTool>]) -> TestRun {
    TestRun { tools: toolbox(tools), ..run }
}

/// Returns the opened tools of a run.
pub(crate) fn toolbox(tools: &[Arc<FakeTool>]) -> Arc<OnceCell<Toolbox>> {
    let tools = tools.iter().map(|tool| tool.clone() as Arc<dyn Tool>).collect();
    Arc::new(OnceCell::new_with(Some(Toolbox::new(tools))))
}

/// A backend with fixed replies. It needs no socket, because a paused clock does not wait for sockets.
#[derive(Debug)]
struct ScriptedBackend(Mutex<Vec<Reply>>);

impl Backend for ScriptedBackend {
    fn call<'a>(&'a self, _: Call<'a>) -> CallFuture<'a> {
        let reply = self.0.lock().unwrap().pop().expect("a reply is left");
        Box::pin(std::future::ready(Ok(reply)))
    }
}

/// A backend that never answers.
#[derive(Debug)]
struct SilentBackend;

impl Backend for SilentBackend {
    fn call<'a>(&'a self, _: Call<'a>) -> CallFuture<'a> {
        Box::pin(std::future::pending())
    }
}

fn tier() -> TierBackend {
    let backend = json!({
        "name": "default", "kind": "openai", "model": "m", "dialect": "generic", "structured_output": "auto",
    });
    serde_json::from_value(json!({"tier": "default", "backend": backend})).unwrap()
}

pub(crate) fn silent_rung() -> LadderRung {
    LadderRung { tier: tier(), backend: Arc::new(SilentBackend) }
}

/// Returns a rung that gives these replies in order.
pub(crate) fn scripted_rung(replies: Vec<Value>) -> LadderRung {
    let mut replies: Vec<Reply> = replies
        .into_iter()
        .map(|mut reply| {
            reply["text"] = reply.get("text").cloned().unwrap_or_else(|| json!(""));
            reply["stop"] = reply.get("stop").cloned().unwrap_or_else(|| json!({"reason": "finished"}));
            serde_json::from_value(reply).unwrap()
        })
        .collect();
    replies.reverse();
    LadderRung { tier: tier(), backend: Arc::new(ScriptedBackend(Mutex::new(replies))) }
}

/// Returns a rung whose backend is a program.
pub(crate) fn command_rung(tier: &str, command: &[&str]) -> LadderRung {
    let mut config = BackendConfig::new(tier, BackendKind::Command);
    config.command = command.iter().map(|&word| word.to_owned()).collect();
    config.retries = 0;
    let backend = connect(&config, &|name| std::env::var(name).ok()).unwrap();
    let tier = TierBackend::new(tier, config.info(Capabilities::default(), None));
    LadderRung { tier, backend }
}
