//! Converts `kb.agent/1` documents to blueprints.
//!
//! | `kb.agent/1` | blueprint |
//! |---|---|
//! | `id`, `name`, `description` | `name`, `title`, `description` |
//! | `context.static.system` | `system_prompt`, its `${` kept as text: the format has no placeholders |
//! | `tools` (names, entries with an `id` or `name`, or a mapping by name) | `tools` |
//! | `llm.tier`, `llm.escalation` or `escalation` | `tier`, `escalation` |
//! | `limits.maxSteps`, `.maxToolCalls`, `.timeoutMs`, `llm.maxTokens` | `limits` |
//! | `output.schema` | `output_schema`, an object with properties |
//!
//! Other keys are reported as warnings, because another project defines the format.

use serde_json::{Map, Value};
use slipform_types::Blueprint;

use crate::blueprint::{self, Findings};
use crate::surroundings::Surroundings;
use crate::{Problem, placeholders};

const VERSION: &str = "kb.agent/1";

type Definition = Map<String, Value>;

/// Returns whether a definition declares this format, in any version.
pub(crate) fn is_kb(definition: &Definition) -> bool {
    definition.get("schema").and_then(Value::as_str).is_some_and(|schema| schema.starts_with("kb.agent"))
}

/// Converts a definition to a blueprint and checks it.
pub(crate) fn examine(
    definition: &Definition,
    fallback_name: Option<&str>,
    surroundings: Option<&Surroundings<'_>>,
    findings: &mut Findings,
) -> Option<Blueprint> {
    let version = definition.get("schema").and_then(Value::as_str).unwrap_or_default();
    if version != VERSION {
        let message = format!("unsupported version '{version}'; use '{VERSION}'");
        findings.problem("$.schema", message);
        return None;
    }
    let mut translation =
        Translation { findings, blueprint: Map::new(), places: vec![("$.name", "$.id".to_owned())] };
    translation.translate(definition);
    let Translation { blueprint, places, .. } = translation;
    let mut inner = Findings::default();
    let blueprint = blueprint::examine(blueprint, fallback_name, surroundings, &mut inner);
    let moved = |problem: Problem| Problem { path: document_path_of(&problem.path, &places), ..problem };
    inner.problems.into_iter().for_each(|problem| findings.add_problem(moved(problem)));
    inner.warnings.into_iter().for_each(|warning| findings.add_warning(moved(warning)));
    findings.more += inner.more;
    blueprint
}

/// Returns the path in the document for a path in the blueprint.
fn document_path_of(path: &str, places: &[(&'static str, String)]) -> String {
    let moved = places.iter().find_map(|(blueprint_path, document_path)| {
        let rest = path.strip_prefix(blueprint_path)?;
        (rest.is_empty() || rest.starts_with(['.', '['])).then(|| format!("{document_path}{rest}"))
    });
    moved.unwrap_or_else(|| path.to_owned())
}

struct Translation<'f> {
    findings: &'f mut Findings,
    blueprint: Definition,
    /// Pairs of a path in the blueprint and its path in the document.
    places: Vec<(&'static str, String)>,
}

impl Translation<'_> {
    fn translate(&mut self, document: &Definition) {
        let known = [
            "schema",
            "id",
            "name",
            "description",
            "context",
            "tools",
            "limits",
            "llm",
            "escalation",
            "output",
        ];
        self.warn_unknown(document, "$", &known);
        self.put("name", "$.name", "$.id", document.get("id"));
        self.put("title", "$.title", "$.name", document.get("name"));
        self.put("description", "$.description", "$.description", document.get("description"));
        self.escape("title");
        self.escape("description");
        if let Some(context) = self.section(document, "$", "context", &["static"])
            && let Some(fixed) = self.section(context, "$.context", "static", &["system"])
        {
            self.put("system_prompt", "$.system_prompt", "$.context.static.system", fixed.get("system"));
            self.escape("system_prompt");
        }
        if let Some(tools) = document.get("tools").filter(|tools| !tools.is_null()) {
            let names = self.tools(tools);
            self.put("tools", "$.tools", "$.tools", Some(&names));
        }
        self.model(document);
        self.limits(document);
        if let Some(output) = self.section(document, "$", "output", &["schema"]) {
            self.output(output);
        }
    }

    fn put(&mut self, key: &str, blueprint_path: &'static str, document_path: &str, value: Option<&Value>) {
        if let Some(value) = value.filter(|value| !value.is_null()) {
            self.blueprint.insert(key.to_owned(), value.clone());
            self.places.insert(0, (blueprint_path, document_path.to_owned()));
        }
    }

    /// Escapes `${` in a text, so that it is not read as a placeholder.
    fn escape(&mut self, key: &str) {
        if let Some(Value::String(text)) = self.blueprint.get_mut(key) {
            *text = placeholders::escape(text);
        }
    }

    fn limit(&mut self, key: &str, blueprint_path: &'static str, document_path: &str, value: Option<&Value>) {
        let Some(value) = value.filter(|value| !value.is_null()) else { return };
        let limits = self.blueprint.entry("limits").or_insert_with(|| Value::Object(Map::new()));
        if let Value::Object(limits) = limits {
            limits.insert(key.to_owned(), value.clone());
            self.places.insert(0, (blueprint_path, document_path.to_owned()));
        }
    }

    fn model(&mut self, document: &Definition) {
        let llm = self.section(document, "$", "llm", &["tier", "maxTokens", "escalation"]);
        if let Some(llm) = llm {
            self.put("tier", "$.tier", "$.llm.tier", llm.get("tier"));
            self.limit("max_tokens", "$.limits.max_tokens", "$.llm.maxTokens", llm.get("maxTokens"));
        }
        let ladders = [
            ("$.llm.escalation", llm.and_then(|llm| llm.get("escalation"))),
            ("$.escalation", document.get("escalation")),
        ];
        for (path, ladder) in ladders {
            match ladder {
                None | Some(Value::Null) => {}
                Some(Value::Object(ladder)) => {
                    let key = if ladder.contains_key("tiers") { "tiers" } else { "ladder" };
                    self.warn_unknown(ladder, path, &[key]);
                    self.put("escalation", "$.escalation", &format!("{path}.{key}"), ladder.get(key));
                }
                Some(ladder) => self.put("escalation", "$.escalation", path, Some(ladder)),
            }
        }
    }

    fn limits(&mut self, document: &Definition) {
        let known = ["maxSteps", "maxToolCalls", "timeoutMs", "timeout"];
        let Some(limits) = self.section(document, "$", "limits", &known) else { return };
        self.limit("max_steps", "$.limits.max_steps", "$.limits.maxSteps", limits.get("maxSteps"));
        let calls = limits.get("maxToolCalls");
        self.limit("max_tool_calls", "$.limits.max_tool_calls", "$.limits.maxToolCalls", calls);
        if limits.contains_key("timeout") {
            let message = "is read as milliseconds, like timeoutMs; write timeoutMs to be clear";
            self.findings.warning("$.limits.timeout", message);
        }
        for (key, path) in [("timeout", "$.limits.timeout"), ("timeoutMs", "$.limits.timeoutMs")] {
            let seconds = limits.get(key).map(|value| match value.as_u64() {
                // Rounded up, because a shorter limit would end runs too early.
                Some(milliseconds) => Value::from(milliseconds.div_ceil(1000)),
                None => value.clone(),
            });
            self.limit("timeout_seconds", "$.limits.timeout_seconds", path, seconds.as_ref());
        }
    }

    fn tools(&mut self, tools: &Value) -> Value {
        match tools {
            Value::Array(entries) => {
                let named = |entry: &Value| entry.get("id").or_else(|| entry.get("name")).cloned();
                let names = entries.iter().enumerate().map(|(index, entry)| {
                    let Value::Object(settings) = entry else { return entry.clone() };
                    self.warn_unknown(settings, &format!("$.tools[{index}]"), &["id", "name"]);
                    named(entry).unwrap_or_else(|| entry.clone())
                });
                Value::Array(names.collect())
            }
            Value::Object(tools) => {
                if let Some(allowed @ Value::Array(_)) = tools.get("allow") {
                    self.warn_unknown(tools, "$.tools", &["allow"]);
                    return self.tools(allowed);
                }
                let is_on = |value: &Value| *value != Value::Bool(false);
                Value::Array(
                    tools.iter().filter(|(_, on)| is_on(on)).map(|(name, _)| name.as_str().into()).collect(),
                )
            }
            other => other.clone(),
        }
    }

    fn output(&mut self, output: &Definition) {
        let Some(schema) = output.get("schema").filter(|schema| !schema.is_null()) else {
            self.findings.problem("$.output", "has no schema; add one, or leave output out for free text");
            return;
        };
        self.put("output_schema", "$.output_schema", "$.output.schema", Some(schema));
        if !schema.is_object() {
            return;
        }
        if schema.get("type").and_then(Value::as_str) != Some("object") {
            self.findings.problem(
                "$.output.schema.type",
                "must be \"object\": the result is submitted by a tool call",
            );
        }
        if !schema.get("properties").is_some_and(Value::is_object) {
            let message = "output.schema must have properties: they are what the tool call is made of";
            self.findings.problem("$.output.schema.properties", message);
        }
    }

    /// Returns the mapping under a key. Any other value is a problem.
    fn section<'d>(
        &mut self,
        parent: &'d Definition,
        path: &str,
        key: &str,
        known: &[&str],
    ) -> Option<&'d Definition> {
        let path = format!("{path}.{key}");
        match parent.get(key) {
            None | Some(Value::Null) => None,
            Some(Value::Object(section)) => {
                self.warn_unknown(section, &path, known);
                Some(section)
            }
            Some(_) => {
                self.findings.problem(path, format!("must be a mapping; its keys are {}", known.join(", ")));
                None
            }
        }
    }

    fn warn_unknown(&mut self, definition: &Definition, path: &str, known: &[&str]) {
        for key in definition.keys().filter(|key| !known.contains(&key.as_str())) {
            let segment = slipform_schema::json_path(&[slipform_schema::Segment::Key(key.clone())]);
            let place = format!("{path}{}", segment.trim_start_matches('$'));
            self.findings.warning(place, format!("the key '{key}' is not used"));
        }
    }
}
