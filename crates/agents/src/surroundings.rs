//! The surroundings of an agent: what a run needs beside the agent's own file.

use serde_json::{Map, Value};
use slipform_types::ALL_AGENTS;

use crate::blueprint::Findings;
use crate::{placeholders, tools};

/// Looks up what an agent refers to. Each function returns the reason why a run could not use it, or
/// `None` if it could.
#[derive(Clone, Copy)]
pub struct Surroundings<'a> {
    /// Looks up an agent that the agent delegates to or has its answers scored by.
    pub agent_problem: &'a dyn Fn(&str) -> Option<String>,
    /// Looks up a registered schema that the agent names.
    pub schema_problem: &'a dyn Fn(&str) -> Option<String>,
    /// Looks up the backend of a tier; of an agent without tiers if the tier is `None`.
    pub tier_problem: &'a dyn Fn(Option<&str>) -> Option<String>,
    /// Looks up an environment variable that a placeholder names.
    pub variable_problem: &'a dyn Fn(&str) -> Option<String>,
}

impl std::fmt::Debug for Surroundings<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Surroundings")
    }
}

impl Surroundings<'_> {
    /// Reports the tools, agents, tiers and variables of a definition that a run could not use.
    pub(crate) fn check(&self, definition: &Map<String, Value>, findings: &mut Findings) {
        self.check_tools(definition, findings);
        self.check_agents(definition, findings);
        self.check_schemas(definition, findings);
        // A procedural agent has no model.
        if definition.get("type").and_then(Value::as_str) != Some("procedural") {
            self.check_tiers(definition, findings);
        }
        for (path, variable) in placeholders::listed_variables(definition) {
            if let Some(problem) = (self.variable_problem)(&variable) {
                findings.problem(path, problem);
            }
        }
    }

    fn check_tools(&self, definition: &Map<String, Value>, findings: &mut Findings) {
        let servers = definition.get("mcp_servers").and_then(Value::as_object);
        let is_server = |name: &str| servers.is_some_and(|servers| servers.contains_key(name));
        for (index, name) in texts(definition, "tools") {
            if !tools::is_known(name, is_server) {
                findings.problem(format!("$.tools[{index}]"), tools::unknown(name));
            }
        }
    }

    fn check_agents(&self, definition: &Map<String, Value>, findings: &mut Findings) {
        let own = definition.get("name").and_then(Value::as_str);
        for (index, name) in texts(definition, "agents").filter(|(_, name)| *name != ALL_AGENTS) {
            if let Some(problem) = (self.agent_problem)(name).filter(|_| Some(name) != own) {
                findings.problem(format!("$.agents[{index}]"), problem);
            }
        }
        let Some(clarity) = definition.get("clarity").filter(|clarity| clarity.is_object()) else { return };
        let (path, scorer) = match clarity.get("agent") {
            None => ("$.clarity", Some("clarity")),
            Some(scorer) => ("$.clarity.agent", scorer.as_str()),
        };
        if let Some(problem) = scorer.and_then(|scorer| (self.agent_problem)(scorer)) {
            findings.problem(path, problem);
        }
    }

    fn check_schemas(&self, definition: &Map<String, Value>, findings: &mut Findings) {
        for key in ["output_schema_name", "default_output_schema_name"] {
            let name = definition.get(key).and_then(Value::as_str);
            findings.problems_at(&format!("$.{key}"), name.and_then(|name| (self.schema_problem)(name)));
        }
    }

    fn check_tiers(&self, definition: &Map<String, Value>, findings: &mut Findings) {
        let tier = definition.get("tier").and_then(Value::as_str);
        let steps: Vec<(usize, &str)> = texts(definition, "escalation").collect();
        if tier.is_none() && steps.is_empty() {
            findings.problems_at("$", (self.tier_problem)(None));
        }
        if let Some(tier) = tier {
            findings.problems_at("$.tier", (self.tier_problem)(Some(tier)));
        }
        for (index, step) in steps.into_iter().filter(|(_, step)| Some(*step) != tier) {
            findings.problems_at(&format!("$.escalation[{index}]"), (self.tier_problem)(Some(step)));
        }
    }
}

/// Returns the texts of a list that are not empty, with their indexes.
fn texts<'d>(definition: &'d Map<String, Value>, key: &str) -> impl Iterator<Item = (usize, &'d str)> {
    let list = definition.get(key).and_then(Value::as_array).into_iter().flatten().enumerate();
    list.filter_map(|(index, value)| Some((index, value.as_str()?))).filter(|(_, text)| !text.is_empty())
}
