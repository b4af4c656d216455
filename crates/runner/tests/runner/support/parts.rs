//! Parts that tests make themselves: tools that do what a test says, and a backend without a socket.

use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use slipform_model::{Backend, BackendConfig, Call, CallFuture, connect};
use slipform_runner::{LadderRung, RunContext};
use slipform_tools::{Error, Tool, ToolFuture, Toolbox};
use slipform_types::{BackendKind, Capabilities, Reply, TierBackend, ToolDefinition};

type Answer = Pin<Box<dyn Future<Output = Result<Value, Error>> + Send>>;
type Act = Box<dyn Fn(Value) -> Answer + Send + Sync>;

/// A tool that does what a test says, and counts its calls.
pub(crate) struct Played {
    definition: ToolDefinition,
    act: Act,
    pub(crate) calls: AtomicUsize,
}

impl std::fmt::Debug for Played {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.definition.name)
    }
}

impl Played {
    /// A tool that takes any object.
    pub(crate) fn new<F>(name: &str, act: impl Fn(Value) -> F + Send + Sync + 'static) -> Arc<Played>
    where
        F: Future<Output = Result<Value, Error>> + Send + 'static,
    {
        Played::taking(name, json!({"type": "object"}), act)
    }

    pub(crate) fn taking<F>(
        name: &str,
        parameters: Value,
        act: impl Fn(Value) -> F + Send + Sync + 'static,
    ) -> Arc<Played>
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
        let act: Act = Box::new(move |arguments| Box::pin(act(arguments)));
        Arc::new(Played { definition, act, calls: AtomicUsize::new(0) })
    }

    /// A tool that repeats what it is given.
    pub(crate) fn echo(name: &str) -> Arc<Played> {
        Played::new(name, |arguments| std::future::ready(Ok(json!({"heard": arguments}))))
    }

    /// The same tool, pinned by another hash.
    pub(crate) fn hashed(tool: Arc<Played>, hash: &str) -> Arc<Played> {
        let Some(Played { mut definition, act, calls }) = Arc::into_inner(tool) else {
            panic!("it is shared")
        };
        definition.hash = hash.to_owned();
        Arc::new(Played { definition, act, calls })
    }

    pub(crate) fn called(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }
}

impl Tool for Played {
    fn definition(&self) -> &ToolDefinition {
        &self.definition
    }

    fn call<'a>(&'a self, arguments: &'a Value) -> ToolFuture<'a> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        (self.act)(arguments.clone())
    }
}

/// The claim with these tools and no others.
pub(crate) fn with_tools(claim: RunContext, tools: &[Arc<Played>]) -> RunContext {
    let tools = tools.iter().map(|tool| tool.clone() as Arc<dyn Tool>).collect();
    let claim = RunContext { tools: Arc::default(), ..claim };
    claim.tools.set(Toolbox::new(tools)).unwrap();
    claim
}

/// A backend that needs no socket: under a clock that does not run by itself a socket is never waited for.
#[derive(Debug)]
struct Spoken(Mutex<Vec<Reply>>);

impl Backend for Spoken {
    fn call<'a>(&'a self, _: Call<'a>) -> CallFuture<'a> {
        let reply = self.0.lock().unwrap().pop().expect("a reply is left");
        Box::pin(std::future::ready(Ok(reply)))
    }
}

/// A backend that never answers.
#[derive(Debug)]
struct Silent;

impl Backend for Silent {
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

pub(crate) fn silent() -> LadderRung {
    LadderRung { tier: tier(), backend: Arc::new(Silent) }
}

/// A rung that gives these replies in order.
pub(crate) fn spoken(replies: Vec<Value>) -> LadderRung {
    let mut replies: Vec<Reply> = replies
        .into_iter()
        .map(|mut reply| {
            reply["text"] = reply.get("text").cloned().unwrap_or_else(|| json!(""));
            reply["stop"] = reply.get("stop").cloned().unwrap_or_else(|| json!({"reason": "finished"}));
            serde_json::from_value(reply).unwrap()
        })
        .collect();
    replies.reverse();
    LadderRung { tier: tier(), backend: Arc::new(Spoken(Mutex::new(replies))) }
}

/// A rung with a program behind it.
pub(crate) fn executor(tier: &str, command: &[&str]) -> LadderRung {
    let mut config = BackendConfig::new(tier, BackendKind::Command);
    config.command = command.iter().map(|&word| word.to_owned()).collect();
    config.retries = 0;
    let backend = connect(&config, &|name| std::env::var(name).ok()).unwrap();
    let tier = TierBackend { tier: tier.to_owned(), backend: config.info(Capabilities::default(), None) };
    LadderRung { tier, backend }
}
