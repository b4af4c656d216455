//! What is known of a backend: enough for the engine to decide how to ask it.

use serde::{Deserialize, Serialize};

/// The protocol a backend speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BackendKind {
    /// Chat completions: OpenAI, LM Studio, Ollama, vLLM, llama.cpp and many more.
    #[serde(rename = "openai")]
    OpenAi,
    /// The older `/v1/completions`.
    Completions,
    /// Anthropic's messages API.
    Anthropic,
    /// The model inside this process.
    Embedded,
    /// A program that takes an invocation on stdin and answers on stdout.
    Command,
    /// Recorded replies from a file, in order.
    Replay,
}

impl BackendKind {
    /// The name used in `slipform.toml`.
    pub fn name(self) -> &'static str {
        match self {
            BackendKind::OpenAi => "openai",
            BackendKind::Completions => "completions",
            BackendKind::Anthropic => "anthropic",
            BackendKind::Embedded => "embedded",
            BackendKind::Command => "command",
            BackendKind::Replay => "replay",
        }
    }
}

/// How a backend is to be asked for structured output.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StructuredOutput {
    /// By what is known of it.
    #[default]
    Auto,
    /// `response_format: json_schema`.
    JsonSchema,
    /// `response_format: json_object`.
    JsonObject,
    /// A forced tool call.
    Tool,
    /// Words only.
    Prompt,
    /// The server forces the universal response on every reply; the contract travels inside it.
    Universal,
}

/// What a backend does with a feature when it is put to the test.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Support {
    /// Never tried.
    #[default]
    Unknown,
    /// The request is refused.
    Refused,
    /// The request is taken and the feature has no effect.
    Ignored,
    /// The form comes out, its constraints do not hold.
    Accepted,
    /// The constraints hold even where the prompt argues against them.
    Enforced,
}

impl Support {
    /// The word shown in tables.
    pub fn name(self) -> &'static str {
        match self {
            Support::Unknown => "unknown",
            Support::Refused => "refused",
            Support::Ignored => "ignored",
            Support::Accepted => "accepted",
            Support::Enforced => "enforced",
        }
    }
}

/// What a backend really does (`slipform probe`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Capabilities {
    /// `response_format: json_schema`.
    pub json_schema: Support,
    /// `response_format: json_object` with a schema along.
    pub json_object: Support,
    /// Tools the model may call.
    pub tools: Support,
    /// A tool the model has to call.
    pub forced_tools: Support,
}

/// A backend as the engine knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackendInfo {
    /// Its name in the configuration.
    pub name: String,
    /// The protocol it speaks.
    pub kind: BackendKind,
    /// The model it is asked for.
    pub model: String,
    /// How it is to be asked.
    #[serde(default)]
    pub structured_output: StructuredOutput,
    /// Whose rules for schemas it follows (`slipform_schema::Dialect` by name).
    pub dialect: String,
    /// What it was found to do.
    #[serde(default)]
    pub capabilities: Capabilities,
    /// Whether the model is small: shown a raw JSON Schema it would echo it back.
    #[serde(default)]
    pub small: bool,
    /// The most tokens it writes in one reply, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
}

/// A step of the escalation ladder: a tier and the backend it stands for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TierBackend {
    /// The tier's name; `default` where the agent names none.
    pub tier: String,
    /// The backend.
    pub backend: BackendInfo,
}
