//! Backends: sends a request to a model over one of several protocols and returns a reply or a typed error.
//!
//! API keys come from named environment variables and appear in no error, reply or debug output.
//!
//! # Modules
//! - `config`: [`BackendConfig`], the settings of one backend in `slipform.toml`.
//! - `openai`, `completions`, `anthropic`, `command`: one protocol each, behind the trait [`Backend`].
//! - `http`: the transport of the HTTP protocols, with streaming, timeouts, size limits and a concurrency limit.
//! - `sse`: parses server-sent events.
//! - `retry`: decides whether and when to retry a failed call.
//! - `stream_watch`: reports a reply to a [`Watch`] while it is received.
//! - `estimate`: estimates token counts if the server does not report usage.
//! - `error`, `error_text`: [`Error`], and the error messages of servers.
//! - `secret`: [`Secret`], an API key and its redaction.
//! - [`probe`]: tests which structured-output features a backend enforces.
//!
//! # Example
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
//! Not in this crate: building requests and validating replies (`slipform-engine`), and the embedded model
//! (`slipform-embedded`).

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
mod slots;
pub mod sse;
mod stream_watch;

use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use serde_json::Value;
use slipform_types::{BackendKind, FURTHER_SAMPLING, Reply, Request, TraceParent};
use tokio::time::Instant;

pub use config::{BackendConfig, is_small};
pub use error::Error;
pub use estimate::input_tokens as estimated_input_tokens;
pub use secret::Secret;
pub use slots::{CallSlot, CallSlots};

/// The boxed future of [`Backend::call`]. Dropping it cancels the call.
pub type CallFuture<'a> = Pin<Box<dyn Future<Output = Result<Reply, Error>> + Send + 'a>>;

/// The sampling parameters of OpenAI's API, and those that its servers have in addition.
static SAMPLING: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let known =
        ["temperature", "top_p", "frequency_penalty", "presence_penalty", "seed", "stop", "reasoning_effort"];
    known.into_iter().chain(FURTHER_SAMPLING).collect()
});

/// A model or program that answers requests.
pub trait Backend: Send + Sync + std::fmt::Debug {
    /// Sends one request and returns the complete reply.
    fn call<'a>(&'a self, call: Call<'a>) -> CallFuture<'a>;

    /// Returns the features that the protocol can express, named as in [`probe::Finding::feature`].
    fn features(&self) -> &'static [&'static str] {
        &probe::FEATURES
    }

    /// Returns the sampling parameters that requests to the backend can have, as OpenAI's API names them.
    fn sampling(&self) -> &'static [&'static str] {
        &SAMPLING
    }

    /// Returns the server's response to `GET /models`; `None` if the protocol has no such request or it failed.
    fn about(&self) -> Pin<Box<dyn Future<Output = Option<Value>> + Send + '_>> {
        Box::pin(std::future::ready(None))
    }
}

/// The arguments of [`Backend::call`].
#[derive(Clone, Copy)]
pub struct Call<'a> {
    /// The messages, tools and output format.
    pub request: &'a Request,
    /// The run of the call, for `command` backends, which keep their own sessions. `None` outside a run.
    pub invocation: Option<&'a Invocation>,
    /// Receives progress; `&()` ignores it.
    pub watch: &'a dyn Watch,
    /// The header `traceparent` of the call, for backends over HTTP.
    pub trace_parent: Option<&'a TraceParent>,
    /// How long the caller waits for the backend.
    pub patience: Patience,
}

/// How long a caller waits for a backend before the call begins, and before it begins again.
#[derive(Debug, Clone, Copy, Default)]
pub struct Patience {
    /// When the caller gives up. A call that would be repeated after it fails at once, with what the server said.
    pub deadline: Option<Instant>,
    /// The longest wait before a call is repeated; `None` for that of the backend's settings.
    pub wait_max: Option<Duration>,
    /// Whether a call behind a long queue fails at once. Otherwise it waits for its turn.
    pub is_short: bool,
}

impl Patience {
    /// Returns the time until the caller gives up, at most `longest`.
    pub(crate) fn left(&self, longest: Duration) -> Duration {
        let left = self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        left.map_or(longest, |left| left.min(longest))
    }
}

impl<'a> Call<'a> {
    /// Creates a call outside a run and without progress reports.
    pub fn new(request: &'a Request) -> Call<'a> {
        Call { request, invocation: None, watch: &(), trace_parent: None, patience: Patience::default() }
    }
}

/// The run that a call belongs to, as sent to the program of a `command` backend.
#[derive(Debug, Clone, Default)]
pub struct Invocation {
    /// The id of the session, `ses_…`.
    pub session_id: String,
    /// The id of the run, `run_…`.
    pub run_id: String,
    /// The name in the agent's blueprint.
    pub agent_name: String,
    /// The blueprint as JSON; null outside a run.
    pub agent_blueprint: Value,
    /// The parameters of the run; null outside a run.
    pub parameters: Value,
    /// The working folder of the run; empty outside a run.
    pub project_dir: String,
    /// Whether the program was already called in this session. Sent as `mode: resume`.
    pub resumed: bool,
}

/// Receives the progress of a call. All methods do nothing by default.
pub trait Watch: Send + Sync {
    /// Reports the approximate number of tokens of the current reply so far.
    fn tokens(&self, total: u64) {
        let _ = total;
    }
    /// Reports the next piece of the reply's text. The API key is redacted.
    ///
    /// After [`Watch::waiting`] the reply starts again from the beginning.
    fn text(&self, piece: &str) {
        let _ = piece;
    }
    /// Reports the next piece of the arguments of tool calls, as [`Watch::text`] does. The arguments of each call start a new
    /// line.
    fn arguments(&self, piece: &str) {
        let _ = piece;
    }
    /// Reports that an attempt failed and that the next one starts after `wait`.
    fn waiting(&self, wait: Duration, error: &Error) {
        let _ = (wait, error);
    }
}

impl Watch for () {}

/// Creates a backend from its settings. `environment` returns the value of an environment variable.
///
/// No connection is opened before the first call.
///
/// # Errors
/// Fails if a setting is invalid, the variable of the key is not set, or the kind is `embedded`, which
/// `slipform-embedded` implements.
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
            Arc::new(command::CommandBackend::new(config, secret, environment, Path::new(".")))
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

/// Returns the error for a request with images to a backend that takes only text.
pub fn refused_images(request: &Request, backend: &str) -> Option<Error> {
    let has_image = request.messages.iter().any(slipform_types::Message::has_image);
    has_image.then(|| Error::Rejected {
        status: 400,
        message: format!("backends of {backend} take no images; send text, or name another backend"),
    })
}

/// Reads and checks the API key. Messages name the variable and never show its value.
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
            "the variable {variable} contains characters that HTTP headers do not allow; export the key alone, on \
             one line"
        )));
    }
    Ok(secret::Secret::new(Some(key)))
}
