//! The compiled schema.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, OnceLock};

use jsonschema::error::ValidationErrorKind;
use jsonschema::{Draft, PatternOptions, Registry, Retrieve, Uri, Validator};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::Error;
use crate::budget::{self, EXPLANATION_STEPS_MAX, VALIDATION_STEPS_MAX, metered};
use crate::explain::explain;
use crate::google;
use crate::impossible::impossible_part;
use crate::limits::{self, SCHEMA_BYTES_MAX, VALUE_DEPTH_MAX};
use crate::memory;
use crate::refs::{REFERENCE_KEYWORDS, References};
use crate::shape::Shape;
use crate::violation::{Violation, Violations};
use crate::wrap::needs_wrapping;

/// The most backtracking steps of a pattern with look-around on one string. Patterns without look-around run
/// on a linear engine and never reach it. Beyond it, the string is reported as a violation.
const PATTERN_BACKTRACK_MAX: usize = 10_000;

/// The most subschema applications in an explanation of the first violation only. A union keeps the errors of all
/// its branches; that many take about 8 MB. Beyond it, the violation has no location.
const SHORT_EXPLANATION_STEPS_MAX: u64 = 20_000;

/// The largest size of one compiled pattern, in bytes. The compiler refuses schemas with larger ones.
const PATTERN_BYTES_MAX: usize = 2 * 1024 * 1024;

/// A compiled JSON Schema. Validation runs in bounded time and stack, and no reference leaves the document.
#[derive(Debug, Clone)]
pub struct Schema {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    source: Arc<Value>,
    hash: String,
    validator: Validator,
    references: References,
    is_metered: bool,
    chain: usize,
    memory_bytes: u64,
    compiler: Compiler,
    explainer: OnceLock<Option<Validator>>,
    facts: OnceLock<Facts>,
}

/// What follows from the document alone, found when it is first asked for.
#[derive(Debug)]
struct Facts {
    impossible_part: Option<String>,
    needs_wrapping: bool,
}

/// Compiler settings; [`Schema::compile`] uses the defaults.
#[derive(Debug, Clone)]
pub struct Compiler {
    /// Whether `format` is asserted. The default is `true`, in every draft.
    pub assert_formats: bool,
    /// The draft for schemas without `$schema`.
    pub default_draft: Draft,
    /// Documents that references may lead to, by URI. No other external document is reachable.
    pub documents: Vec<(String, Value)>,
}

impl Default for Compiler {
    fn default() -> Self {
        Compiler { assert_formats: true, default_draft: Draft::Draft7, documents: Vec::new() }
    }
}

impl Compiler {
    /// Compiles `source`, which may also be in the form of Google's APIs (`"type": "OBJECT"`).
    ///
    /// # Errors
    /// Returns an error if the schema is invalid, refers outside itself, or exceeds a limit.
    pub fn compile(&self, source: &Value) -> Result<Schema, Error> {
        limits::check_depth(source)?;
        limits::check_listed_numbers(source)?;
        let text = source.to_string();
        let bytes = text.len() as u64;
        if bytes > SCHEMA_BYTES_MAX {
            return Err(Error::too_large(
                "the length of the schema in bytes",
                bytes,
                SCHEMA_BYTES_MAX,
                "split the contract into smaller ones",
            ));
        }
        memory::check_locations(source)?;
        let standard = google::standard_form(source);
        let source = &*standard;
        let references = References::collect(source);
        let complexity = limits::measure(source, &references)?;
        let memory_bytes = memory::estimate(source, &references)?;
        let validator = if complexity.needs_budget {
            self.validator(source, &budget::metered_copy(source, &references))?
        } else {
            self.validator(source, source)?
        };
        let inner = Inner {
            source: Arc::new(source.clone()),
            hash: hash(&text),
            validator,
            references,
            is_metered: complexity.needs_budget,
            chain: complexity.chain,
            memory_bytes,
            compiler: self.clone(),
            explainer: OnceLock::new(),
            facts: OnceLock::new(),
        };
        Ok(Schema { inner: Arc::new(inner) })
    }

    fn validator(&self, source: &Value, prepared: &Value) -> Result<Validator, Error> {
        let patterns = PatternOptions::fancy_regex()
            .backtrack_limit(PATTERN_BACKTRACK_MAX)
            .size_limit(PATTERN_BYTES_MAX);
        let mut options = jsonschema::options()
            .with_retriever(RefuseRetrieval)
            .should_validate_formats(self.assert_formats)
            .with_pattern_options(patterns)
            .with_keyword(budget::KEYWORD, |_, _, _| Ok(Box::new(budget::Step)));
        if self.assert_formats {
            // Authors use these newer formats in older drafts and expect them to be asserted.
            for format in ["uuid", "duration"] {
                options = options.with_format(format, move |text: &str| is_format(format, text));
            }
        }
        if source.get("$schema").is_none() {
            options = options.with_draft(self.default_draft);
        }
        let refused = |error: jsonschema::ReferencingError| Error::Reference {
            path: "$".to_owned(),
            reference: String::new(),
            reason: error.to_string(),
        };
        let built = if self.documents.is_empty() {
            options.build(prepared)
        } else {
            let registry = Registry::new()
                .retriever(RefuseRetrieval)
                .draft(self.default_draft)
                .extend(self.documents.iter().map(|(uri, document)| (uri.clone(), document)))
                .and_then(jsonschema::RegistryBuilder::prepare)
                .map_err(refused)?;
            options.with_registry(&registry).build(prepared)
        };
        built.map_err(|error| compile_error(source, error))
    }
}

impl Schema {
    /// Compiles with the default settings: draft 7 unless `$schema` names another, `format` asserted, no
    /// external documents.
    ///
    /// # Errors
    /// Returns an error if the schema is invalid, refers outside itself, or exceeds a limit.
    pub fn compile(source: &Value) -> Result<Schema, Error> {
        Compiler::default().compile(source)
    }

    /// Returns the schema as it was given, in its own key order. Google's form is returned as JSON Schema.
    pub fn source(&self) -> &Value {
        &self.inner.source
    }

    /// Returns what [`Schema::source`] returns, to be shared.
    pub fn shared_source(&self) -> &Arc<Value> {
        &self.inner.source
    }

    /// Returns `sha256:` and the hash of the compact JSON text of the schema as it was given, which depends on
    /// key order.
    pub fn hash(&self) -> &str {
        &self.inner.hash
    }

    /// Returns an upper bound of the memory that the schema holds, in bytes. At most twice
    /// [`COMPILED_BYTES_MAX`](crate::COMPILED_BYTES_MAX).
    pub fn memory_bytes(&self) -> u64 {
        // Explaining the first violation compiles a second validator.
        if self.inner.is_metered { self.inner.memory_bytes } else { self.inner.memory_bytes * 2 }
    }

    /// Returns a view of the schema that answers questions about expected values.
    pub fn shape(&self) -> Shape<'_> {
        Shape::new(&self.inner.source, &self.inner.references)
    }

    /// Returns the JSONPath of a part that no value satisfies, if the whole schema depends on it.
    pub fn impossible_part(&self) -> Option<&str> {
        self.facts().impossible_part.as_deref()
    }

    /// Returns whether a value may be something else than an object, as [`needs_wrapping`](crate::needs_wrapping) does.
    pub fn needs_wrapping(&self) -> bool {
        self.facts().needs_wrapping
    }

    fn facts(&self) -> &Facts {
        self.inner.facts.get_or_init(|| Facts {
            impossible_part: impossible_part(self.source()),
            needs_wrapping: needs_wrapping(self.source()),
        })
    }

    /// Returns whether `value` satisfies the schema.
    pub fn is_valid(&self, value: &Value) -> bool {
        let depth = limits::depth(value, VALUE_DEPTH_MAX);
        depth <= VALUE_DEPTH_MAX && self.is_valid_at_depth(value, depth)
    }

    /// Returns what [`Schema::is_valid`] returns, for a value whose depth is known and at most
    /// [`VALUE_DEPTH_MAX`].
    pub fn is_valid_at_depth(&self, value: &Value, depth: usize) -> bool {
        let inner = &*self.inner;
        if !inner.is_metered && inner.chain * depth <= LEVELS_ON_STACK_MAX {
            return inner.validator.is_valid(value);
        }
        self.run(depth, inner.validation_steps(), || inner.validator.is_valid(value)).unwrap_or(false)
    }

    /// Returns the violations of `value` in document order; empty if it is valid.
    pub fn violations(&self, value: &Value) -> Violations {
        let depth = limits::depth(value, VALUE_DEPTH_MAX);
        if depth > VALUE_DEPTH_MAX {
            return single(format!("nested deeper than the {VALUE_DEPTH_MAX} levels allowed; flatten it"));
        }
        // Explaining visits every branch of every union. Deciding validity is much cheaper, so it comes
        // first.
        let inner = &*self.inner;
        match self.run(depth, inner.validation_steps(), || inner.validator.is_valid(value)) {
            Some(true) => return Violations::default(),
            Some(false) => {}
            None => return single(TOO_COSTLY.to_owned()),
        }
        let explainer = inner.explainer();
        self.run(depth, Some(EXPLANATION_STEPS_MAX), || {
            explain(value, &inner.source, explainer.iter_errors(value))
        })
        .unwrap_or_else(|| self.first_within(value, EXPLANATION_STEPS_MAX))
    }

    /// Returns the first violation of an invalid value of up to [`VALUE_DEPTH_MAX`] levels. It takes less memory
    /// than [`Schema::violations`], which holds the errors of the whole value.
    pub fn first_violation(&self, value: &Value) -> Violations {
        self.first_within(value, SHORT_EXPLANATION_STEPS_MAX)
    }

    fn first_within(&self, value: &Value, steps: u64) -> Violations {
        let inner = &*self.inner;
        let depth = limits::depth(value, VALUE_DEPTH_MAX);
        let first = || explain(value, &inner.source, inner.explainer().validate(value).err().into_iter());
        self.run(depth, Some(steps), first).unwrap_or_else(|| single(TOO_ENTANGLED.to_owned()))
    }

    /// Runs a check within a step budget, on a larger stack if needed. Returns `None` if it exceeds the
    /// budget.
    fn run<T: Send>(&self, depth: usize, steps: Option<u64>, check: impl FnOnce() -> T + Send) -> Option<T> {
        let check = || match steps {
            Some(steps) => metered(steps, check),
            None => Some(check()),
        };
        if self.inner.chain * depth <= LEVELS_ON_STACK_MAX {
            return check();
        }
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().stack_size(DEEP_STACK_BYTES).spawn_scoped(scope, check);
            thread.ok().and_then(|running| running.join().ok()).flatten()
        })
    }
}

impl Inner {
    /// Returns the step budget for deciding validity; `None` if no budget is needed.
    fn validation_steps(&self) -> Option<u64> {
        self.is_metered.then_some(VALIDATION_STEPS_MAX)
    }

    /// Returns the validator for explanations. It is always metered, because it keeps the errors of every
    /// branch.
    fn explainer(&self) -> &Validator {
        if self.is_metered {
            return &self.validator;
        }
        let build = || {
            let metered = budget::metered_copy(&self.source, &self.references);
            self.compiler.validator(&self.source, &metered).ok()
        };
        // This schema compiled before. If compiling fails now, the unmetered validator explains.
        self.explainer.get_or_init(build).as_ref().unwrap_or(&self.validator)
    }
}

/// The most nested subschema applications on the caller's stack. Deeper validation runs on its own thread.
const LEVELS_ON_STACK_MAX: usize = 400;

/// The stack of the deepest validation: the longest chain at every level of the deepest value. It reserves
/// address space; only used pages take memory.
const DEEP_STACK_BYTES: usize = 256 * 1024 * 1024;

const TOO_COSTLY: &str =
    "checking this value against the schema takes too many steps; simplify the schema's recursion";

const TOO_ENTANGLED: &str =
    "does not satisfy the schema; its alternatives are too entangled to say where, simplify them";

fn single(message: String) -> Violations {
    let violation =
        Violation { path: "$".to_owned(), message, schema_path: String::new(), value: Value::Null };
    Violations { list: vec![violation], more: 0 }
}

/// Returns the hash of a schema, as [`Schema::hash`] does. Does not compile it.
pub fn schema_hash(source: &Value) -> String {
    hash(&source.to_string())
}

/// Returns `sha256:` and the hash of a text.
pub(crate) fn hash(text: &str) -> String {
    use std::fmt::Write as _;
    Sha256::digest(text.as_bytes()).iter().fold(String::from("sha256:"), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    })
}

/// Returns whether a text has a format, as defined by the latest draft.
fn is_format(format: &str, text: &str) -> bool {
    static VALIDATORS: LazyLock<HashMap<&'static str, Validator>> = LazyLock::new(|| {
        let build = |format: &'static str| {
            let options = jsonschema::options().with_draft(Draft::Draft202012).should_validate_formats(true);
            Some((format, options.build(&serde_json::json!({"format": format})).ok()?))
        };
        ["uuid", "duration"].into_iter().filter_map(build).collect()
    });
    VALIDATORS.get(format).is_none_or(|validator| validator.is_valid(&Value::from(text)))
}

/// Returns every reason why a document cannot be compiled with the default settings; none if it can be. The
/// rules of its draft are checked everywhere, other rules up to the first violation.
///
/// ```
/// use slipform_schema::schema_errors;
/// use serde_json::json;
///
/// let schema = json!({"type": "objekt", "properties": {"n": {"type": "integr"}}});
/// let errors = schema_errors(&schema);
/// assert_eq!(errors.len(), 2);
/// assert!(errors[1].to_string().starts_with("$.properties.n.type: 'integr' is not one of"));
/// ```
pub fn schema_errors(source: &Value) -> Vec<Error> {
    let Err(first) = Schema::compile(source) else { return Vec::new() };
    let Error::Invalid { path, .. } = &first else { return vec![first] };
    let standard = google::standard_form(source);
    let rules = match standard.get("$schema") {
        None => Ok(jsonschema::draft7::meta::validator()),
        Some(_) => jsonschema::meta::validator_for(&standard),
    };
    let violations = match &rules {
        Ok(rules) => explain(&standard, &Value::Null, rules.iter_errors(&standard)).list,
        Err(_) => Vec::new(),
    };
    let is_first_known = violations.iter().any(|violation| violation.path == *path);
    let all = violations
        .into_iter()
        .map(|violation| Error::Invalid { path: violation.path, message: violation.message });
    if is_first_known { all.collect() } else { std::iter::once(first).chain(all).collect() }
}

/// Refuses every document that is not in the schema or the registry: a user's `$ref` must never open a file
/// or a socket.
struct RefuseRetrieval;

impl Retrieve for RefuseRetrieval {
    fn retrieve(&self, _: &Uri<String>) -> Result<Value, Box<dyn std::error::Error + Send + Sync>> {
        Err("only references inside the schema are followed; copy the definition into $defs".into())
    }
}

/// Converts a compile error of the validator, and locates the reference that caused it.
fn compile_error(source: &Value, error: jsonschema::ValidationError<'_>) -> Error {
    let ValidationErrorKind::Referencing(cause) = error.kind() else {
        let plain = error.to_string();
        let violations = explain(source, &Value::Null, std::iter::once(error));
        return match violations.list.into_iter().next() {
            Some(first) => Error::Invalid { path: first.path, message: first.message },
            None => Error::Invalid { path: "$".to_owned(), message: plain },
        };
    };
    let (needle, reason) = match cause {
        jsonschema::ReferencingError::Unretrievable { uri, source } => (uri.clone(), source.to_string()),
        jsonschema::ReferencingError::PointerToNowhere { pointer } => {
            (pointer.clone(), "the schema has no such location".to_owned())
        }
        jsonschema::ReferencingError::NoSuchAnchor { anchor } => {
            (anchor.clone(), "the schema has no such anchor".to_owned())
        }
        jsonschema::ReferencingError::UnknownSpecification { specification } => {
            return Error::Invalid {
                path: "$.$schema".to_owned(),
                message: format!(
                    "'{specification}' is not a known draft; use draft-07, 2019-09 or 2020-12, or leave it out for draft-07"
                ),
            };
        }
        other => (String::new(), other.to_string()),
    };
    let (path, reference) = find_reference(source, &needle).unwrap_or_else(|| ("$".to_owned(), needle));
    Error::Reference { path, reference, reason }
}

/// Returns the JSONPath of the reference that mentions `needle`, and the reference as written.
fn find_reference(root: &Value, needle: &str) -> Option<(String, String)> {
    let mut pending = vec![root];
    while let Some(value) = pending.pop() {
        match value {
            Value::Object(object) => {
                for keyword in REFERENCE_KEYWORDS {
                    if let Some(found @ Value::String(reference)) = object.get(keyword)
                        && (reference.contains(needle) || needle.contains(reference.trim_end_matches('#')))
                        && !reference.is_empty()
                    {
                        return Some((limits::locate(root, found), reference.clone()));
                    }
                }
                pending.extend(object.values());
            }
            Value::Array(items) => pending.extend(items),
            _ => {}
        }
    }
    None
}
