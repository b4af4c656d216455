//! What `slipform.toml` says of a backend.

use std::time::Duration;

use serde::Deserialize;
use slipform_schema::Dialect;
use slipform_types::{BackendInfo, BackendKind, Capabilities, StructuredOutput};

use crate::error::Error;

/// One table `[backends.NAME]`.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BackendConfig {
    /// The table's name.
    #[serde(skip)]
    pub name: String,
    /// The protocol.
    pub kind: BackendKind,
    /// Where it answers; each kind has a default.
    #[serde(default)]
    pub base_url: Option<String>,
    /// The model to ask for.
    #[serde(default)]
    pub model: Option<String>,
    /// The variable that holds the key.
    #[serde(default)]
    pub api_key_env: Option<String>,
    /// How to ask for structured output.
    #[serde(default)]
    pub structured_output: StructuredOutput,
    /// Whose rules for schemas the server follows; told from the address or the probe when left out.
    #[serde(default)]
    pub dialect: Option<String>,
    /// The longest one try of a call may take; after it no other try begins.
    #[serde(default = "timeout_seconds")]
    pub timeout_seconds: f64,
    /// The longest a connection may take.
    #[serde(default = "connect_timeout_seconds")]
    pub connect_timeout_seconds: f64,
    /// The longest silence once a reply has begun.
    #[serde(default = "idle_timeout_seconds")]
    pub idle_timeout_seconds: f64,
    /// The most calls at the same time.
    #[serde(default = "max_concurrency")]
    pub max_concurrency: usize,
    /// How often a call is repeated when the backend is away or overloaded.
    #[serde(default = "max_attempts_again")]
    pub retries: u32,
    /// The first wait between two tries; doubled each time.
    #[serde(default = "retry_base_seconds")]
    pub retry_base_seconds: f64,
    /// Sampling temperature; the server's default when left out.
    #[serde(default)]
    pub temperature: Option<f64>,
    /// Sampling seed.
    #[serde(default)]
    pub seed: Option<u64>,
    /// The most tokens the model writes in one reply.
    #[serde(default)]
    pub max_tokens: Option<u32>,
    /// Threads of an `embedded` backend; one less than the processor has when left out.
    #[serde(default)]
    pub threads: Option<usize>,
    /// The program of a `command` backend and its arguments.
    #[serde(default)]
    pub command: Vec<String>,
    /// Variables that a `command` backend's program may see besides PATH, HOME, LANG and TMPDIR.
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

fn max_attempts_again() -> u32 {
    3
}

fn retry_base_seconds() -> f64 {
    0.5
}

/// No wait in the settings may be longer; a larger figure is a mistake in units.
const SECONDS_MAX: f64 = 86_400.0;

/// The most threads that share one model's arithmetic.
const THREADS_MAX: usize = 256;

impl BackendConfig {
    /// A backend with everything at its default.
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
            retries: max_attempts_again(),
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

    /// Everything that cannot work, each with its key.
    pub fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let mut complain =
            |key: &str, what: &str| problems.push(format!("backends.{}.{key}: {what}", self.name));
        for (key, seconds) in [
            ("timeout_seconds", self.timeout_seconds),
            ("connect_timeout_seconds", self.connect_timeout_seconds),
            ("idle_timeout_seconds", self.idle_timeout_seconds),
        ] {
            if !(seconds > 0.0 && seconds <= SECONDS_MAX) {
                complain(key, "must be more than 0 and at most 86400 seconds");
            }
        }
        if !(0.0..=SECONDS_MAX).contains(&self.retry_base_seconds) {
            complain("retry_base_seconds", "must be from 0 to 86400 seconds");
        }
        if self.max_concurrency == 0 || self.max_concurrency > 10_000 {
            complain("max_concurrency", "must be from 1 to 10000");
        }
        if self.retries > 20 {
            complain("retries", "must be at most 20");
        }
        if self.max_tokens == Some(0) {
            complain("max_tokens", "must be at least 1");
        }
        if self.threads.is_some_and(|threads| !(1..=THREADS_MAX).contains(&threads)) {
            complain("threads", "must be from 1 to 256");
        }
        if self.threads.is_some() && self.kind != BackendKind::Embedded {
            complain("threads", "belongs to backends of kind \"embedded\"");
        }
        if self.temperature.is_some_and(|temperature| !(0.0..=2.0).contains(&temperature)) {
            complain("temperature", "must be from 0 to 2");
        }
        if let Some(dialect) = &self.dialect
            && dialect.parse::<Dialect>().is_err()
        {
            complain("dialect", "must be openai, anthropic, lmstudio, ollama, llama.cpp, vllm or generic");
        }
        if (self.kind == BackendKind::Command) == self.command.is_empty() {
            let what = "belongs to backends of kind \"command\", which need it";
            complain("command", what);
        }
        if (self.kind == BackendKind::Replay) != self.replies.is_some() {
            complain("replies", "belongs to backends of kind \"replay\", which need it");
        }
        if self.api_key_env.as_deref().is_some_and(|name| !is_variable_name(name)) {
            // What was written may be the key itself, so it is not repeated.
            complain(
                "api_key_env",
                "must be the name of a variable that holds the key, such as OPENAI_API_KEY",
            );
        }
        if let Err(error) = self.url() {
            complain("base_url", &error.to_string());
        }
        problems
    }

    /// Where the backend answers, without a slash at the end.
    pub fn url(&self) -> Result<String, Error> {
        let url = match (&self.base_url, self.kind) {
            (Some(url), _) => url.trim().trim_end_matches('/').to_owned(),
            (None, BackendKind::Anthropic) => "https://api.anthropic.com".to_owned(),
            (None, BackendKind::OpenAi | BackendKind::Completions) => "https://api.openai.com/v1".to_owned(),
            (None, BackendKind::Embedded | BackendKind::Command | BackendKind::Replay) => {
                return Ok(String::new());
            }
        };
        // Whatever is wrong with it, an address that may hold a password is not repeated.
        let shown = if url.contains(['@', '?']) { "it".to_owned() } else { format!("'{url}'") };
        let refused = |problem: String| Err(Error::Settings(problem));
        let parsed = match reqwest::Url::parse(&url) {
            Ok(parsed) => parsed,
            Err(error) => return refused(format!("{shown} is not an address ({error})")),
        };
        if !matches!(parsed.scheme(), "http" | "https") || parsed.host_str().is_none() {
            return refused(format!("{shown} does not begin with http:// or https://"));
        }
        if !parsed.username().is_empty() || parsed.password().is_some() {
            let message =
                "must not hold a name or password; put the key into a variable and name it in api_key_env";
            return refused(message.to_owned());
        }
        if parsed.query().is_some() || parsed.fragment().is_some() {
            return refused("must end with its path: paths are added to it".to_owned());
        }
        Ok(url)
    }

    /// What the engine is told of the backend.
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

/// The longest name of a variable that has small letters and digits. Longer ones are keys by mistake.
const MIXED_NAME_CHARACTERS_MAX: usize = 24;

/// Whether a text can be the name of a variable, and does not look like a key.
fn is_variable_name(text: &str) -> bool {
    let is_name = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && text.bytes().next().is_some_and(|byte| !byte.is_ascii_digit());
    let is_mixed =
        text.bytes().any(|byte| byte.is_ascii_lowercase()) && text.bytes().any(|byte| byte.is_ascii_digit());
    is_name && !(is_mixed && text.len() > MIXED_NAME_CHARACTERS_MAX)
}

/// Whose rules a server follows, from where it answers.
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

/// The largest model, in millions of parameters, that counts as small. Below it models tend to echo a
/// JSON Schema instead of answering it.
const SMALL_MILLIONS_MAX: f64 = 4_000.0;

/// Whether a model's name says that it is small: `SmolLM2-135M`, `llama3.2:1b`.
pub fn is_small(model: &str) -> bool {
    parameters_in_millions(model).is_some_and(|millions| millions <= SMALL_MILLIONS_MAX)
}

/// The number of parameters that a model's name tells: digits followed by `m` or `b` at a word's end.
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
    fn the_size_of_a_model_is_read_from_its_name() {
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
    fn addresses_tell_whose_rules_apply() {
        let guess = |url: &str| guess_dialect(BackendKind::OpenAi, url);
        assert_eq!(guess("http://127.0.0.1:1234/v1"), Dialect::LmStudio);
        assert_eq!(guess("http://localhost:11434/v1"), Dialect::Ollama);
        assert_eq!(guess("https://api.openai.com/v1"), Dialect::OpenAi);
        assert_eq!(guess("http://gpu:9000/v1"), Dialect::Generic);
    }

    #[test]
    fn settings_that_cannot_work_are_named() {
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
