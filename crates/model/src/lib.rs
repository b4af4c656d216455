//! Models, whatever protocol they speak: a request in, a reply or a typed error out.
//!
//! - One file a protocol: `openai` (chat completions), `completions`, `anthropic`, `command`.
//! - `http` carries the calls: streaming, timeouts, size bounds, repeats with backoff, no redirects, a
//!   limit on calls at the same time. `sse` reads event streams, `retry` decides when to ask again,
//!   `words` finds what a server says, `estimate` counts tokens where it does not, `stream_watch` passes a reply on while
//!   it is written.
//! - [`probe`] puts a backend's promises to the test with schemas that the prompt argues against.
//! - Keys come from named environment variables and appear in no error, reply or debug output.
//!
//! ```no_run
//! use slipform_model::{BackendConfig, Call, connect};
//! use slipform_types::{BackendKind, Message, Request};
//!
//! # async fn example() -> Result<(), slipform_model::Error> {
//! let mut config = BackendConfig::new("local", BackendKind::OpenAi);
//! config.base_url = Some("http://127.0.0.1:1234/v1".to_owned());
//! let backend = connect(&config, &|name| std::env::var(name).ok())?;
//! let request = Request { messages: vec![Message::user("Hello")], ..Request::default() };
//! let reply = backend.call(Call::new(&request)).await?;
//! # let _ = reply;
//! # Ok(())
//! # }
//! ```
//!
//! Not in here: deciding what to ask, and judging what comes back (`slipform-engine`).

mod anthropic;
mod command;
mod completions;
mod config;
mod error;
mod error_text;
mod estimate;
mod http;
mod openai;
pub mod probe;
mod replay;
mod retry;
mod secret;
mod sse;
mod stream_watch;

use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use slipform_types::{BackendKind, Reply, Request};

pub use config::{BackendConfig, is_small};
pub use error::Error;
pub use secret::Secret;

/// A call's future.
pub type CallFuture<'a> = Pin<Box<dyn Future<Output = Result<Reply, Error>> + Send + 'a>>;

/// Something that answers requests.
pub trait Backend: Send + Sync + std::fmt::Debug {
    /// Answers one request.
    fn call<'a>(&'a self, call: Call<'a>) -> CallFuture<'a>;

    /// The features that its protocol has a place for, by the names of [`probe::Finding::feature`].
    fn features(&self) -> &'static [&'static str] {
        &probe::FEATURES
    }

    /// What the server says of itself (`GET /models`), where it has a way to say it.
    fn about(&self) -> Pin<Box<dyn Future<Output = Option<Value>> + Send + '_>> {
        Box::pin(std::future::ready(None))
    }
}

/// One request with what surrounds it.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    /// What is asked.
    pub request: &'a Request,
    /// The run it belongs to, for executors that keep sessions of their own.
    pub invocation: Option<&'a Invocation>,
    /// Who wants to see it go on.
    pub watch: &'a dyn Watch,
}

impl<'a> Call<'a> {
    /// A call that belongs to no run and that nobody watches.
    pub fn new(request: &'a Request) -> Call<'a> {
        Call { request, invocation: None, watch: &() }
    }
}

/// The run that a call belongs to.
#[derive(Debug, Clone, Default)]
pub struct Invocation {
    /// The session.
    pub session_id: String,
    /// The run.
    pub run_id: String,
    /// The agent.
    pub agent_name: String,
    /// The agent's blueprint.
    pub agent_blueprint: Value,
    /// The caller's parameters.
    pub parameters: Value,
    /// Where the run takes place.
    pub project_dir: String,
    /// Whether the executor has been called in this session before.
    pub resumed: bool,
}

/// Someone who watches a call.
pub trait Watch: Send + Sync {
    /// Tokens have come; `total` of this reply so far, roughly.
    fn tokens(&self, total: u64) {
        let _ = total;
    }
    /// More of the reply has come: its words, or the arguments of its tool calls. No piece holds any of the key. After
    /// [`Watch::waiting`] the reply begins anew.
    fn text(&self, piece: &str) {
        let _ = piece;
    }
    /// The backend failed and will be asked again after `wait`.
    fn waiting(&self, wait: Duration, error: &Error) {
        let _ = (wait, error);
    }
}

impl Watch for () {}

/// Sets up a backend. `environment` gives the value of a variable.
pub fn connect(
    config: &BackendConfig,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Arc<dyn Backend>, Error> {
    if let Some(problem) = config.problems().into_iter().next() {
        return Err(Error::Settings(problem));
    }
    let secret = secret(config, environment)?;
    Ok(match config.kind {
        BackendKind::OpenAi => Arc::new(openai::OpenAi::new(config, secret)?),
        BackendKind::Completions => Arc::new(completions::Completions::new(config, secret)?),
        BackendKind::Anthropic => Arc::new(anthropic::Anthropic::new(config, secret)?),
        BackendKind::Command => {
            Arc::new(command::Answering::new(config, secret, environment, Path::new(".")))
        }
        BackendKind::Replay => Arc::new(replay::Replay::new(config)?),
        BackendKind::Embedded => {
            return Err(Error::Settings(
                "this build has no embedded model; configure a backend in slipform.toml or set OPENAI_BASE_URL, \
                 ANTHROPIC_API_KEY or OLLAMA_HOST"
                    .to_owned(),
            ));
        }
    })
}

fn secret(
    config: &BackendConfig,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<secret::Secret, Error> {
    let Some(variable) = &config.api_key_env else { return Ok(secret::Secret::default()) };
    let refused = |problem: &str| Error::Settings(format!("backends.{}.api_key_env: {problem}", config.name));
    let Some(key) = environment(variable).filter(|key| !key.trim().is_empty()) else {
        return Err(refused(&format!(
            "the variable {variable} is not set; export it, or remove the line if the backend needs no key"
        )));
    };
    if key.trim().bytes().any(|byte| !(b' '..=b'~').contains(&byte)) {
        return Err(refused(&format!(
            "the variable {variable} holds characters that no header may carry; export the key alone, on one line"
        )));
    }
    Ok(secret::Secret::new(Some(key)))
}
