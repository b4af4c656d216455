//! The settings of a backend in `slipform.toml`.

use std::time::Duration;

use serde::Deserialize;
use slipform_schema::Dialect;
use slipform_types::{BackendInfo, BackendKind, Capabilities, StructuredOutput};

use crate::error::Error;

/// One table `[backends.NAME]`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackendConfig {
    /// The `NAME` of the table, set by the loader of the file.
    #[serde(skip)]
    pub name: String,
    /// The protocol or runtime, which selects the implementation in [`connect`](crate::connect).
    pub kind: BackendKind,
    /// The base of all request URLs, for example `http://127.0.0.1:1234/v1`. Each HTTP kind has a default.
    #[serde(default)]
    pub base_url: Option<String>,
    /// The model's name on the server, or the path of the weights of an `embedded` backend.
    #[serde(default)]
    pub model: Option<String>,
    /// The name of the environment variable that holds the API key; `None` if no key is needed.
    #[serde(default)]
    pub api_key_env: Option<String>,
    /// The strategy for structured output.
    #[serde(default)]
    pub structured_output: StructuredOutput,
    /// The JSON Schema dialect of the server; derived from the probe or the URL if `None`.
    #[serde(default)]
    pub dialect: Option<String>,
    /// The longest time for one attempt of a call. After it no further attempt starts.
    #[serde(default = "timeout_seconds")]
    pub timeout_seconds: f64,
    /// The longest time to establish a connection.
    #[serde(default = "connect_timeout_seconds")]
    pub connect_timeout_seconds: f64,
    /// The longest pause between two chunks of a reply.
    #[serde(default = "idle_timeout_seconds")]
    pub idle_timeout_seconds: f64,
    /// The most concurrent calls, 1 to 10000. Further calls wait.
    #[serde(default = "max_concurrency")]
    pub max_concurrency: usize,
    /// The most retries of a call while the backend is unreachable or overloaded, at most 20.
    #[serde(default = "retries")]
    pub retries: u32,
    /// The backoff before the first retry, in seconds. It doubles with every retry.
    #[serde(default = "retry_base_seconds")]
    pub retry_base_seconds: f64,
    /// The sampling temperature, 0 to 2; the server's default if `None`.
    #[serde(default)]
    pub temperature: Option<f64>,
    /// The sampling seed; random if `None`.
    #[serde(default)]
    pub seed: Option<u64>,
    /// The most output tokens of one reply, unless the request has its own limit.
    #[serde(default)]
    pub max_tokens: Option<u32>,
    /// The threads of an `embedded` backend, 1 to 256; one less than the number of processors if `None`.
    #[serde(default)]
    pub threads: Option<usize>,
    /// The program of a `command` backend and its arguments; empty for other kinds.
    #[serde(default)]
    pub command: Vec<String>,
    /// Names of variables passed to the program of a `command` backend, besides PATH, HOME, LANG and TMPDIR.
    #[serde(default)]
    pub env: Vec<String>,
    /// The file of a `replay` backend: one reply per line.
    #[serde(default)]
    pub replies: Option<String>,
}

fn timeout_seconds() -> f64 {
    120.0
}

fn connect_timeout_seconds() -> f64 {
    10.0
}

fn idle_timeout_seconds() -> f64 {
    60.0
}

fn max_concurrency() -> usize {
    4
}

fn retries() -> u32 {
    3
}

fn retry_base_seconds() -> f64 {
    0.5
}

/// The longest allowed timeout: one day. A larger number is probably milliseconds.
const SECONDS_MAX: f64 = 86_400.0;

/// The largest allowed value of `threads`.
const THREADS_MAX: usize = 256;

impl BackendConfig {
    /// Creates settings with every optional key at its default.
    pub fn new(name: &str, kind: BackendKind) -> BackendConfig {
        BackendConfig {
            name: name.to_owned(),
            kind,
            base_url: None,
            model: None,
            api_key_env: None,
            structured_output: StructuredOutput::Auto,
            dialect: None,
            timeout_seconds: timeout_seconds(),
            connect_timeout_seconds: connect_timeout_seconds(),
            idle_timeout_seconds: idle_timeout_seconds(),
            max_concurrency: max_concurrency(),
            retries: retries(),
            retry_base_seconds: retry_base_seconds(),
            temperature: None,
            seed: None,
            max_tokens: None,
            threads: None,
            command: Vec::new(),
            env: Vec::new(),
            replies: None,
        }
    }

    /// Returns one message per invalid setting, each beginning with its full key.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let mut report =
            |key: &str, problem: &str| problems.push(format!("backends.{}.{key}: {problem}", self.name));
        for (key, seconds) in [
            ("timeout_seconds", self.timeout_seconds),
            ("connect_timeout_seconds", self.connect_timeout_seconds),
            ("idle_timeout_seconds", self.idle_timeout_seconds),
        ] {
            if !(seconds > 0.0 && seconds <= SECONDS_MAX) {
                report(key, "must be more than 0 and at most 86400 seconds");
            }
        }
        if !(0.0..=SECONDS_MAX).contains(&self.retry_base_seconds) {
            report("retry_base_seconds", "must be from 0 to 86400 seconds");
        }
        if self.max_concurrency == 0 || self.max_concurrency > 10_000 {
            report("max_concurrency", "must be from 1 to 10000");
        }
        if self.retries > 20 {
            report("retries", "must be at most 20");
        }
        if self.max_tokens == Some(0) {
            report("max_tokens", "must be at least 1");
        }
        if self.threads.is_some_and(|threads| !(1..=THREADS_MAX).contains(&threads)) {
            report("threads", "must be from 1 to 256");
        }
        if self.threads.is_some() && self.kind != BackendKind::Embedded {
            report("threads", "is only allowed for kind \"embedded\"");
        }
        if self.temperature.is_some_and(|temperature| !(0.0..=2.0).contains(&temperature)) {
            report("temperature", "must be from 0 to 2");
        }
        if let Some(dialect) = &self.dialect
            && dialect.parse::<Dialect>().is_err()
        {
            report("dialect", "must be openai, anthropic, lmstudio, ollama, llama.cpp, vllm or generic");
        }
        if (self.kind == BackendKind::Command) == self.command.is_empty() {
            report("command", "is required for kind \"command\" and not allowed for other kinds");
        }
        if (self.kind == BackendKind::Replay) != self.replies.is_some() {
            report("replies", "is required for kind \"replay\" and not allowed for other kinds");
        }
        if self.api_key_env.as_deref().is_some_and(|name| !is_variable_name(name)) {
            // The value may be the key itself, so the message does not show it.
            report(
                "api_key_env",
                "must be the name of a variable that holds the key, such as OPENAI_API_KEY",
            );
        }
        if let Err(error) = self.url() {
            report("base_url", &error.to_string());
        }
        problems
    }

    /// Returns the base URL without a trailing slash; empty for kinds without HTTP.
    ///
    /// # Errors
    /// Fails if `base_url` is not an HTTP URL, or has credentials, a query or a fragment.
    pub fn url(&self) -> Result<String, Error> {
        let url = match (&self.base_url, self.kind) {
            (Some(url), _) => url.trim().trim_end_matches('/').to_owned(),
            (None, BackendKind::Anthropic) => "https://api.anthropic.com".to_owned(),
            (None, BackendKind::OpenAi | BackendKind::Completions) => "https://api.openai.com/v1".to_owned(),
            (None, BackendKind::Embedded | BackendKind::Command | BackendKind::Replay) => {
                return Ok(String::new());
            }
        };
        // A URL that may contain a password, and a text that may be a key, are not shown in messages.
        let may_be_key = url.contains(['@', '?']) || !url.contains(['/', ':', '.']);
        let shown = if may_be_key { "the value".to_owned() } else { format!("'{url}'") };
        let refused = |problem: String| Err(Error::Settings(problem));
        let parsed = match reqwest::Url::parse(&url) {
            Ok(parsed) => parsed,
            Err(_) => return refused(format!("{shown} is not a URL; write it as http://HOST:PORT/v1")),
        };
        if !matches!(parsed.scheme(), "http" | "https") || parsed.host_str().is_none() {
            return refused(format!("{shown} does not begin with http:// or https://"));
        }
        if !parsed.username().is_empty() || parsed.password().is_some() {
            let message = "must not contain a user name or password; put the key into a variable and name \
                           the variable in api_key_env";
            return refused(message.to_owned());
        }
        if parsed.query().is_some() || parsed.fragment().is_some() {
            return refused("must not have a query or fragment, because paths are appended to it".to_owned());
        }
        Ok(url)
    }

    /// Returns the description of the backend for the engine.
    ///
    /// The dialect is that of the settings, else `dialect` (from the probe), else a guess from the URL.
    pub fn info(&self, capabilities: Capabilities, dialect: Option<Dialect>) -> BackendInfo {
        let model = self.model.clone().unwrap_or_default();
        let dialect = self
            .dialect
            .as_deref()
            .and_then(|name| name.parse().ok())
            .or(dialect)
            .unwrap_or_else(|| guess_dialect(self.kind, self.base_url.as_deref().unwrap_or_default()));
        BackendInfo {
            name: self.name.clone(),
            kind: self.kind,
            small: is_small(&model),
            model,
            structured_output: self.structured_output,
            dialect: dialect.to_string(),
            capabilities,
            max_tokens: self.max_tokens,
        }
    }

    pub(crate) fn total(&self) -> Duration {
        Duration::from_secs_f64(self.timeout_seconds)
    }

    pub(crate) fn connect(&self) -> Duration {
        Duration::from_secs_f64(self.connect_timeout_seconds)
    }

    pub(crate) fn idle(&self) -> Duration {
        Duration::from_secs_f64(self.idle_timeout_seconds)
    }
}

/// The longest variable name with both lowercase letters and digits. A longer text is probably a key.
const MIXED_NAME_CHARACTERS_MAX: usize = 24;

/// Returns whether a text is a valid variable name and does not look like a key.
fn is_variable_name(text: &str) -> bool {
    let is_name = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && text.bytes().next().is_some_and(|byte| !byte.is_ascii_digit());
    let is_mixed =
        text.bytes().any(|byte| byte.is_ascii_lowercase()) && text.bytes().any(|byte| byte.is_ascii_digit());
    is_name && !(is_mixed && text.len() > MIXED_NAME_CHARACTERS_MAX)
}

/// Guesses the schema dialect of a server from its host and port.
fn guess_dialect(kind: BackendKind, url: &str) -> Dialect {
    match kind {
        BackendKind::Anthropic => return Dialect::Anthropic,
        BackendKind::Embedded | BackendKind::Replay => return Dialect::Generic,
        _ => {}
    }
    let parsed = reqwest::Url::parse(url).ok();
    let host = parsed.as_ref().and_then(|url| url.host_str()).unwrap_or("api.openai.com");
    match parsed.as_ref().and_then(reqwest::Url::port) {
        _ if host == "api.openai.com" || host.ends_with(".openai.azure.com") => Dialect::OpenAi,
        Some(1234) => Dialect::LmStudio,
        Some(11434) => Dialect::Ollama,
        _ => Dialect::Generic,
    }
}

/// The size up to which a model counts as small, in millions of parameters. Small models tend to copy a JSON
/// Schema instead of producing an instance of it.
const SMALL_MILLIONS_MAX: f64 = 4_000.0;

/// Returns whether the model's name contains a small size, such as `SmolLM2-135M` or `llama3.2:1b`.
///
/// A name without a size counts as large.
pub fn is_small(model: &str) -> bool {
    parameters_in_millions(model).is_some_and(|millions| millions <= SMALL_MILLIONS_MAX)
}

/// Parses the parameter count in a model's name: a word of digits followed by `m` or `b`.
fn parameters_in_millions(model: &str) -> Option<f64> {
    let name = model.to_ascii_lowercase();
    name.split(|character: char| !(character.is_ascii_alphanumeric() || character == '.')).find_map(|word| {
        let (unit, digits) = (word.chars().last()?, word.get(..word.len().checked_sub(1)?)?);
        let digits = digits.strip_prefix(['e', 'a']).unwrap_or(digits);
        let number: f64 =
            digits.parse().ok().filter(|_| digits.starts_with(|first: char| first.is_ascii_digit()))?;
        match unit {
            'm' => Some(number),
            'b' => Some(number * 1000.0),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_small_reads_parameter_count_from_model_name() {
        for small in
            ["SmolLM2-135M-Instruct.Q4_1.gguf", "llama3.2:1b", "qwen2.5-0.5b-instruct", "gemma-3-e2b"]
        {
            assert!(is_small(small), "{small}");
        }
        for other in ["gpt-4o", "ministral-3-14b-reasoning", "claude-sonnet-5", "llama-3.1-70b", "", "b", "m"]
        {
            assert!(!is_small(other), "{other}");
        }
    }

    #[test]
    fn guess_dialect_uses_host_and_port() {
        let guess = |url: &str| guess_dialect(BackendKind::OpenAi, url);
        assert_eq!(guess("http://127.0.0.1:1234/v1"), Dialect::LmStudio);
        assert_eq!(guess("http://localhost:11434/v1"), Dialect::Ollama);
        assert_eq!(guess("https://api.openai.com/v1"), Dialect::OpenAi);
        assert_eq!(guess("http://gpu:9000/v1"), Dialect::Generic);
    }

    #[test]
    fn problems_name_the_key_and_hide_passwords() {
        let mut config = BackendConfig::new("mine", BackendKind::OpenAi);
        config.base_url = Some("http://user:pass@host/v1".to_owned());
        config.timeout_seconds = f64::NAN;
        let problems = config.problems();
        assert!(
            problems.iter().any(|line| line.starts_with("backends.mine.timeout_seconds:")),
            "{problems:?}"
        );
        assert!(problems.iter().any(|line| line.contains("api_key_env")), "{problems:?}");
        assert!(!problems.join(" ").contains("pass@"), "{problems:?}");
    }
}
