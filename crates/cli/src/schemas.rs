//! `formwork schemas`: what is wrong with a schema, before a model is asked to follow it.

use anyhow::Result;
use formwork_schema::{Schema, lint};
use serde_json::{Value, json};

use crate::arguments::{Schemas, SchemasCommand};
use crate::exit::Exit;
use crate::{output, source};

pub(crate) fn run(arguments: &Schemas) -> Result<Exit> {
    match &arguments.command {
        SchemasCommand::Check { schemas, json } => check(schemas, *json),
    }
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
    let compiled = source::schema_source(given).and_then(|(_, source)| {
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
