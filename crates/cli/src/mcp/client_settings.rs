//! The settings with which MCP clients start or reach the server.

use anyhow::{Context as _, Result};
use clap::ValueEnum;
use serde_json::{Map, Value, json};
use slipform_api::shown_url;

use crate::backends::environment;
use crate::coordinator::TOKEN_VARIABLE;
use crate::exit::Exit;
use crate::output;

/// A client whose settings are known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum ClientName {
    Claude,
    Cursor,
    Vscode,
    Goose,
}

/// The name under which clients list the server.
const NAME: &str = "slipform";

/// The seconds that Goose waits for a call.
const GOOSE_TIMEOUT: u32 = 600;

impl ClientName {
    /// Returns where the settings belong.
    fn place(self) -> &'static str {
        match self {
            ClientName::Claude => "claude_desktop_config.json, or .mcp.json of a project for Claude Code",
            ClientName::Cursor => "~/.cursor/mcp.json, or .cursor/mcp.json of a project",
            ClientName::Vscode => ".vscode/mcp.json of a project",
            ClientName::Goose => "~/.config/goose/config.yaml",
        }
    }

    /// Returns how the client's settings refer to an environment variable.
    fn variable(self, name: &str) -> String {
        match self {
            ClientName::Claude | ClientName::Goose => format!("${{{name}}}"),
            ClientName::Cursor | ClientName::Vscode => format!("${{env:{name}}}"),
        }
    }
}

/// Prints the settings. With `--server`, the client connects to the coordinator itself.
pub(super) fn print(client: ClientName, server: Option<&str>, agents: Option<&[String]>) -> Result<Exit> {
    let text = match server {
        Some(url) => remote(client, url),
        None => local(client, agents)?,
    };
    output::lines([format!("slipform: add this to {}:", client.place())]);
    output::text(&text)?;
    Ok(Exit::Valid)
}

/// Returns settings that start the server for this project.
fn local(client: ClientName, agents: Option<&[String]>) -> Result<String> {
    let program = std::env::current_exe().context("cannot read the path of this program")?;
    let project = std::env::current_dir().context("cannot read the current folder")?;
    let mut words = vec!["mcp".to_owned(), "--project".to_owned(), project.display().to_string()];
    if let Some(agents) = agents {
        words.extend(["--agents".to_owned(), agents.join(",")]);
    }
    let program = program.display().to_string();
    Ok(match client {
        ClientName::Claude | ClientName::Cursor => {
            json_settings("mcpServers", json!({"command": program, "args": words}))
        }
        ClientName::Vscode => {
            json_settings("servers", json!({"type": "stdio", "command": program, "args": words}))
        }
        ClientName::Goose => {
            let settings = json!({"type": "stdio", "cmd": program, "args": words, "envs": {}});
            goose_settings(settings)
        }
    })
}

/// Returns settings that connect to a coordinator.
fn remote(client: ClientName, url: &str) -> String {
    let url = format!("{}/mcp", shown_url(url).trim_end_matches('/'));
    let mut headers = Map::new();
    if environment(TOKEN_VARIABLE).is_some() {
        let token = format!("Bearer {}", client.variable(TOKEN_VARIABLE));
        headers.insert("Authorization".to_owned(), Value::String(token));
    }
    let mut settings = match client {
        ClientName::Claude | ClientName::Vscode => json!({"type": "http", "url": url}),
        ClientName::Cursor => json!({"url": url}),
        ClientName::Goose => json!({"type": "streamable_http", "uri": url}),
    };
    if !headers.is_empty() {
        settings["headers"] = Value::Object(headers);
    }
    match client {
        ClientName::Claude | ClientName::Cursor => json_settings("mcpServers", settings),
        ClientName::Vscode => json_settings("servers", settings),
        ClientName::Goose => goose_settings(settings),
    }
}

fn json_settings(key: &str, settings: Value) -> String {
    format!("{:#}", json!({key: {NAME: settings}}))
}

/// Returns settings in YAML. The values are written as JSON, which is YAML.
fn goose_settings(settings: Value) -> String {
    let mut lines = vec!["extensions:".to_owned(), format!("  {NAME}:")];
    let common = json!({"enabled": true, "name": NAME, "timeout": GOOSE_TIMEOUT});
    for (key, value) in [common, settings].iter().filter_map(Value::as_object).flatten() {
        lines.push(format!("    {key}: {value}"));
    }
    lines.join("\n")
}
