//! Contracts and tools from the schemas of requests. Clients send the same few schemas again and again, so each is prepared
//! once.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use serde_json::{Map, Value};
use slipform_schema::{Cache, SCHEMA_BYTES_MAX, declare_draft};
use slipform_types::{Contract, ContractOptions, ContractSource};

use crate::error::ApiError;

/// The most memory of the schemas that are kept, in bytes. Beyond it all are dropped, because preparing a usual schema again
/// takes less than 1 ms.
const KEPT_BYTES_MAX: u64 = 64 * 1024 * 1024;

/// The most contracts that are kept of one schema. They differ in their names and options.
const CONTRACTS_MAX: usize = 16;

static PREPARED: LazyLock<PreparedSchemas> = LazyLock::new(PreparedSchemas::default);

/// A schema in a request.
#[derive(Debug, Clone, Copy)]
pub(super) struct SchemaText<'a> {
    /// The JSON text.
    pub(super) text: &'a str,
    /// The member of the request that has it.
    pub(super) param: &'a str,
    /// What an error calls it.
    pub(super) title: &'a str,
}

/// The name, the description and the options of a contract.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ContractTerms {
    pub(super) name: Option<String>,
    pub(super) description: Option<String>,
    pub(super) options: ContractOptions,
}

/// The schemas that were prepared, by their text.
#[derive(Default)]
struct PreparedSchemas {
    kept: Mutex<KeptSchemas>,
}

#[derive(Default)]
struct KeptSchemas {
    by_text: HashMap<Box<str>, PreparedSchema>,
    /// An upper bound of the memory of all.
    bytes: u64,
}

/// A schema that compiles, in the draft that it is written in.
#[derive(Clone)]
struct PreparedSchema {
    source: Arc<Value>,
    /// An upper bound of the memory of the source. Each contract has a copy.
    bytes: u64,
    contracts: Vec<(ContractTerms, Arc<Contract>)>,
}

/// Returns whether a schema was prepared, so that using it compiles nothing.
pub(super) fn is_prepared(text: &str) -> bool {
    PREPARED.kept().by_text.contains_key(text)
}

/// Returns the contract with a schema.
///
/// # Errors
/// Says why the schema cannot be used.
pub(super) fn contract(schema: SchemaText<'_>, terms: ContractTerms) -> Result<Arc<Contract>, ApiError> {
    if let Some(known) = PREPARED.contract(schema.text, &terms) {
        return Ok(known);
    }
    let mut source = Value::clone(&*source(schema)?);
    // Models read what the client says about the answer as a part of the schema.
    if let (Some(description), Some(keywords)) = (&terms.description, source.as_object_mut()) {
        keywords.entry("description").or_insert_with(|| Value::from(description.as_str()));
    }
    let compiled = Cache::shared().compile(&source).map_err(|error| schema.error(&error.to_string()))?;
    let contract = Arc::new(Contract {
        source: ContractSource::Inline,
        schema_name: terms.name.clone(),
        hash: compiled.hash().to_owned(),
        // Contracts share the compiled schema's source, so that it is found without a comparison.
        schema: if *compiled.source() == source {
            compiled.shared_source().clone()
        } else {
            Arc::new(source)
        },
        options: terms.options.clone(),
        example: None,
    });
    PREPARED.keep_contract(schema.text, terms, contract.clone());
    Ok(contract)
}

/// Returns a schema in the draft that it is written in.
///
/// # Errors
/// Says why the schema cannot be used.
pub(super) fn source(schema: SchemaText<'_>) -> Result<Arc<Value>, ApiError> {
    if let Some(known) = PREPARED.kept().by_text.get(schema.text) {
        return Ok(known.source.clone());
    }
    if schema.text.len() as u64 > SCHEMA_BYTES_MAX {
        return Err(schema.error(&format!("the schema has more than {SCHEMA_BYTES_MAX} bytes")));
    }
    let mut source: Value =
        serde_json::from_str(schema.text).map_err(|error| schema.error(&error.to_string()))?;
    declare_draft(&mut source).map_err(|error| schema.error(&error.to_string()))?;
    let compiled = Cache::shared().compile(&source).map_err(|error| schema.error(&error.to_string()))?;
    let source = Arc::new(source);
    PREPARED.keep(schema.text, source.clone(), compiled.memory_bytes());
    Ok(source)
}

/// Returns the schema of a tool without parameters.
pub(super) fn no_parameters() -> Value {
    let members = [("type", Value::from("object")), ("properties", Value::Object(Map::new()))];
    members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

impl SchemaText<'_> {
    pub(super) fn error(&self, reason: &str) -> ApiError {
        ApiError::schema(self.param.to_owned(), format!("{}: {reason}", self.title))
    }
}

impl PreparedSchemas {
    fn kept(&self) -> MutexGuard<'_, KeptSchemas> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn contract(&self, text: &str, terms: &ContractTerms) -> Option<Arc<Contract>> {
        let kept = self.kept();
        let contracts = &kept.by_text.get(text)?.contracts;
        contracts.iter().find(|(known, _)| known == terms).map(|(_, contract)| contract.clone())
    }

    fn keep(&self, text: &str, source: Arc<Value>, bytes: u64) {
        let mut kept = self.kept();
        if kept.reserve(bytes) {
            let schema = PreparedSchema { source, bytes, contracts: Vec::new() };
            kept.by_text.insert(text.into(), schema);
        }
    }

    fn keep_contract(&self, text: &str, terms: ContractTerms, contract: Arc<Contract>) {
        let mut kept = self.kept();
        let Some(bytes) = kept.by_text.get(text).map(|schema| schema.bytes) else { return };
        if kept.reserve(bytes)
            && let Some(schema) = kept.by_text.get_mut(text)
        {
            if schema.contracts.len() >= CONTRACTS_MAX {
                schema.contracts.clear();
            }
            schema.contracts.push((terms, contract));
        }
    }
}

impl KeptSchemas {
    /// Makes room. Returns whether there can be enough.
    fn reserve(&mut self, bytes: u64) -> bool {
        if self.bytes + bytes > KEPT_BYTES_MAX {
            *self = KeptSchemas::default();
        }
        self.bytes += bytes;
        self.bytes <= KEPT_BYTES_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema(text: &str) -> SchemaText<'_> {
        SchemaText { text, param: "response_format.json_schema.schema", title: "invalid schema" }
    }

    fn terms(name: &str) -> ContractTerms {
        ContractTerms { name: Some(name.to_owned()), description: None, options: ContractOptions::default() }
    }

    #[test]
    fn contract_is_prepared_once_for_the_same_terms() {
        let text = r#"{"type": "object", "title": "prepared once"}"#;
        assert!(!is_prepared(text));
        let first = contract(schema(text), terms("a")).unwrap();
        assert!(is_prepared(text));
        assert!(Arc::ptr_eq(&first, &contract(schema(text), terms("a")).unwrap()));
        let other = contract(schema(text), terms("b")).unwrap();
        assert_eq!((other.schema_name.as_deref(), &other.schema), (Some("b"), &first.schema));
    }

    #[test]
    fn description_of_the_answer_is_a_part_of_the_schema() {
        let described = |text| {
            let terms = ContractTerms { description: Some("An invoice.".to_owned()), ..terms("a") };
            contract(schema(text), terms).unwrap().schema["description"].clone()
        };
        assert_eq!(described(r#"{"type": "object"}"#), "An invoice.");
        assert_eq!(described(r#"{"type": "object", "description": "Own."}"#), "Own.");
    }

    #[test]
    fn schema_is_read_in_the_draft_that_it_is_written_in() {
        let pair = contract(schema(r#"{"prefixItems": [{"type": "string"}]}"#), terms("pair")).unwrap();
        assert_eq!(pair.schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    }

    #[test]
    fn kept_schemas_are_bounded_in_bytes() {
        let prepared = PreparedSchemas::default();
        for number in 0..10 {
            prepared.keep(&number.to_string(), Arc::new(Value::Null), KEPT_BYTES_MAX / 4);
            assert!(prepared.kept().bytes <= KEPT_BYTES_MAX);
        }
        assert_eq!(prepared.kept().by_text.len(), 2);
        prepared.keep("large", Arc::new(Value::Null), KEPT_BYTES_MAX + 1);
        assert!(!prepared.kept().by_text.contains_key("large"));
    }

    #[test]
    fn unusable_schema_is_refused_with_its_place() {
        for text in
            [r#"{"type": 5}"#, r#"{"$ref": "http://a/b"}"#, r#"{"prefixItems": [], "dependencies": {}}"#]
        {
            let error = contract(schema(text), terms("a")).unwrap_err();
            assert_eq!((error.status, error.code), (400, "invalid_json_schema"), "{text}");
            assert!(error.message.starts_with("invalid schema: $"), "{}", error.message);
        }
    }
}
