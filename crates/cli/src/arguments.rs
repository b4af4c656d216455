//! Defines the command line: commands, flags and their help texts.

mod examples;
mod token;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use slipform_extract::{Mode, Options, TEXT_BYTES_MAX};
use slipform_types::{Correction, OptionsPatch, SchemaForm, Strategy, ValidationMode};

use examples::{
    CHECK_EXAMPLES, MCP_EXAMPLES, MODEL_EXAMPLES, ORCHESTRATE_EXAMPLES, RUN_EXAMPLES, RUNNER_EXAMPLES,
    SERVE_EXAMPLES, STATS_EXAMPLES,
};

pub(crate) use token::{Token, TokenCommand};

/// Runs AI agents whose output satisfies a JSON Schema, or returns a typed failure
#[derive(Debug, Parser)]
#[command(name = "slipform", version, propagate_version = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

impl Command {
    /// Returns the database that `--db` names.
    pub(crate) fn database(&self) -> Option<&str> {
        match self {
            Command::Serve(serve) => serve.db.as_deref(),
            Command::Token(token) => token.db.as_deref(),
            Command::Backup(backup) => backup.db.as_deref(),
            _ => None,
        }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run an agent and print its result
    #[command(after_help = RUN_EXAMPLES)]
    Run(Box<Run>),
    /// Run a task with a team of agents: plan, subtasks, summary
    #[command(after_help = ORCHESTRATE_EXAMPLES)]
    Orchestrate(Orchestrate),
    /// Extract JSON from a text, validate it and print it, without a model
    #[command(after_help = CHECK_EXAMPLES)]
    Check(Check),
    /// List, show, validate and create agents
    Agents(Agents),
    /// List, show, add, remove and check schemas
    Schemas(Schemas),
    /// List, show, resume, stop and delete sessions
    Sessions(Sessions),
    /// List, show and stop runs
    Runs(Runs),
    /// Show success, retries, tokens and durations per agent and backend
    #[command(after_help = STATS_EXAMPLES)]
    Stats(Stats),
    /// Serve the HTTP API, with a runner in the same process
    #[command(after_help = SERVE_EXAMPLES)]
    Serve(Serve),
    /// Execute runs for a coordinator on another machine
    #[command(after_help = RUNNER_EXAMPLES)]
    Runner(Runner),
    /// Serve agents as tools to an MCP client on standard input and output
    #[command(after_help = MCP_EXAMPLES)]
    Mcp(crate::mcp::Mcp),
    /// Copy the database to a file while it is in use
    Backup(crate::backup::Backup),
    /// Create, list and revoke API tokens
    Token(Token),
    /// Test which schema features a backend enforces
    Probe(Probe),
    /// Fetch and list the weights of the embedded model
    #[command(after_help = MODEL_EXAMPLES)]
    Model(Model),
}

#[derive(Debug, Default, Args)]
pub(crate) struct Run {
    /// Agent name from agents/, or a file
    #[arg(value_name = "AGENT")]
    pub(crate) agent: String,

    /// Prompt for the agent; `-` reads standard input
    #[arg(short, long, value_name = "PROMPT")]
    pub(crate) prompt: Option<String>,

    /// Parameter of the agent; parsed as JSON unless the agent expects text
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) param: Vec<String>,

    /// JSON file with parameters
    #[arg(long, value_name = "FILE")]
    pub(crate) params: Option<PathBuf>,

    /// Output schema: a file, or a name from schemas/
    #[arg(long, value_name = "FILE|NAME")]
    pub(crate) schema: Option<String>,

    /// Retries when a reply violates the schema
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=10))]
    pub(crate) max_retries: Option<u32>,

    /// Changes allowed in a reply: `strict` repairs syntax, `lenient` also coerces values
    #[arg(long, value_enum)]
    pub(crate) mode: Option<ModeName>,

    /// Accept only replies that are exactly one RFC 8259 document
    #[arg(long)]
    pub(crate) strict_json_only: bool,

    /// Strategy for asking the model for JSON
    #[arg(long, value_enum)]
    pub(crate) strategy: Option<StrategyName>,

    /// Content of a retry: the full result or a patch
    #[arg(long, value_enum)]
    pub(crate) correction: Option<CorrectionName>,

    /// Form of the schema in the prompt
    #[arg(long, value_enum)]
    pub(crate) schema_form: Option<FormName>,

    /// Reject results that contain only placeholders after a failed attempt
    #[arg(long)]
    pub(crate) reject_placeholders: bool,

    /// Exit with 1 if the result is a universal response that is FAIL, PARTIAL or an error
    #[arg(long)]
    pub(crate) gate: bool,

    #[command(flatten)]
    pub(crate) target: RunTarget,

    #[command(flatten)]
    pub(crate) printing: Printing,

    /// Whether the agent must be an orchestrator; set by `slipform orchestrate`.
    #[arg(skip)]
    pub(crate) needs_orchestrator: bool,
}

/// The backend, limits, session and coordinator of a run.
#[derive(Debug, Default, Args)]
pub(crate) struct RunTarget {
    /// Backend to use for all tiers
    #[arg(long, value_name = "NAME")]
    pub(crate) backend: Option<String>,

    /// Model to ask instead of the backend's configured one
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,

    /// Most tokens in a reply, instead of the agent's limit
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) max_tokens: Option<u32>,

    /// Time limit of the run in seconds, instead of the agent's
    #[arg(long, value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) timeout: Option<u32>,

    /// Session to resume
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,

    /// Resume the session with its agent as it is defined now
    #[arg(long, requires = "session")]
    pub(crate) refresh_agent: bool,

    /// Coordinator URL [env: SLIPFORM_URL]; default: run in this process
    #[arg(long, value_name = "URL")]
    pub(crate) server: Option<String>,
}

/// The output format of a finished run.
#[derive(Debug, Default, Args)]
pub(crate) struct Printing {
    /// Print {"result", "receipt"}: the result and its receipt
    #[arg(long, conflicts_with = "json")]
    pub(crate) receipt: bool,

    /// Print the whole run as JSON, also if it failed
    #[arg(long)]
    pub(crate) json: bool,

    /// Print the result as formatted text instead of JSON
    #[arg(long, conflicts_with_all = ["json", "receipt"])]
    pub(crate) pretty: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Orchestrate {
    /// Task to do; `-` reads standard input
    #[arg(short, long, value_name = "TASK")]
    pub(crate) task: String,

    /// Orchestrator: an agent name from agents/, or a file
    #[arg(long, value_name = "AGENT", default_value = "orchestrator")]
    pub(crate) agent: String,

    /// Schema of the summary: a file, or a name from schemas/
    #[arg(long, value_name = "FILE|NAME")]
    pub(crate) schema: Option<String>,

    #[command(flatten)]
    pub(crate) target: RunTarget,

    #[command(flatten)]
    pub(crate) printing: Printing,
}

impl From<Orchestrate> for Run {
    fn from(orchestrate: Orchestrate) -> Run {
        Run {
            needs_orchestrator: true,
            agent: orchestrate.agent,
            prompt: Some(orchestrate.task),
            schema: orchestrate.schema,
            target: orchestrate.target,
            printing: orchestrate.printing,
            ..Run::default()
        }
    }
}

impl Run {
    /// Returns the contract options that the command line sets; unset ones keep the agent's value.
    pub(crate) fn options(&self) -> OptionsPatch {
        OptionsPatch {
            max_retries: self.max_retries,
            strict_json_only: self.strict_json_only.then_some(true),
            validation_mode: self.mode.map(|mode| match mode {
                ModeName::Strict => ValidationMode::Strict,
                ModeName::Lenient => ValidationMode::Lenient,
            }),
            strategy: self.strategy.map(|strategy| match strategy {
                StrategyName::Auto => Strategy::Auto,
                StrategyName::Prompt => Strategy::Prompt,
                StrategyName::SystemPrompt => Strategy::SystemPrompt,
                StrategyName::Tool => Strategy::Tool,
                StrategyName::Native => Strategy::Native,
            }),
            correction: self.correction.map(|correction| match correction {
                CorrectionName::Auto => Correction::Auto,
                CorrectionName::Full => Correction::Full,
                CorrectionName::Patch => Correction::Patch,
            }),
            schema_form: self.schema_form.map(|form| match form {
                FormName::Auto => SchemaForm::Auto,
                FormName::Json => SchemaForm::Json,
                FormName::Compact => SchemaForm::Compact,
            }),
            reject_placeholders: self.reject_placeholders.then_some(true),
            extract_json: None,
        }
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum StrategyName {
    Auto,
    Prompt,
    SystemPrompt,
    Tool,
    Native,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum CorrectionName {
    Auto,
    Full,
    Patch,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum FormName {
    Auto,
    Json,
    Compact,
}

#[derive(Debug, Args)]
pub(crate) struct Agents {
    #[command(subcommand)]
    pub(crate) command: AgentsCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AgentsCommand {
    /// List agents and their problems
    List {
        /// Coordinator URL [env: SLIPFORM_URL]; default: the files of this project
        #[arg(long, value_name = "URL")]
        server: Option<String>,
        /// Print the list as JSON
        #[arg(long)]
        json: bool,
    },
    /// Show the parameters, result and tools of an agent
    Show {
        /// Agent name
        name: String,
        /// Coordinator URL [env: SLIPFORM_URL]; default: the files of this project
        #[arg(long, value_name = "URL")]
        server: Option<String>,
        /// Print the blueprint as JSON
        #[arg(long)]
        json: bool,
    },
    /// Check agent files: the given ones, or all in agents/
    Validate {
        /// Agent files, or folders with an agent.yaml
        #[arg(value_name = "FILE")]
        files: Vec<PathBuf>,
        /// Print the report as JSON
        #[arg(long)]
        json: bool,
    },
    /// Create an agent file to start from
    Init {
        /// Agent name
        name: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Probe {
    /// Backend name [default: the default backend]
    #[arg(value_name = "BACKEND")]
    pub(crate) backend: Option<String>,
    /// Print the verdict as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Check {
    /// File with the text; standard input if omitted or `-`
    #[arg(value_name = "FILE", conflicts_with = "jsonl")]
    pub(crate) file: Option<PathBuf>,

    /// Schema to validate against: a file, or a name from schemas/
    #[arg(long, value_name = "FILE|NAME")]
    pub(crate) schema: Option<String>,

    /// Changes allowed in the text: `strict` repairs syntax without changing data, `lenient` also completes
    /// cut-off text and coerces values to the schema
    #[arg(long, value_enum, default_value_t = ModeName::Strict)]
    pub(crate) mode: ModeName,

    /// Accept only a text that is exactly one RFC 8259 document
    #[arg(long)]
    pub(crate) strict_json_only: bool,

    /// Print {"result", "receipt"}: the JSON and every change made to it
    #[arg(long, conflicts_with = "jsonl")]
    pub(crate) receipt: bool,

    /// Check many texts, one {"id", "text", "schema"?} per line; `-` reads standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) jsonl: Option<PathBuf>,

    /// Maximum length of the text in bytes
    #[arg(long, value_name = "N", default_value_t = TEXT_BYTES_MAX)]
    pub(crate) max_bytes: usize,
}

impl Check {
    /// Returns the extraction options that the command line sets.
    pub(crate) fn options(&self) -> Options {
        Options {
            mode: match self.mode {
                ModeName::Strict => Mode::Strict,
                ModeName::Lenient => Mode::Lenient,
            },
            strict_json_only: self.strict_json_only,
            text_bytes_max: self.max_bytes,
            ..Options::default()
        }
    }
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum ModeName {
    Strict,
    Lenient,
}

#[derive(Debug, Args)]
pub(crate) struct Schemas {
    /// Coordinator URL [env: SLIPFORM_URL]; default: the registry of this project
    #[arg(long, value_name = "URL", global = true)]
    pub(crate) server: Option<String>,
    #[command(subcommand)]
    pub(crate) command: SchemasCommand,
}

#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// Address and port to listen on [default: 127.0.0.1:8765]
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) listen: Option<String>,
    /// Database: a file, sqlite:FILE or postgres://… [env: SLIPFORM_DB] [default: .slipform/slipform.db]
    #[arg(long, value_name = "URL")]
    pub(crate) db: Option<String>,
    /// Maximum time to wait for PostgreSQL at start; 0 does not wait [default: no limit]
    #[arg(long, value_name = "SECONDS")]
    pub(crate) db_wait: Option<u32>,
    /// Do not start a runner in this process
    #[arg(long)]
    pub(crate) no_runner: bool,
    /// Open the dashboard in a browser
    #[arg(long)]
    pub(crate) open: bool,
    /// Serve recorded runs from memory, to look around; leaves this folder unchanged
    #[arg(long, conflicts_with_all = ["db", "no_runner"])]
    pub(crate) demo: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Runner {
    /// Coordinator URL [env: SLIPFORM_URL]
    #[arg(long, value_name = "URL")]
    pub(crate) coordinator: Option<String>,
    /// Maximum number of concurrent runs
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) slots: u32,
    /// Name of the runner [default: the host name]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Sessions {
    /// Coordinator URL [env: SLIPFORM_URL]; default: the runs of this project
    #[arg(long, value_name = "URL", global = true)]
    pub(crate) server: Option<String>,
    #[command(subcommand)]
    pub(crate) command: SessionsCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SessionsCommand {
    /// List sessions, newest first
    List {
        /// Maximum number of rows
        #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=500))]
        limit: u16,
        /// Print the list as JSON
        #[arg(long)]
        json: bool,
    },
    /// Show the status of a session
    Show {
        /// Session id, ses_…
        id: String,
        /// Print the session as JSON
        #[arg(long)]
        json: bool,
    },
    /// Print the result of a session's latest run
    Result {
        /// Session id, ses_…
        id: String,
        /// Print the result with receipt and validation as JSON
        #[arg(long)]
        json: bool,
        /// Print the result as formatted text instead of JSON
        #[arg(long, conflicts_with = "json")]
        pretty: bool,
    },
    /// Print a session's journal
    Events {
        /// Session id, ses_…
        id: String,
        /// Only events after this sequence number
        #[arg(long, value_name = "SEQ", default_value_t = 0)]
        after: i64,
        /// Print one JSON object per line
        #[arg(long)]
        json: bool,
    },
    /// Send another prompt to a session and print the result
    Resume {
        /// Session id, ses_…
        id: String,
        /// Prompt for the agent; `-` reads standard input
        #[arg(short, long, value_name = "PROMPT")]
        prompt: String,
        /// Continue with the agent as it is defined now, instead of as the session has used it so far
        #[arg(long)]
        refresh_agent: bool,
    },
    /// Stop the active run of a session
    Stop {
        /// Session id, ses_…
        id: String,
    },
    /// Delete a session and its child sessions
    Delete {
        /// Session id, ses_…
        id: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Runs {
    /// Coordinator URL [env: SLIPFORM_URL]; default: the runs of this project
    #[arg(long, value_name = "URL", global = true)]
    pub(crate) server: Option<String>,
    #[command(subcommand)]
    pub(crate) command: RunsCommand,
}

#[derive(Debug, Args)]
pub(crate) struct Stats {
    /// Only runs of this agent
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
    /// Print the figures as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Coordinator URL [env: SLIPFORM_URL]; default: the runs of this project
    #[arg(long, value_name = "URL")]
    pub(crate) server: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RunsCommand {
    /// List runs, newest first
    List {
        /// Only runs of this agent
        #[arg(long, value_name = "NAME")]
        agent: Option<String>,
        /// Only runs with this status
        #[arg(long, value_name = "STATUS")]
        status: Option<String>,
        /// Maximum number of rows
        #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=500))]
        limit: u16,
        /// Print the list as JSON
        #[arg(long)]
        json: bool,
    },
    /// Show the status of a run
    Show {
        /// Run id, run_…
        id: String,
        /// Print the run as JSON
        #[arg(long)]
        json: bool,
    },
    /// Stop a run
    Stop {
        /// Run id, run_…
        id: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum SchemasCommand {
    /// List schemas: files in schemas/ and added ones
    List {
        /// Print the list as JSON
        #[arg(long)]
        json: bool,
    },
    /// Show a registered schema in compact form
    Show {
        /// Schema name
        name: String,
        /// Print the schema with its hash and source as JSON
        #[arg(long)]
        json: bool,
    },
    /// Register a schema; a registered schema is immutable
    Add {
        /// Schema name
        name: String,
        /// File with the schema; `-` reads standard input
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// What the schema is for
        #[arg(long, value_name = "TEXT")]
        description: Option<String>,
    },
    /// Remove a schema from the registry; existing runs keep it
    Remove {
        /// Schema name
        name: String,
    },
    /// Print a registered schema unchanged
    Export {
        /// Schema name
        name: String,
    },
    /// Compile schemas and report errors and likely mistakes
    Check {
        /// Files, or names from schemas/
        #[arg(required = true, value_name = "FILE|NAME")]
        schemas: Vec<String>,
        /// Print the report as JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Args)]
#[cfg_attr(not(feature = "embedded"), allow(dead_code, reason = "without the feature no code reads it"))]
pub(crate) struct Model {
    #[command(subcommand)]
    pub(crate) command: ModelCommand,
}

#[derive(Debug, Subcommand)]
#[cfg_attr(not(feature = "embedded"), allow(dead_code, reason = "without the feature no code reads it"))]
pub(crate) enum ModelCommand {
    /// Fetch the default weights, verify them and print their path
    Pull {
        /// Fetch them again if they are present
        #[arg(long)]
        force: bool,
    },
    /// List the weights on this machine; `*` marks those in use
    List {
        /// Print the list as JSON
        #[arg(long)]
        json: bool,
    },
}
