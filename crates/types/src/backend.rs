//! Properties of a backend from which the engine selects a strategy.

use serde::{Deserialize, Serialize};

/// The protocol of a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BackendKind {
    /// Chat completions: OpenAI, LM Studio, Ollama, vLLM, llama.cpp and many others.
    #[serde(rename = "openai")]
    OpenAi,
    /// The older `/v1/completions` API.
    Completions,
    /// Anthropic's messages API.
    Anthropic,
    /// The in-process model.
    Embedded,
    /// A program that reads an invocation on stdin and writes its answer to stdout.
    Command,
    /// Recorded replies from a file, in order.
    Replay,
}

impl BackendKind {
    /// Returns the name used in `slipform.toml`.
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

/// The configured method for structured output.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StructuredOutput {
    /// Selected by the backend's capabilities.
    #[default]
    Auto,
    /// `response_format: json_schema`.
    JsonSchema,
    /// `response_format: json_object`.
    JsonObject,
    /// A forced tool call.
    Tool,
    /// Instructions in the prompt only.
    Prompt,
    /// The server enforces the universal response on every reply; the contract is nested inside it.
    Universal,
}

/// The level of support for a feature, as measured by a probe.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Support {
    /// The feature was never probed.
    #[default]
    Unknown,
    /// The backend refuses the request.
    Refused,
    /// The backend accepts the request and ignores the feature.
    Ignored,
    /// The reply has the requested format, but violates constraints.
    Accepted,
    /// The reply satisfies the constraints even if the prompt contradicts them.
    Enforced,
}

impl Support {
    /// Returns the name shown in tables.
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

/// The measured capabilities of a backend (`slipform probe`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Capabilities {
    /// `response_format: json_schema`.
    pub json_schema: Support,
    /// `response_format: json_object` with a schema.
    pub json_object: Support,
    /// Tools that the model may call.
    pub tools: Support,
    /// A tool that the model must call.
    pub forced_tools: Support,
}

/// The properties of a backend that the engine knows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BackendInfo {
    /// The name in the configuration.
    pub name: String,
    /// The protocol of the backend.
    pub kind: BackendKind,
    /// The model that requests name.
    pub model: String,
    /// The configured method for structured output.
    #[serde(default)]
    pub structured_output: StructuredOutput,
    /// The name of the `slipform_schema::Dialect` that the backend enforces.
    pub dialect: String,
    /// The measured capabilities; unknown until probed.
    #[serde(default)]
    pub capabilities: Capabilities,
    /// Whether the model is small. A small model repeats a raw JSON Schema instead of answering.
    #[serde(default)]
    pub small: bool,
    /// The most tokens in one reply; `None` if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
}

/// One rung of the escalation ladder: a tier and its backend.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TierBackend {
    /// The tier's name; `default` if the agent names none.
    pub tier: String,
    /// The backend that the tier maps to.
    pub backend: BackendInfo,
    /// Whether the backend is used only when the one before cannot be reached, and not when the answers of that one do not
    /// meet their contract.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_fallback: bool,
}

impl TierBackend {
    /// Creates the rung of a tier.
    pub fn new(tier: impl Into<String>, backend: BackendInfo) -> TierBackend {
        TierBackend { tier: tier.into(), backend, is_fallback: false }
    }
}
