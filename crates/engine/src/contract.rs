//! A contract, compiled: what a result is held to and the forms in which it is asked for.

use std::sync::{Arc, LazyLock};

use formwork_extract::{Mode, Options};
use formwork_schema::{Cache, Schema, needs_wrapping, wrap_root};
use formwork_types::{Contract, ContractOptions, ValidationMode};

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
}

impl Enforced {
    pub(crate) fn compile(contract: &Arc<Contract>) -> Result<Enforced, Error> {
        let schema = COMPILED.compile_known(&contract.hash, &contract.schema)?;
        let wrapped = needs_wrapping(&contract.schema)
            .then(|| COMPILED.compile(&wrap_root(&contract.schema)))
            .transpose()?;
        Ok(Enforced { contract: contract.clone(), schema, wrapped })
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
pub(crate) fn hash(schema: &serde_json::Value) -> Result<String, Error> {
    Ok(COMPILED.compile(schema)?.hash().to_owned())
}
