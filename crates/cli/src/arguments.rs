//! What can be said on the command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use formwork_extract::{Mode, Options, TEXT_BYTES_MAX};

const CHECK_EXAMPLES: &str = "\
Examples:
  formwork check reply.txt                                 JSON out of a model's reply
  formwork check --schema review.json < reply.txt          and it has to satisfy a schema
  formwork check --schema review.json --mode lenient --receipt reply.txt
                                                           repaired and coerced, each change named
  formwork check --jsonl replies.jsonl --schema review.json > verdicts.jsonl

Exit status: 0 valid · 1 found, but not valid · 2 bad usage or schema · 4 no JSON found";

/// Agents whose output is guaranteed: JSON that satisfies its schema, or a clear failure.
#[derive(Debug, Parser)]
#[command(name = "formwork", version, propagate_version = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Extract JSON from a text, validate it and print it; no model is involved
    #[command(after_help = CHECK_EXAMPLES)]
    Check(Check),
    /// Work with schemas
    Schemas(Schemas),
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
    #[command(subcommand)]
    pub(crate) command: SchemasCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SchemasCommand {
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
