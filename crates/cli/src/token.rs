//! `slipform token`: creates, lists and revokes API tokens.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};
use slipform_coordinator::{App, Registry, Scope, StoreOptions, TokenRecord, TokenRequest};
use slipform_types::timestamp;

use crate::arguments::{Token, TokenCommand};
use crate::backends::{self, environment};
use crate::database::Database;
use crate::exit::Exit;
use crate::settings::Settings;
use crate::{coordinator, output};

/// The longest lifetime of a token: 100 years.
const LIFETIME_MAX_SECONDS: u64 = 100 * 366 * 86_400;

pub(crate) fn run(arguments: &Token) -> Result<Exit> {
    backends::runtime()?.block_on(async {
        let app = open(arguments.db.as_deref()).await?;
        match &arguments.command {
            TokenCommand::Create { name, scope, agents, expires, all, rpm, tpm, json } => {
                let request = request(name, scope, agents, expires.as_deref(), *all)?;
                let request = TokenRequest { requests_per_minute: *rpm, tokens_per_minute: *tpm, ..request };
                create(&app, &request, *json).await
            }
            TokenCommand::List { json } => list(&app, *json).await,
            TokenCommand::Revoke { id } => revoke(&app, id).await,
        }
    })
}

/// Opens the coordinator's database directly: write access to it is the permission to create tokens.
async fn open(given: Option<&str>) -> Result<App> {
    let project = std::env::current_dir().context("cannot read the current folder")?;
    let settings = Settings::read(&project, &environment)?;
    let database = Database::find(&project, given, &settings.server)?;
    let registry = Arc::new(Registry::read(Path::new("")));
    let store = StoreOptions { connections: 1, ..StoreOptions::default() };
    database.open(&store, registry, coordinator::options()?).await
}

/// Checks what a new token is to permit.
fn request(
    name: &str,
    scope: &str,
    agents: &[String],
    expires: Option<&str>,
    all: bool,
) -> Result<TokenRequest> {
    let Some(scope) = Scope::of(scope) else { bail!("unknown scope `{scope}`; use admin, caller or runner") };
    if name.trim().is_empty() {
        bail!("the token name is empty; pass a name that states its purpose");
    }
    if let Some(blank) = agents.iter().find(|agent| agent.trim().is_empty() || agent.trim() != agent.as_str())
    {
        bail!("`--agents` has an empty name or one with spaces (`{blank}`); write them as a,b,c");
    }
    let agents = (!agents.is_empty()).then(|| agents.to_vec());
    let lifetime = expires.map(lifetime).transpose()?;
    Ok(TokenRequest { agents, reads_all: all, lifetime, ..TokenRequest::new(name, scope) })
}

/// Reads a time such as `30d`.
fn lifetime(text: &str) -> Result<Duration> {
    let unit_seconds = |unit| match unit {
        's' => Some(1),
        'm' => Some(60),
        'h' => Some(3_600),
        'd' => Some(86_400),
        _ => None,
    };
    let seconds = text.char_indices().next_back().and_then(|(end, unit)| {
        let count: u32 = text[..end].parse().ok().filter(|count| *count > 0)?;
        Some(u64::from(count) * unit_seconds(unit)?)
    });
    match seconds {
        Some(seconds) if seconds <= LIFETIME_MAX_SECONDS => Ok(Duration::from_secs(seconds)),
        Some(_) => {
            bail!("`--expires {text}` is longer than 100 years; omit it for a token that does not expire")
        }
        None => bail!("`--expires {text}` is not a time; write a number with d, h, m or s, such as 30d"),
    }
}

async fn create(app: &App, request: &TokenRequest, as_json: bool) -> Result<Exit> {
    let issued = app.create_token(request).await?;
    let tokens = app.tokens().await?;
    let record = tokens.iter().find(|record| record.token_id == issued.token_id);
    if as_json {
        let mut shown = record.map(shown).unwrap_or_default();
        shown["token"] = json!(issued.token);
        output::data(&shown)?;
    } else {
        let limits: Vec<String> = [
            Some(format!("scope {}", request.scope.name())),
            request.agents.as_ref().map(|agents| format!("agents {}", agents.join(", "))),
            request.reads_all.then(|| "all runs".to_owned()),
            record.and_then(|record| record.expires_at).map(|at| format!("until {}", timestamp(at))),
            request.requests_per_minute.map(|limit| format!("{limit} requests per minute")),
            request.tokens_per_minute.map(|limit| format!("{limit} tokens per minute")),
        ]
        .into_iter()
        .flatten()
        .collect();
        output::lines([format!(
            "slipform: token `{}` for `{}` created ({}); copy it now, it is shown only once:",
            issued.token_id,
            request.name,
            limits.join("; ")
        )]);
        output::text(&issued.token)?;
    }
    Ok(Exit::Valid)
}

async fn list(app: &App, as_json: bool) -> Result<Exit> {
    let tokens = app.tokens().await?;
    if as_json {
        let rows: Vec<Value> = tokens.iter().map(shown).collect();
        output::data(&json!(rows))?;
        return Ok(Exit::Valid);
    }
    if tokens.is_empty() {
        output::lines(["no tokens; create one with `slipform token create NAME`".to_owned()]);
    }
    let rows = tokens.into_iter().map(|token| {
        let agents = token.agents.map_or_else(|| "all".to_owned(), |agents| agents.join(","));
        let runs = if token.scope == Scope::Caller.name() && !token.reads_all { "own" } else { "all" };
        let expires = match token.expires_at {
            Some(at) if token.is_expired => format!("expired {}", timestamp(at)),
            Some(at) => timestamp(at),
            None => "never".to_owned(),
        };
        let budget = [(token.requests_per_minute, "rpm"), (token.tokens_per_minute, "tpm")];
        let budget: Vec<String> =
            budget.iter().filter_map(|(limit, unit)| Some(format!("{} {unit}", (*limit)?))).collect();
        let budget = if budget.is_empty() { "none".to_owned() } else { budget.join(", ") };
        let created = timestamp(token.created_at);
        vec![token.token_id, token.scope, agents, runs.to_owned(), budget, expires, created, token.name]
    });
    output::table(["TOKEN", "SCOPE", "AGENTS", "RUNS", "BUDGET", "EXPIRES", "CREATED", "NAME"], rows)?;
    Ok(Exit::Valid)
}

/// A token without its secret.
fn shown(token: &TokenRecord) -> Value {
    json!({
        "id": token.token_id,
        "name": token.name,
        "scope": token.scope,
        "agents": token.agents,
        "all": token.reads_all,
        "created_at": timestamp(token.created_at),
        "expires_at": token.expires_at.map(timestamp),
        "expired": token.is_expired,
        "rpm": token.requests_per_minute,
        "tpm": token.tokens_per_minute,
    })
}

async fn revoke(app: &App, id: &str) -> Result<Exit> {
    if !app.revoke_token(id).await? {
        bail!("token `{id}` not found; run `slipform token list`");
    }
    output::lines([format!("slipform: token `{id}` revoked")]);
    Ok(Exit::Valid)
}
