//! Which schema a run's result has to satisfy, and how that is enforced.

use serde_json::Value;
use slipform_schema::Cache;
use slipform_types::{
    Blueprint, Contract, ContractOptions, ContractSource, OptionsPatch, RETRIES_FOR_BLUEPRINT,
    RETRIES_FOR_CALLER, RETRIES_MAX,
};

use crate::Error;

/// The variable that sets the retries of contracts that say nothing about them.
pub const MAX_RETRIES_VARIABLE: &str = "SCHEMA_ENFORCEMENT_MAX_RETRIES";

/// The variable that says whether JSON may be found inside other text, where a contract does not.
pub const EXTRACT_JSON_VARIABLE: &str = "SCHEMA_ENFORCEMENT_EXTRACT_JSON";

/// What a request says about the result it wants.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ContractRequest {
    /// `output_schema`.
    pub schema: Option<Value>,
    /// `output_schema_name`, with the schema that the registry has under it.
    pub named: Option<(String, Value)>,
    /// `output_schema_options`.
    pub options: OptionsPatch,
}

/// What the environment says about contracts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EnvironmentDefaults {
    /// From [`MAX_RETRIES_VARIABLE`].
    pub max_retries: Option<u32>,
    /// From [`EXTRACT_JSON_VARIABLE`].
    pub extract_json: Option<bool>,
}

impl EnvironmentDefaults {
    /// Reads the variables through `lookup`. An empty one is as good as none.
    ///
    /// # Errors
    /// When a variable has a value that it cannot have.
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

/// The contract of a run of this agent; none when neither the agent nor the request has a schema.
///
/// The blueprint's `output_schema` is authoritative: a request may repeat it, not replace it. Otherwise
/// the request's schema is taken, inline or named, and last the blueprint's `default_output_schema`.
/// Options are merged key by key: request, blueprint, environment, default. The blueprint's example goes
/// with the blueprint's schemas only.
///
/// # Errors
/// When the request brings two schemas, or another one than the blueprint's own; when a schema cannot be
/// used; when more retries are asked for than there may be.
pub fn resolve(
    blueprint: &Blueprint,
    request: &ContractRequest,
    defaults: &EnvironmentDefaults,
) -> Result<Option<Contract>, Error> {
    resolve_with(&Cache::default(), blueprint, request, defaults)
}

/// The same for whoever resolves often: schemas are compiled once.
///
/// # Errors
/// As [`resolve`].
pub fn resolve_with(
    cache: &Cache,
    blueprint: &Blueprint,
    request: &ContractRequest,
    defaults: &EnvironmentDefaults,
) -> Result<Option<Contract>, Error> {
    let patch = options(blueprint, request, *defaults)?;
    let Some(Chosen { source, name, schema }) = choose(blueprint, request)? else { return Ok(None) };
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
        schema: schema.clone(),
        hash: compiled.hash().to_owned(),
        options: patch.resolve(&ContractOptions { max_retries, ..ContractOptions::default() }),
        example,
    }))
}

struct Chosen<'a> {
    source: ContractSource,
    name: Option<&'a str>,
    schema: &'a Value,
}

fn choose<'a>(blueprint: &'a Blueprint, request: &'a ContractRequest) -> Result<Option<Chosen<'a>>, Error> {
    let asked = match (&request.schema, &request.named) {
        (Some(_), Some((name, _))) => return Err(Error::TwoSchemas { name: name.clone() }),
        (Some(schema), None) => Some(Chosen { source: ContractSource::Inline, name: None, schema }),
        (None, Some((name, schema))) => {
            Some(Chosen { source: ContractSource::Named, name: Some(name), schema })
        }
        (None, None) => None,
    };
    if let Some(own) = &blueprint.output_schema {
        let name = match asked {
            Some(asked) if asked.schema != own => {
                return Err(Error::OutputSchemaConflict { agent: blueprint.name.clone() });
            }
            asked => asked.and_then(|asked| asked.name),
        };
        return Ok(Some(Chosen { source: ContractSource::Blueprint, name, schema: own }));
    }
    let default = blueprint.default_output_schema.as_ref();
    Ok(asked.or(default.map(|schema| Chosen { source: ContractSource::Default, name: None, schema })))
}

fn options(
    blueprint: &Blueprint,
    request: &ContractRequest,
    defaults: EnvironmentDefaults,
) -> Result<OptionsPatch, Error> {
    let own = &blueprint.default_output_schema_options;
    let asks = [
        (&request.options, "output_schema_options".to_owned()),
        (own, format!("the agent '{}'", blueprint.name)),
    ];
    for (patch, origin) in asks {
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
