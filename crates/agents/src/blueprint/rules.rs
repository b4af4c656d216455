//! Rules between the keys of a blueprint, and for the schemas inside it.
//!
//! Rules skip values of the wrong type; [`super::check_shape`] has already reported them.

use serde_json::{Map, Value};
use slipform_schema::{
    Schema, Segment, Shape, Types, json_path, lint, parse_pattern, schema_errors, universal,
};
use slipform_types::{ALL_AGENTS, AgentType, BUILTIN_TOOL_PREFIXES, CHECKING_TOOL};

use super::Findings;
use crate::names::{self, is_name};
use crate::{Problem, placeholders};

type Definition = Map<String, Value>;

pub(super) fn check(definition: &Definition, findings: &mut Findings) {
    check_names(definition, findings);
    check_clarity(definition, findings);
    check_servers(definition, findings);
    check_schemas(definition, findings);
    let kind = match definition.get("type").and_then(Value::as_str) {
        Some("procedural") => AgentType::Procedural,
        Some("orchestrator") => AgentType::Orchestrator,
        _ => AgentType::Autonomous,
    };
    match kind {
        AgentType::Procedural => check_procedural(definition, findings),
        AgentType::Autonomous => check_autonomous(definition, findings),
        AgentType::Orchestrator => check_orchestrator(definition, findings),
    }
    placeholders::check(definition, findings);
}

fn check_names(definition: &Definition, findings: &mut Findings) {
    let name = definition.get("name").and_then(Value::as_str);
    if let Some(name) = name.filter(|name| !is_name(name)) {
        findings.problem("$.name", format!("'{name}' cannot be an agent's name; {}", names::RULE));
    }
    for (index, agent) in strings(definition, "agents").enumerate() {
        let path = format!("$.agents[{index}]");
        if !agent.is_empty() && !is_name(agent) && agent != ALL_AGENTS {
            findings.problem(path, format!("'{agent}' cannot be an agent's name; {}", names::RULE));
        } else if Some(agent) == name {
            findings.warning(path, "an agent cannot delegate to itself; remove it");
        }
    }
}

/// Checks that an agent does not score itself: an agent that is already running in the chain cannot
/// be started.
fn check_clarity(definition: &Definition, findings: &mut Findings) {
    let Some(wanted) = definition.get("clarity") else { return };
    let scorer = wanted.get("agent").map_or(Some("clarity"), Value::as_str);
    let name = definition.get("name").and_then(Value::as_str);
    if let Some(scorer) = scorer.filter(|scorer| !is_name(scorer)) {
        findings.problem("$.clarity.agent", format!("'{scorer}' cannot be an agent's name; {}", names::RULE));
    } else if scorer.is_some() && scorer == name {
        let message = "an agent cannot score its own answers; name another one as clarity.agent";
        findings.problem("$.clarity", message);
    }
}

fn check_servers(definition: &Definition, findings: &mut Findings) {
    let names = definition.get("mcp_servers").and_then(Value::as_object).into_iter().flatten();
    for (name, _) in names {
        let path = json_path(&["mcp_servers", name].map(|key| Segment::Key(key.to_owned())));
        if BUILTIN_TOOL_PREFIXES.contains(&name.as_str()) {
            findings.problem(path, format!("'{name}:' is the prefix of built-in tools; choose another name"));
        } else if !is_name(name) {
            findings.problem(path, format!("'{name}' cannot be a server's name; {}", names::RULE));
        }
    }
}

/// The keys of a schema that callers cannot replace, and of one that they can.
const OWN_KEYS: [&str; 2] = ["output_schema", "output_schema_name"];
const DEFAULT_KEYS: [&str; 2] = ["default_output_schema", "default_output_schema_name"];

fn has_any(definition: &Definition, keys: &[&str]) -> bool {
    keys.iter().any(|key| definition.contains_key(*key))
}

fn has_contract(definition: &Definition) -> bool {
    has_any(definition, &OWN_KEYS) || has_any(definition, &DEFAULT_KEYS)
}

fn check_schemas(definition: &Definition, findings: &mut Findings) {
    if let Some(schema) = compile(definition, "parameters_schema", findings)
        && !describes_object(&schema.shape())
    {
        let message = "parameters must be an object; set \"type\": \"object\" and describe its properties";
        findings.problem("$.parameters_schema", message);
    }
    let own = compile(definition, "output_schema", findings);
    if definition.contains_key("response_type")
        && own.as_ref().is_some_and(|own| !universal::is_universal(own))
    {
        let message = format!("has no effect: the output_schema is not that of {}", universal::NAME);
        findings.warning("$.response_type", message);
    }
    let default = compile(definition, "default_output_schema", findings);
    let default_key = DEFAULT_KEYS.into_iter().find(|key| definition.contains_key(*key));
    if let Some(key) = default_key.filter(|_| has_any(definition, &OWN_KEYS)) {
        let message = "has no effect beside output_schema, which a caller cannot replace; keep one of them";
        findings.problem(format!("$.{key}"), message);
    }
    let (key, output) = match (own, default) {
        (Some(own), _) => ("$.output_schema", Some(own)),
        (None, default) => ("$.default_output_schema", default),
    };
    check_example(definition, output.as_ref(), findings);
    let strategy =
        definition.get("default_output_schema_options").and_then(|options| options.get("strategy"));
    if let Some(output) = output
        && strategy.and_then(Value::as_str) == Some("tool")
        && !describes_object(&output.shape())
    {
        findings.warning(
            key,
            "a tool takes an object, so the result is wrapped as {\"result\": …} for the model",
        );
    }
}

/// Compiles the schema under a key and reports its problems and warnings.
fn compile(definition: &Definition, key: &str, findings: &mut Findings) -> Option<Schema> {
    let source = definition.get(key).filter(|source| source.is_object() || source.is_boolean())?;
    let prefix = format!("$.{key}");
    match Schema::compile(source) {
        Ok(schema) => {
            for warning in lint(source) {
                findings.add_warning(Problem::under(&prefix, &warning.path, warning.message));
            }
            Some(schema)
        }
        Err(_) => {
            for error in schema_errors(source) {
                findings.add_problem(Problem::of_schema(&prefix, &error));
            }
            None
        }
    }
}

fn describes_object(shape: &Shape<'_>) -> bool {
    let types = shape.types();
    if types != Types::ALL {
        return types == Types::OBJECT;
    }
    let branches = shape.alternatives().unwrap_or_default();
    !branches.is_empty() && branches.iter().all(|branch| branch.types() == Types::OBJECT)
}

fn check_example(definition: &Definition, output: Option<&Schema>, findings: &mut Findings) {
    let Some(example) = definition.get("output_example") else { return };
    if let Some(output) = output {
        let mut violations = output.violations(example);
        if violations.is_empty() && universal::is_universal(output) {
            let own = definition.get("response_type").and_then(Value::as_str);
            violations = universal::pairing_violations(example, own);
        }
        for violation in violations.list {
            findings.add_problem(Problem::under("$.output_example", &violation.path, violation.message));
        }
        findings.more += violations.more;
    } else if !has_contract(definition) {
        findings.warning("$.output_example", "has no effect without an output_schema");
    }
}

fn check_procedural(definition: &Definition, findings: &mut Findings) {
    match definition.get("command") {
        None => {
            findings.problem(
                "$.command",
                "a procedural agent needs the program to run, such as [\"./scan\", \"--json\"]",
            );
        }
        Some(command) if command.get(0).and_then(Value::as_str) == Some("") => {
            findings.problem("$.command[0]", "the program's name is empty");
        }
        Some(_) => {}
    }
    for key in [
        "system_prompt",
        "protocol",
        "tools",
        "opening",
        "agents",
        "mcp_servers",
        "cites",
        "changes",
        "checks",
        "clarity",
        "tier",
        "escalation",
    ] {
        if definition.contains_key(key) {
            findings.warning(format!("$.{key}"), "has no effect: a procedural agent has no model");
        }
    }
}

/// Checks an orchestrator. Its model only plans and summarizes; other agents do the work.
fn check_orchestrator(definition: &Definition, findings: &mut Findings) {
    check_no_command(definition, findings);
    if strings(definition, "agents").next().is_none() {
        let message = "an orchestrator needs agents for its subtasks; name them, or write [\"*\"] for all agents of the project";
        findings.problem("$.agents", message);
    }
    check_patterns(definition, findings);
    check_has_contract(definition, &["cites"], findings);
    for key in ["protocol", "tools", "opening", "mcp_servers", "changes", "checks"] {
        if definition.contains_key(key) {
            let message =
                "has no effect: an orchestrator gives subtasks to its agents, which have tools of their own";
            findings.warning(format!("$.{key}"), message);
        }
    }
}

/// Checks that `cites`, `changes` and `checks` hold supported path patterns.
fn check_patterns(definition: &Definition, findings: &mut Findings) {
    for key in ["cites", "changes", "checks"] {
        for (index, place) in
            strings(definition, key).enumerate().filter(|(_, place)| parse_pattern(place).is_none())
        {
            let message = format!(
                "'{place}' is not a supported path pattern; write one such as $.findings[*].files[*]"
            );
            findings.problem(format!("$.{key}[{index}]"), message);
        }
    }
}

/// Checks that an agent with rules for its results has structured ones: a text answer has no paths to
/// compare. A caller may still bring a schema, so this is not an error.
fn check_has_contract(definition: &Definition, keys: &[&str], findings: &mut Findings) {
    if has_contract(definition) {
        return;
    }
    for key in keys.iter().filter(|key| definition.contains_key(**key)) {
        let message = "has no effect on text: only structured results are checked; add output_schema or default_output_schema";
        findings.warning(format!("$.{key}"), message);
    }
}

fn check_no_command(definition: &Definition, findings: &mut Findings) {
    if definition.contains_key("command") {
        let message = "only a procedural agent has a command; remove it, or set type: procedural";
        findings.problem("$.command", message);
    }
    if definition.contains_key("parameters_as") {
        findings.warning("$.parameters_as", "has no effect: only a procedural agent has a program");
    }
}

fn check_autonomous(definition: &Definition, findings: &mut Findings) {
    check_no_command(definition, findings);
    let tools: Vec<&str> = strings(definition, "tools").collect();
    let servers = definition.get("mcp_servers").and_then(Value::as_object);
    let is_listed = |name: &str| {
        let server = name.split_once(':').map(|(server, _)| server);
        tools.contains(&name)
            || servers.zip(server).is_some_and(|(servers, server)| servers.contains_key(server))
    };
    let opening = definition.get("opening").and_then(Value::as_array).into_iter().flatten();
    for (index, call) in opening.enumerate() {
        if let Some(name) = call.get("tool").and_then(Value::as_str).filter(|name| !is_listed(name)) {
            let message = format!("'{name}' is not one of the agent's tools; add it there");
            findings.problem(format!("$.opening[{index}].tool"), message);
        }
    }
    check_patterns(definition, findings);
    check_has_contract(definition, &["cites", "changes", "checks"], findings);
    if definition.contains_key("checks") && !tools.contains(&CHECKING_TOOL) {
        let message = format!("has no effect: nothing is checked without the tool {CHECKING_TOOL}");
        findings.warning("$.checks", message);
    }
}

fn strings<'d>(definition: &'d Definition, key: &str) -> impl Iterator<Item = &'d str> {
    definition.get(key).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}
