//! Compiled contracts: the schema of a result, its wrapped form, and the rules beyond the schema.

use std::sync::{Arc, LazyLock};

use serde_json::Value;
use slipform_extract::{Mode, Options};
use slipform_schema::{Cache, Schema, Violations, universal, wrap_root};
use slipform_types::{
    Contract, ContractOptions, ContractSource, Conversation, ResponseType, Subtask, Tool, ValidationMode,
};

use crate::error::Error;
use crate::orchestrator::{CREATE_PLAN, subtasks};
use crate::reply::SUBMIT;

/// The longest schema name that OpenAI accepts.
const NAME_CHARACTERS_MAX: usize = 64;

/// A cache of compiled schemas. It does not affect the result of folding; it only saves recompiling
/// the schema of an agent for every run.
pub(crate) static COMPILED: LazyLock<&Cache> = LazyLock::new(Cache::shared);

/// A contract with its compiled schema.
#[derive(Debug, Clone)]
pub(crate) struct CompiledContract {
    pub(crate) definition: Arc<Contract>,
    pub(crate) schema: Schema,
    /// The schema inside `{"result": …}`, for backends that only accept objects. `None` if the root
    /// is already an object.
    pub(crate) wrapped: Option<Schema>,
    /// The tool that submits a result.
    pub(crate) tool: SubmitTool,
    extra_rules: ExtraRules,
}

/// The tool that a model submits a result with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SubmitTool {
    pub(crate) name: Arc<str>,
    pub(crate) description: Arc<str>,
    /// Whether the caller executes the tool. Then its arguments must be a single document.
    pub(crate) is_of_client: bool,
    /// Whether every call of a reply counts. Otherwise the first acceptable one is the result.
    pub(crate) takes_all_calls: bool,
}

impl SubmitTool {
    fn new(name: &str, description: &str) -> SubmitTool {
        let (name, description) = (name.into(), description.into());
        SubmitTool { name, description, is_of_client: false, takes_all_calls: false }
    }

    /// Returns the tool of results that are not plans.
    fn result() -> SubmitTool {
        static RESULT: LazyLock<SubmitTool> =
            LazyLock::new(|| SubmitTool::new(SUBMIT, "Submit the final result. You MUST call this tool!"));
        RESULT.clone()
    }
}

/// Rules that apply in addition to the schema.
#[derive(Debug, Clone)]
enum ExtraRules {
    Nothing,
    /// The rules of the universal response, with the response type of the agent if it declares one.
    Universal(Option<ResponseType>),
    /// The rules of subtask plans, with the subtasks that are already done.
    SubtaskPlan(Vec<Subtask>),
}

impl CompiledContract {
    pub(crate) fn compile(
        contract: &Arc<Contract>,
        own: Option<ResponseType>,
    ) -> Result<CompiledContract, Error> {
        let schema = COMPILED.compile_known(&contract.hash, &contract.schema)?;
        let wrapped =
            schema.needs_wrapping().then(|| COMPILED.compile(&wrap_root(&contract.schema))).transpose()?;
        let extra_rules =
            if universal::is_universal(&schema) { ExtraRules::Universal(own) } else { ExtraRules::Nothing };
        Ok(CompiledContract {
            definition: contract.clone(),
            schema,
            wrapped,
            tool: SubmitTool::result(),
            extra_rules,
        })
    }

    /// Creates a contract that the engine itself needs during a run.
    pub(crate) fn internal(
        name: &str,
        schema: Value,
        options: ContractOptions,
    ) -> Result<CompiledContract, Error> {
        let contract = Contract {
            source: ContractSource::Blueprint,
            schema_name: Some(name.to_owned()),
            hash: COMPILED.compile(&schema)?.hash().to_owned(),
            schema: Arc::new(schema),
            options,
            example: None,
        };
        CompiledContract::compile(&Arc::new(contract), None)
    }

    /// Creates the contract of a subtask plan, given the subtasks that are already done.
    pub(crate) fn subtask_plan(schema: Value, done: Vec<Subtask>) -> Result<CompiledContract, Error> {
        let compiled = CompiledContract::internal(CREATE_PLAN, schema, ContractOptions::default())?;
        let tool = SubmitTool::new(CREATE_PLAN, "Hand in the execution plan. You MUST call this tool!");
        Ok(CompiledContract { tool, extra_rules: ExtraRules::SubtaskPlan(done), ..compiled })
    }

    /// Creates the contract of a call that the model has to make: the arguments satisfy the schema of the tool.
    pub(crate) fn forced_call(tool: &Tool, conversation: &Conversation) -> Result<CompiledContract, Error> {
        let (parameters, options) = (tool.parameters.clone(), conversation.options.clone());
        let compiled = CompiledContract::internal(&tool.name, parameters, options)?;
        let tool = SubmitTool {
            is_of_client: true,
            takes_all_calls: conversation.parallel_tool_calls,
            ..SubmitTool::new(&tool.name, &tool.description)
        };
        Ok(CompiledContract { tool, ..compiled })
    }

    /// Returns all violations of the schema and, if there are none, of the extra rules.
    pub(crate) fn violations(&self, value: &Value) -> Violations {
        let violations = self.schema.violations(value);
        if violations.is_empty() { self.extra_violations(value) } else { violations }
    }

    /// Returns the violations of the extra rules by a value that satisfies the schema.
    pub(crate) fn extra_violations(&self, value: &Value) -> Violations {
        match &self.extra_rules {
            ExtraRules::Nothing => Violations::default(),
            ExtraRules::Universal(own) => universal::pairing_violations(value, own.map(ResponseType::name)),
            ExtraRules::SubtaskPlan(done) => subtasks::violations(value, done),
        }
    }

    /// Returns whether rules apply in addition to the schema.
    pub(crate) fn has_extra_rules(&self) -> bool {
        !matches!(self.extra_rules, ExtraRules::Nothing)
    }

    /// Returns whether a value repeats the schema. A schema without required members is satisfied by itself.
    pub(crate) fn is_repeated_by(&self, value: &Value) -> bool {
        let wrapped = self.wrapped.as_ref().map(Schema::source);
        [Some(self.schema.source()), wrapped].into_iter().flatten().any(|schema| repeats(schema, value))
    }

    /// Returns whether the result is a universal response.
    pub(crate) fn is_universal(&self) -> bool {
        matches!(self.extra_rules, ExtraRules::Universal(_))
    }

    /// Returns the response type that the agent declares for its universal responses.
    pub(crate) fn own_response_type(&self) -> Option<ResponseType> {
        match self.extra_rules {
            ExtraRules::Universal(own) => own,
            _ => None,
        }
    }

    pub(crate) fn options(&self) -> &ContractOptions {
        &self.definition.options
    }

    /// Returns the extraction options that this contract allows.
    pub(crate) fn extraction(&self) -> Options {
        extraction_options(self.options())
    }

    /// Returns a schema name that every backend accepts.
    pub(crate) fn name(&self, agent: &str) -> String {
        let name = self.definition.schema_name.as_deref().unwrap_or(agent);
        let is_plain = |character: char| character.is_ascii_alphanumeric() || character == '-';
        let clean: String = name
            .chars()
            .map(|character| if is_plain(character) { character } else { '_' })
            .take(NAME_CHARACTERS_MAX)
            .collect();
        if clean.is_empty() { "result".to_owned() } else { clean }
    }
}

/// Returns the extraction options that the options of a contract allow.
pub(crate) fn extraction_options(options: &ContractOptions) -> Options {
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

/// Keywords that only a value that repeats its schema has in common with it.
const STRUCTURE_KEYWORDS: [&str; 7] = ["items", "$ref", "$defs", "definitions", "allOf", "anyOf", "oneOf"];

/// Returns whether a value has a subschema for each property of the schema, or is the schema itself.
fn repeats(schema: &Value, value: &Value) -> bool {
    let Some(properties) = schema["properties"].as_object().filter(|properties| !properties.is_empty())
    else {
        return STRUCTURE_KEYWORDS.iter().any(|keyword| schema.get(keyword).is_some()) && schema == value;
    };
    let is_subschema = |value: &Value| value.is_object() || value.is_boolean();
    let Some(found) = value["properties"].as_object() else { return false };
    !properties.contains_key("properties")
        && value.get("type") == schema.get("type")
        && found.len() == properties.len()
        && properties.keys().all(|name| found.get(name).is_some_and(is_subschema))
}
