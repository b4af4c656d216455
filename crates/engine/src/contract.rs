//! A contract, compiled: what a result is held to and the forms in which it is asked for.

use std::sync::{Arc, LazyLock};

use formwork_extract::{Mode, Options};
use formwork_schema::{Cache, Schema, Violations, needs_wrapping, universal, wrap_root};
use formwork_types::{Contract, ContractOptions, ResponseType, ValidationMode};
use serde_json::Value;

use crate::error::Error;

/// The longest schema name that OpenAI takes.
const NAME_CHARACTERS_MAX: usize = 64;

/// Compiled contracts. Folding is pure; this only saves doing the same work for every run of an agent.
pub(crate) static COMPILED: LazyLock<Cache> = LazyLock::new(Cache::default);

/// The contract in force.
#[derive(Debug, Clone)]
pub(crate) struct Enforced {
    pub(crate) contract: Arc<Contract>,
    pub(crate) schema: Schema,
    /// The schema inside `{"result": …}`, for backends that only know objects; none where the root is an
    /// object already.
    pub(crate) wrapped: Option<Schema>,
    /// Whether the schema is that of the universal response, whose rules go beyond it.
    pub(crate) is_universal: bool,
    /// The kind of the agent's universal responses, where it has one.
    own: Option<ResponseType>,
}

impl Enforced {
    pub(crate) fn compile(contract: &Arc<Contract>, own: Option<ResponseType>) -> Result<Enforced, Error> {
        let schema = COMPILED.compile_known(&contract.hash, &contract.schema)?;
        let wrapped = needs_wrapping(&contract.schema)
            .then(|| COMPILED.compile(&wrap_root(&contract.schema)))
            .transpose()?;
        let is_universal = universal::is_universal(&schema);
        Ok(Enforced { contract: contract.clone(), schema, wrapped, is_universal, own })
    }

    /// Everything that is wrong with a value.
    pub(crate) fn violations(&self, value: &Value) -> Violations {
        let violations = self.schema.violations(value);
        if violations.is_empty() { self.beyond_schema(value) } else { violations }
    }

    /// What is wrong with a value that satisfies the schema.
    pub(crate) fn beyond_schema(&self, value: &Value) -> Violations {
        match self.is_universal {
            true => universal::pairing(value, self.own.map(ResponseType::name)),
            false => Violations::default(),
        }
    }

    pub(crate) fn options(&self) -> &ContractOptions {
        &self.contract.options
    }

    /// What extraction may do under this contract.
    pub(crate) fn extraction(&self) -> Options {
        let options = self.options();
        Options {
            mode: match options.validation_mode {
                ValidationMode::Strict => Mode::Strict,
                ValidationMode::Lenient => Mode::Lenient,
            },
            extract_json: options.extract_json,
            strict_json_only: options.strict_json_only,
            ..Options::default()
        }
    }

    /// A name for the schema that every backend takes.
    pub(crate) fn name(&self, agent: &str) -> String {
        let name = self.contract.schema_name.as_deref().unwrap_or(agent);
        let is_plain = |character: char| character.is_ascii_alphanumeric() || character == '-';
        let clean: String = name
            .chars()
            .map(|character| if is_plain(character) { character } else { '_' })
            .take(NAME_CHARACTERS_MAX)
            .collect();
        if clean.is_empty() { "result".to_owned() } else { clean }
    }
}

/// The hash of a schema that is ours, as contracts carry it.
pub(crate) fn hash(schema: &Value) -> Result<String, Error> {
    Ok(COMPILED.compile(schema)?.hash().to_owned())
}
