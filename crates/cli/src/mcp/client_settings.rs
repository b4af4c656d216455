//! The settings with which MCP clients start or reach the server.

use anyhow::{Context as _, Result};
use clap::ValueEnum;
use serde_json::{Map, Value, json};
use slipform_api::shown_url;

use super::Mcp;
use crate::backends::environment;
use crate::coordinator::{TOKEN_VARIABLE, URL_VARIABLE};
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
    fn place(self, is_remote: bool) -> &'static str {
        match self {
            // Claude Desktop reads only programs from its file.
            ClientName::Claude if is_remote => ".mcp.json of a project for Claude Code",
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

    /// Returns the document with the settings of the server.
    fn document(self, settings: Value) -> String {
        match self {
            ClientName::Claude | ClientName::Cursor => json_settings("mcpServers", settings),
            ClientName::Vscode => json_settings("servers", settings),
            ClientName::Goose => goose_settings(settings),
        }
    }
}

/// Prints the settings. With a coordinator, the client connects to it, unless it sees only some agents: then it starts
/// a program that filters them.
pub(super) fn print(client: ClientName, arguments: &Mcp) -> Result<Exit> {
    let server = arguments.server.clone().or_else(|| environment(URL_VARIABLE).filter(|url| !url.is_empty()));
    let (text, is_remote) = match (&server, &arguments.agents) {
        (Some(url), None) => (remote(client, url), true),
        (url, _) => (program(client, arguments, url.as_deref())?, false),
    };
    output::lines([format!("slipform: add this to {}:", client.place(is_remote))]);
    output::text(&text)?;
    Ok(Exit::Valid)
}

/// Returns settings that start the server, for this project or for a coordinator.
fn program(client: ClientName, arguments: &Mcp, server: Option<&str>) -> Result<String> {
    let program = std::env::current_exe().context("cannot read the path of this program")?;
    let mut words = vec!["mcp".to_owned()];
    let mut variables = Map::new();
    match server {
        Some(url) => {
            words.extend(["--server".to_owned(), shown_url(url)]);
            if environment(TOKEN_VARIABLE).is_some_and(|token| !token.is_empty()) {
                variables.insert(TOKEN_VARIABLE.to_owned(), json!(client.variable(TOKEN_VARIABLE)));
            }
        }
        None => {
            let project = std::env::current_dir().context("cannot read the current folder")?;
            words.extend(["--project".to_owned(), project.display().to_string()]);
        }
    }
    if let Some(agents) = &arguments.agents {
        words.extend(["--agents".to_owned(), agents.join(",")]);
    }
    if let Some(backend) = &arguments.backend {
        words.extend(["--backend".to_owned(), backend.clone()]);
    }
    let (variables_key, program_key) = match client {
        ClientName::Goose => ("envs", "cmd"),
        ClientName::Claude | ClientName::Cursor | ClientName::Vscode => ("env", "command"),
    };
    let mut settings = json!({program_key: program.display().to_string(), "args": words});
    if !variables.is_empty() || client == ClientName::Goose {
        settings[variables_key] = Value::Object(variables);
    }
    if matches!(client, ClientName::Vscode | ClientName::Goose) {
        settings["type"] = json!("stdio");
    }
    Ok(client.document(settings))
}

/// Returns settings that connect to a coordinator.
fn remote(client: ClientName, url: &str) -> String {
    let url = format!("{}/mcp", shown_url(url).trim_end_matches('/'));
    let mut headers = Map::new();
    if environment(TOKEN_VARIABLE).is_some_and(|token| !token.is_empty()) {
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
    client.document(settings)
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
