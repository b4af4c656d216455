//! `slipform schemas`: manages registered schemas and checks schemas before a model has to follow them.

use std::path::Path;

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};
use slipform_api::{CallerApi, SchemaRequest};
use slipform_schema::{SCHEMA_BYTES_MAX, Schema, lint, shipped};

use crate::arguments::{Schemas, SchemasCommand};
use crate::coordinator::Coordinator;
use crate::exit::Exit;
use crate::{backends, output, source};

pub(crate) fn run(arguments: &Schemas) -> Result<Exit> {
    if let SchemasCommand::Check { schemas, json } = &arguments.command {
        return check(schemas, *json);
    }
    backends::runtime()?.block_on(async {
        let server = arguments.server.as_deref();
        let coordinator = match &arguments.command {
            SchemasCommand::List { .. } | SchemasCommand::Show { .. } | SchemasCommand::Export { .. } => {
                Coordinator::open_to_read(server).await?
            }
            _ => Coordinator::open(server).await?,
        };
        let api = &*coordinator.api;
        match &arguments.command {
            SchemasCommand::List { json } => list(api, *json).await,
            SchemasCommand::Show { name, json } => show(api, name, *json).await,
            SchemasCommand::Add { name, file, description } => {
                add(api, name, file, description.clone()).await
            }
            SchemasCommand::Remove { name } => {
                api.remove_schema(name).await?;
                output::lines([format!("slipform: schema `{name}` removed; existing runs keep it")]);
                Ok(Exit::Valid)
            }
            SchemasCommand::Export { name } => {
                let view = api.schema(name).await?;
                // A shipped schema is printed byte for byte, because other programs embed it.
                match shipped().iter().find(|known| view.hash.as_deref() == Some(known.schema.hash())) {
                    Some(known) => output::text(known.text.trim_end())?,
                    None => output::data(&view.schema)?,
                }
                Ok(Exit::Valid)
            }
            SchemasCommand::Check { .. } => Ok(Exit::Valid),
        }
    })
}

async fn list(api: &dyn CallerApi, as_json: bool) -> Result<Exit> {
    let schemas = api.schemas().await?;
    if as_json {
        output::data(&serde_json::to_value(&schemas)?)?;
    } else {
        let rows = schemas.iter().map(|schema| {
            let hash = schema.hash.as_deref().unwrap_or("cannot be used").to_owned();
            vec![schema.name.clone(), schema.source.clone(), hash]
        });
        output::table(["NAME", "SOURCE", "HASH"], rows)?;
    }
    output::lines(schemas.iter().flat_map(|schema| {
        schema.problems.iter().map(|problem| format!("schema `{}`: {}", schema.name, problem.message))
    }));
    let all_usable = schemas.iter().all(|schema| schema.problems.is_empty());
    Ok(if all_usable { Exit::Valid } else { Exit::Usage })
}

async fn show(api: &dyn CallerApi, name: &str, as_json: bool) -> Result<Exit> {
    let schema = api.schema(name).await?;
    if as_json {
        output::data(&serde_json::to_value(&schema)?)?;
    } else {
        output::text(&slipform_schema::compact(&schema.schema))?;
    }
    Ok(Exit::Valid)
}

async fn add(api: &dyn CallerApi, name: &str, file: &Path, description: Option<String>) -> Result<Exit> {
    let limit = usize::try_from(SCHEMA_BYTES_MAX).unwrap_or(usize::MAX);
    let bytes = source::read_bytes(Some(file), limit)?;
    if bytes.len() > limit {
        bail!("the schema in {} has more than the {limit} bytes allowed; split it", file.display());
    }
    let schema = serde_json::from_slice(source::strip_bom(&bytes))
        .with_context(|| format!("the schema in {} is not JSON", file.display()))?;
    let view = api.add_schema(&SchemaRequest { name: name.to_owned(), description, schema }).await?;
    output::lines([format!("slipform: schema `{name}` registered ({})", view.hash.unwrap_or_default())]);
    output::lines(view.warnings.iter().map(|warning| format!("slipform: warning: {warning}")));
    Ok(Exit::Valid)
}

fn check(schemas: &[String], as_json: bool) -> Result<Exit> {
    let reports: Vec<Value> = schemas.iter().map(|given| report(given)).collect();
    if as_json {
        output::data(&Value::Array(reports.clone()))?;
    } else {
        output::lines(reports.iter().flat_map(lines));
    }
    let all_usable = reports.iter().all(|report| report["error"].is_null());
    Ok(if all_usable { Exit::Valid } else { Exit::Usage })
}

fn report(given: &str) -> Value {
    let compiled = source::load_schema_source(given).and_then(|(_, source)| {
        let schema = Schema::compile(&source)?;
        Ok((schema, source))
    });
    match compiled {
        Ok((schema, source)) => {
            json!({"schema": given, "hash": schema.hash(), "error": null, "warnings": lint(&source)})
        }
        Err(error) => json!({"schema": given, "hash": null, "error": format!("{error:#}"), "warnings": []}),
    }
}

fn lines(report: &Value) -> Vec<String> {
    let name = report["schema"].as_str().unwrap_or_default();
    if let Some(error) = report["error"].as_str() {
        return vec![format!("{name}: error: {error}")];
    }
    let warnings = report["warnings"].as_array().map(Vec::as_slice).unwrap_or_default();
    if warnings.is_empty() {
        return vec![format!("{name}: ok")];
    }
    let text = |warning: &Value, key: &str| warning[key].as_str().unwrap_or_default().to_owned();
    warnings
        .iter()
        .map(|warning| format!("{name}: warning: {}: {}", text(warning, "path"), text(warning, "message")))
        .collect()
}
