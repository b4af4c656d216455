//! `slipform token`: creates, lists and revokes API tokens.

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

/// Opens the coordinator's database directly: write access to it is the permission to create tokens.
async fn open(given: Option<&str>) -> Result<App> {
    let project = std::env::current_dir().context("cannot read the current folder")?;
    let settings = Settings::read(&project, &environment)?;
    let database = given.map(str::to_owned).or(settings.server.db);
    let database = database
        .map_or_else(|| Ok(coordinator::database(&project)), |given| serve::address(&project, &given))?;
    let registry = Arc::new(Registry::read(Path::new("")));
    Ok(App::open(&database, false, registry, coordinator::options()?).await?)
}

async fn create(app: &App, name: &str, scope: &str, as_json: bool) -> Result<Exit> {
    let Some(scope) = Scope::of(scope) else { bail!("unknown scope `{scope}`; use admin, caller or runner") };
    if name.trim().is_empty() {
        bail!("the token name is empty; pass a name that states its purpose");
    }
    let issued = app.create_token(name, scope).await?;
    let record = &issued.record;
    if as_json {
        output::data(&json!({
            "token": issued.token, "id": record.token_id, "name": record.name, "scope": record.scope,
        }))?;
    } else {
        output::lines([format!(
            "slipform: token `{}` for `{name}` created (scope {}); copy it now, it is shown only once:",
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
        output::lines(["no tokens; create one with `slipform token create NAME`".to_owned()]);
    }
    let rows = tokens
        .into_iter()
        .map(|token| vec![token.token_id, token.scope, timestamp(token.created_at), token.name]);
    output::table(["TOKEN", "SCOPE", "CREATED", "NAME"], rows)?;
    Ok(Exit::Valid)
}

async fn revoke(app: &App, id: &str) -> Result<Exit> {
    if !app.revoke_token(id).await? {
        bail!("token `{id}` not found; run `slipform token list`");
    }
    output::lines([format!("slipform: token `{id}` revoked")]);
    Ok(Exit::Valid)
}
