//! A contract, compiled: what a result is held to and the forms in which it is asked for.

use std::sync::{Arc, LazyLock};

use serde_json::Value;
use slipform_extract::{Mode, Options};
use slipform_schema::{Cache, Schema, Violations, needs_wrapping, universal, wrap_root};
use slipform_types::{Contract, ContractOptions, ContractSource, ResponseType, Subtask, ValidationMode};

use crate::error::Error;
use crate::judge::SUBMIT;
use crate::orchestrator::{CREATE_PLAN, subtasks};

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
    /// The tool that a result is handed in with.
    pub(crate) tool: &'static str,
    extra_rules: ExtraRules,
}

/// What has to hold extra_rules the schema.
#[derive(Debug, Clone)]
enum ExtraRules {
    Nothing,
    /// The rules of the universal response, with the kind of the agent's own where it has one.
    Universal(Option<ResponseType>),
    /// The rules of plans, with the subtasks that are done already.
    Plan(Vec<Subtask>),
}

impl Enforced {
    pub(crate) fn compile(contract: &Arc<Contract>, own: Option<ResponseType>) -> Result<Enforced, Error> {
        let schema = COMPILED.compile_known(&contract.hash, &contract.schema)?;
        let wrapped = needs_wrapping(&contract.schema)
            .then(|| COMPILED.compile(&wrap_root(&contract.schema)))
            .transpose()?;
        let extra_rules = match universal::is_universal(&schema) {
            true => ExtraRules::Universal(own),
            false => ExtraRules::Nothing,
        };
        Ok(Enforced { contract: contract.clone(), schema, wrapped, tool: SUBMIT, extra_rules })
    }

    /// A contract of the engine's own, for what a run needs on its mode.
    pub(crate) fn ours(name: &str, schema: Value, options: ContractOptions) -> Result<Enforced, Error> {
        let contract = Contract {
            source: ContractSource::Blueprint,
            schema_name: Some(name.to_owned()),
            hash: COMPILED.compile(&schema)?.hash().to_owned(),
            schema,
            options,
            example: None,
        };
        Enforced::compile(&Arc::new(contract), None)
    }

    /// The contract of a plan, beside what is done already.
    pub(crate) fn plan(schema: Value, done: Vec<Subtask>) -> Result<Enforced, Error> {
        let enforced = Enforced::ours(CREATE_PLAN, schema, ContractOptions::default())?;
        Ok(Enforced { tool: CREATE_PLAN, extra_rules: ExtraRules::Plan(done), ..enforced })
    }

    /// Everything that is wrong with a value.
    pub(crate) fn violations(&self, value: &Value) -> Violations {
        let violations = self.schema.violations(value);
        if violations.is_empty() { self.extra_violations(value) } else { violations }
    }

    /// What is wrong with a value that satisfies the schema.
    pub(crate) fn extra_violations(&self, value: &Value) -> Violations {
        match &self.extra_rules {
            ExtraRules::Nothing => Violations::default(),
            ExtraRules::Universal(own) => universal::pairing_violations(value, own.map(ResponseType::name)),
            ExtraRules::Plan(done) => subtasks::violations(value, done),
        }
    }

    /// Whether what is wanted is a universal response.
    pub(crate) fn is_universal(&self) -> bool {
        matches!(self.extra_rules, ExtraRules::Universal(_))
    }

    /// The kind of the agent's own universal responses, where the contract is theirs.
    pub(crate) fn own_response(&self) -> Option<ResponseType> {
        match self.extra_rules {
            ExtraRules::Universal(own) => own,
            _ => None,
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
