//! `slipform token`: who may ask a coordinator that can be reached from elsewhere.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use serde_json::json;
use slipform_coordinator::{App, Registry, Scope};
use slipform_types::timestamp;

use crate::arguments::{Token, TokenCommand};
use crate::backends::{self, environment};
use crate::exit::Exit;
use crate::settings::Settings;
use crate::{coordinator, output, serve};

pub(crate) fn run(arguments: &Token) -> Result<Exit> {
    backends::runtime()?.block_on(async {
        let app = open(arguments.db.as_deref()).await?;
        match &arguments.command {
            TokenCommand::Create { name, scope, json } => create(&app, name, scope, *json).await,
            TokenCommand::List { json } => list(&app, *json).await,
            TokenCommand::Revoke { id } => revoke(&app, id).await,
        }
    })
}

/// Tokens are made where the database is: whoever can write it needs no token to make one.
async fn open(given: Option<&str>) -> Result<App> {
    let project = std::env::current_dir().context("the current folder cannot be read")?;
    let settings = Settings::read(&project, &environment)?;
    let database = given.map(str::to_owned).or(settings.server.db);
    let database = database
        .map_or_else(|| Ok(coordinator::database(&project)), |given| serve::address(&project, &given))?;
    let registry = Arc::new(Registry::read(Path::new("")));
    Ok(App::open(&database, false, registry, coordinator::options()?).await?)
}

async fn create(app: &App, name: &str, scope: &str, as_json: bool) -> Result<Exit> {
    let Some(scope) = Scope::of(scope) else {
        bail!("there is no scope '{scope}'; there are: admin, caller, runner")
    };
    if name.trim().is_empty() {
        bail!("a token needs a name: say what it is for, so that whoever revokes it knows");
    }
    let issued = app.create_token(name, scope).await?;
    let record = &issued.record;
    if as_json {
        output::data(&json!({
            "token": issued.token, "id": record.token_id, "name": record.name, "scope": record.scope,
        }))?;
    } else {
        output::lines([format!(
            "slipform: {} for '{name}' ({}); it is not shown again:",
            record.token_id, record.scope
        )]);
        output::text(&issued.token)?;
    }
    Ok(Exit::Valid)
}

async fn list(app: &App, as_json: bool) -> Result<Exit> {
    let tokens = app.tokens().await?;
    if as_json {
        let rows: Vec<_> = tokens
            .iter()
            .map(|token| {
                let created_at = timestamp(token.created_at);
                json!({"id": token.token_id, "name": token.name, "scope": token.scope, "created_at": created_at})
            })
            .collect();
        output::data(&json!(rows))?;
        return Ok(Exit::Valid);
    }
    if tokens.is_empty() {
        output::lines(["there are no tokens; make one with `slipform token create NAME`".to_owned()]);
    }
    let rows = tokens
        .into_iter()
        .map(|token| vec![token.token_id, token.scope, timestamp(token.created_at), token.name]);
    output::table(["TOKEN", "SCOPE", "CREATED", "NAME"], rows)?;
    Ok(Exit::Valid)
}

async fn revoke(app: &App, id: &str) -> Result<Exit> {
    if !app.revoke_token(id).await? {
        bail!("there is no token {id}; `slipform token list` shows those there are");
    }
    output::lines([format!("slipform: {id} is worth nothing any more")]);
    Ok(Exit::Valid)
}
