//! Arguments of `slipform token`.

use clap::{Args, Subcommand};

#[derive(Debug, Args)]
pub(crate) struct Token {
    /// Database of the coordinator: a file, sqlite:FILE or postgres://… [env: SLIPFORM_DB] [default:
    /// .slipform/slipform.db]
    #[arg(long, value_name = "URL", global = true)]
    pub(crate) db: Option<String>,
    #[command(subcommand)]
    pub(crate) command: TokenCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Create a token and print it once
    Create {
        /// Name of the token, such as its purpose
        name: String,
        /// Scope: admin, caller or runner
        #[arg(long, value_name = "SCOPE", default_value = "caller")]
        scope: String,
        /// Agents that the token may run, separated by commas; default: all
        #[arg(long, value_name = "NAMES", value_delimiter = ',')]
        agents: Vec<String>,
        /// Time until the token expires, such as 30d, 12h or 90m; default: never
        #[arg(long, value_name = "TIME")]
        expires: Option<String>,
        /// Let a caller read and stop the runs of others too
        #[arg(long)]
        all: bool,
        /// Requests per minute that the gateway accepts; default: no limit
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
        rpm: Option<u32>,
        /// Tokens per minute after which the gateway refuses requests; default: no limit
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
        tpm: Option<u32>,
        /// Print the token as JSON
        #[arg(long)]
        json: bool,
    },
    /// List tokens without their secrets
    List {
        /// Print the list as JSON
        #[arg(long)]
        json: bool,
    },
    /// Revoke a token
    Revoke {
        /// Token id, tok_…
        id: String,
    },
}
