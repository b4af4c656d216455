//! Resolves the contract of a run: its output schema and how it is enforced.

use std::sync::Arc;

use serde_json::Value;
use slipform_schema::Cache;
use slipform_types::{
    Blueprint, Contract, ContractOptions, ContractSource, OptionsPatch, RETRIES_FOR_BLUEPRINT,
    RETRIES_FOR_CALLER, RETRIES_MAX, env,
};

use crate::Error;

/// The environment variable for the default number of retries.
pub const MAX_RETRIES_VARIABLE: &str = env::SCHEMA_ENFORCEMENT_MAX_RETRIES;

/// The environment variable for the default of `extract_json`: whether JSON may be extracted from
/// other text.
pub const EXTRACT_JSON_VARIABLE: &str = env::SCHEMA_ENFORCEMENT_EXTRACT_JSON;

/// The members of a request that affect the contract.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ContractRequest {
    /// The inline schema, from `output_schema`.
    pub schema: Option<Value>,
    /// The name from `output_schema_name`, with the registered schema.
    pub named: Option<(String, Value)>,
    /// The options from `output_schema_options`.
    pub options: OptionsPatch,
}

/// Defaults of contracts from the environment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EnvironmentDefaults {
    /// From [`MAX_RETRIES_VARIABLE`]; `None` if unset.
    pub max_retries: Option<u32>,
    /// From [`EXTRACT_JSON_VARIABLE`]; `None` if unset.
    pub extract_json: Option<bool>,
}

impl EnvironmentDefaults {
    /// Reads the variables through `lookup`. An empty value counts as unset.
    ///
    /// # Errors
    /// Returns an error if a variable has an invalid value.
    pub fn from_lookup(lookup: impl Fn(&str) -> Option<String>) -> Result<EnvironmentDefaults, Error> {
        let read = |name| lookup(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty());
        let refused = |name, value: String, expected: String| Error::Environment { name, value, expected };
        let max_retries = match read(MAX_RETRIES_VARIABLE) {
            None => None,
            Some(value) => match value.parse::<u32>() {
                Ok(retries) if retries <= RETRIES_MAX => Some(retries),
                _ => {
                    let expected = format!("a whole number from 0 to {RETRIES_MAX}");
                    return Err(refused(MAX_RETRIES_VARIABLE, value, expected));
                }
            },
        };
        let extract_json = match read(EXTRACT_JSON_VARIABLE) {
            None => None,
            Some(value) => match value.to_ascii_lowercase().as_str() {
                "true" | "1" => Some(true),
                "false" | "0" => Some(false),
                _ => return Err(refused(EXTRACT_JSON_VARIABLE, value, "true or false".to_owned())),
            },
        };
        Ok(EnvironmentDefaults { max_retries, extract_json })
    }

    fn patch(self) -> OptionsPatch {
        OptionsPatch {
            max_retries: self.max_retries,
            extract_json: self.extract_json,
            ..OptionsPatch::default()
        }
    }
}

/// Resolves the contract of a run. Returns `None` if neither the agent nor the request has a
/// schema.
///
/// The `output_schema` of the blueprint is authoritative: a request may repeat it, but not replace
/// it. Otherwise the schema of the request applies, inline before named, and last the
/// `default_output_schema` of the blueprint. Options are merged per key: request, blueprint,
/// environment, default. The example of the blueprint applies only to its own schemas.
///
/// # Errors
/// Returns an error if the request contradicts the `output_schema` of the blueprint. Also returns one if a schema does not compile or `max_retries` is too large.
pub fn resolve(
    blueprint: &Blueprint,
    request: &ContractRequest,
    defaults: &EnvironmentDefaults,
) -> Result<Option<Contract>, Error> {
    resolve_with(&Cache::default(), blueprint, request, defaults)
}

/// Like [`resolve`], with a cache of compiled schemas.
///
/// # Errors
/// See [`resolve`].
pub fn resolve_with(
    cache: &Cache,
    blueprint: &Blueprint,
    request: &ContractRequest,
    defaults: &EnvironmentDefaults,
) -> Result<Option<Contract>, Error> {
    let patch = options(blueprint, request, *defaults)?;
    let Some(ChosenSchema { source, name, schema }) = choose(blueprint, request)? else { return Ok(None) };
    let compiled = cache
        .compile(schema)
        .map_err(|error| Error::Schema { origin: origin(blueprint, source, name), source: error })?;
    let (max_retries, example) = match source {
        ContractSource::Blueprint => (RETRIES_FOR_BLUEPRINT, blueprint.output_example.clone()),
        ContractSource::Default => (RETRIES_FOR_CALLER, blueprint.output_example.clone()),
        ContractSource::Inline | ContractSource::Named => (RETRIES_FOR_CALLER, None),
    };
    Ok(Some(Contract {
        source,
        schema_name: name.map(ToOwned::to_owned),
        schema: Arc::new(schema.clone()),
        hash: compiled.hash().to_owned(),
        options: patch.resolve(&ContractOptions { max_retries, ..ContractOptions::default() }),
        example,
    }))
}

struct ChosenSchema<'a> {
    source: ContractSource,
    name: Option<&'a str>,
    schema: &'a Value,
}

fn choose<'a>(
    blueprint: &'a Blueprint,
    request: &'a ContractRequest,
) -> Result<Option<ChosenSchema<'a>>, Error> {
    let requested = match (&request.schema, &request.named) {
        (Some(schema), _) => Some(ChosenSchema { source: ContractSource::Inline, name: None, schema }),
        (None, Some((name, schema))) => {
            Some(ChosenSchema { source: ContractSource::Named, name: Some(name), schema })
        }
        (None, None) => None,
    };
    if let Some(own) = &blueprint.output_schema {
        let name = match requested {
            Some(requested) if requested.schema != own => {
                return Err(Error::OutputSchemaConflict { agent: blueprint.name.clone() });
            }
            requested => {
                requested.and_then(|requested| requested.name).or(blueprint.output_schema_name.as_deref())
            }
        };
        return Ok(Some(ChosenSchema { source: ContractSource::Blueprint, name, schema: own }));
    }
    let default = blueprint.default_output_schema.as_ref();
    Ok(requested.or(default.map(|schema| ChosenSchema {
        source: ContractSource::Default,
        name: blueprint.default_output_schema_name.as_deref(),
        schema,
    })))
}

fn options(
    blueprint: &Blueprint,
    request: &ContractRequest,
    defaults: EnvironmentDefaults,
) -> Result<OptionsPatch, Error> {
    let own = &blueprint.default_output_schema_options;
    let sources = [
        (&request.options, "output_schema_options".to_owned()),
        (own, format!("the agent '{}'", blueprint.name)),
    ];
    for (patch, origin) in sources {
        if let Some(given) = patch.max_retries.filter(|retries| *retries > RETRIES_MAX) {
            return Err(Error::Retries { origin, given });
        }
    }
    Ok(request.options.merge(own).merge(&defaults.patch()))
}

fn origin(blueprint: &Blueprint, source: ContractSource, name: Option<&str>) -> String {
    match source {
        ContractSource::Blueprint => format!("the output_schema of the agent '{}'", blueprint.name),
        ContractSource::Default => format!("the default_output_schema of the agent '{}'", blueprint.name),
        ContractSource::Inline => "the request's output_schema".to_owned(),
        ContractSource::Named => format!("the registered schema '{}'", name.unwrap_or_default()),
    }
}
