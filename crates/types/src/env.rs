//! Every environment variable that Slipform reads by name.
//!
//! `docs/reference/environment.md` lists the same variables; a test compares the two.

/// URL of the coordinator that commands and runners use; unset, commands run in their own process.
pub const SLIPFORM_URL: &str = "SLIPFORM_URL";

/// API token that commands and runners send to the coordinator.
pub const SLIPFORM_TOKEN: &str = "SLIPFORM_TOKEN";

/// PEM file with certificates of authorities to trust for the coordinator, besides those of the system.
pub const SLIPFORM_CA: &str = "SLIPFORM_CA";

/// Database of the coordinator: a file, `sqlite:FILE` or `postgres://…`.
pub const SLIPFORM_DB: &str = "SLIPFORM_DB";

/// Log level on standard error: `off`, `error`, `warn`, `info`, `debug` or `trace`.
pub const SLIPFORM_LOG: &str = "SLIPFORM_LOG";

/// GGUF file that the embedded model uses instead of the default weights.
pub const SLIPFORM_MODEL: &str = "SLIPFORM_MODEL";

/// Folder for downloaded weights.
pub const SLIPFORM_MODEL_DIR: &str = "SLIPFORM_MODEL_DIR";

/// URL of a chat completions server; defines the backend `openai`.
pub const OPENAI_BASE_URL: &str = "OPENAI_BASE_URL";

/// Key of the backend `openai`; without a URL it selects OpenAI's API.
pub const OPENAI_API_KEY: &str = "OPENAI_API_KEY";

/// Model of the backend `openai`.
pub const OPENAI_MODEL: &str = "OPENAI_MODEL";

/// URL of a messages API server; defines the backend `anthropic`.
pub const ANTHROPIC_BASE_URL: &str = "ANTHROPIC_BASE_URL";

/// Key of the backend `anthropic`; without a URL it selects Anthropic's API.
pub const ANTHROPIC_API_KEY: &str = "ANTHROPIC_API_KEY";

/// Model of the backend `anthropic`.
pub const ANTHROPIC_MODEL: &str = "ANTHROPIC_MODEL";

/// Host, host and port, or URL of an Ollama server; defines the backend `ollama`.
pub const OLLAMA_HOST: &str = "OLLAMA_HOST";

/// Model of the backend `ollama`.
pub const OLLAMA_MODEL: &str = "OLLAMA_MODEL";

/// Password of the PostgreSQL database.
pub const PGPASSWORD: &str = "PGPASSWORD";

/// Password file for the PostgreSQL database.
pub const PGPASSFILE: &str = "PGPASSFILE";

/// Default of the contract option `max_retries`, 0 to 10.
pub const SCHEMA_ENFORCEMENT_MAX_RETRIES: &str = "SCHEMA_ENFORCEMENT_MAX_RETRIES";

/// Default of the contract option `extract_json`: `true` or `false`.
pub const SCHEMA_ENFORCEMENT_EXTRACT_JSON: &str = "SCHEMA_ENFORCEMENT_EXTRACT_JSON";

/// OpenTelemetry collector; setting it turns span export on.
pub const OTEL_EXPORTER_OTLP_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

/// OpenTelemetry collector for traces only.
pub const OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";

/// Any value turns color off.
pub const NO_COLOR: &str = "NO_COLOR";

/// The value `dumb` turns color off.
pub const TERM: &str = "TERM";

/// Default name of a runner.
pub const HOSTNAME: &str = "HOSTNAME";

/// Cache folder on Linux; must be absolute.
pub const XDG_CACHE_HOME: &str = "XDG_CACHE_HOME";

/// Cache folder on Windows.
pub const LOCALAPPDATA: &str = "LOCALAPPDATA";

/// Base of the default cache folder; passed to programs.
pub const HOME: &str = "HOME";

/// Search path for programs; passed to programs.
pub const PATH: &str = "PATH";

/// Language; passed to programs.
pub const LANG: &str = "LANG";

/// Folder for temporary files; passed to programs.
pub const TMPDIR: &str = "TMPDIR";

/// All of them.
pub const ALL: [&str; 30] = [
    SLIPFORM_URL,
    SLIPFORM_TOKEN,
    SLIPFORM_CA,
    SLIPFORM_DB,
    SLIPFORM_LOG,
    SLIPFORM_MODEL,
    SLIPFORM_MODEL_DIR,
    OPENAI_BASE_URL,
    OPENAI_API_KEY,
    OPENAI_MODEL,
    ANTHROPIC_BASE_URL,
    ANTHROPIC_API_KEY,
    ANTHROPIC_MODEL,
    OLLAMA_HOST,
    OLLAMA_MODEL,
    PGPASSWORD,
    PGPASSFILE,
    SCHEMA_ENFORCEMENT_MAX_RETRIES,
    SCHEMA_ENFORCEMENT_EXTRACT_JSON,
    OTEL_EXPORTER_OTLP_ENDPOINT,
    OTEL_EXPORTER_OTLP_TRACES_ENDPOINT,
    NO_COLOR,
    TERM,
    HOSTNAME,
    XDG_CACHE_HOME,
    LOCALAPPDATA,
    HOME,
    PATH,
    LANG,
    TMPDIR,
];
