//! Realistic agents, each with an input and a reply that satisfies its schema.

use serde_json::Value;

/// An agent with one input and one reply.
#[derive(Clone, Debug)]
pub struct Fixture {
    /// The name of the agent and of its folder in `fixtures/`.
    pub name: &'static str,
    /// The blueprint: `name`, `description`, `system_prompt`, `output_schema`, and optionally
    /// `parameters_schema`.
    pub agent: Value,
    /// A reply that satisfies the output schema.
    pub reply: Value,
    /// The prompt of the run.
    pub input: &'static str,
}

impl Fixture {
    /// Returns the agent's output schema.
    pub fn output_schema(&self) -> &Value {
        &self.agent["output_schema"]
    }

    /// Returns the reply as compact JSON.
    pub fn reply_text(&self) -> String {
        self.reply.to_string()
    }
}

macro_rules! fixture {
    ($name:literal) => {
        Fixture {
            name: $name,
            agent: parse(include_str!(concat!("../fixtures/", $name, "/agent.json"))),
            reply: parse(include_str!(concat!("../fixtures/", $name, "/reply.json"))),
            input: include_str!(concat!("../fixtures/", $name, "/input.txt")),
        }
    };
}

fn parse(text: &str) -> Value {
    serde_json::from_str(text).expect("a fixture is JSON")
}

/// Returns an agent that lists issues in a repository and takes `repo_path`.
pub fn code_analyzer() -> Fixture {
    fixture!("code-analyzer")
}

/// Returns an agent that lists and summarizes issues and takes text only.
pub fn code_analysis_result() -> Fixture {
    fixture!("code-analysis-result")
}

/// Returns an agent that reviews a pull request: enumerations, nested lists, bounded numbers, an optional
/// object.
pub fn pr_reviewer() -> Fixture {
    fixture!("pr-reviewer")
}

/// Returns an agent that lists vulnerabilities, with a reference into `definitions`.
pub fn security_scan_result() -> Fixture {
    fixture!("security-scan-result")
}

/// Returns an agent with the universal response schema, closed and mostly optional; the reply is a plan in
/// five steps.
pub fn universal_response() -> Fixture {
    fixture!("universal-response")
}

/// Returns all fixtures.
pub fn all() -> Vec<Fixture> {
    vec![code_analyzer(), code_analysis_result(), pr_reviewer(), security_scan_result(), universal_response()]
}
