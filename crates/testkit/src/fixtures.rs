//! Agents as people write them, each with an input and a reply that its schema accepts.

use serde_json::Value;

/// An agent and one run of it.
#[derive(Clone, Debug)]
pub struct Fixture {
    /// The agent's name, and its folder's.
    pub name: &'static str,
    /// The blueprint: `name`, `description`, `system_prompt`, `output_schema`, and where it has one `parameters_schema`.
    pub agent: Value,
    /// An answer that the output schema accepts.
    pub reply: Value,
    /// What the agent is asked.
    pub input: &'static str,
}

impl Fixture {
    /// The schema that answers have to satisfy.
    pub fn output_schema(&self) -> &Value {
        &self.agent["output_schema"]
    }

    /// The reply as a model would say it.
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

/// Lists issues in a repository; takes `repo_path`.
pub fn code_analyzer() -> Fixture {
    fixture!("code-analyzer")
}

/// Lists issues and sums them up; takes text alone.
pub fn code_analysis_result() -> Fixture {
    fixture!("code-analysis-result")
}

/// Reviews a pull request: enumerations, nested lists, bounded numbers, an optional object.
pub fn pr_reviewer() -> Fixture {
    fixture!("pr-reviewer")
}

/// Lists vulnerabilities, by way of a reference into `definitions`.
pub fn security_scan_result() -> Fixture {
    fixture!("security-scan-result")
}

/// One closed schema for all agents, most of it optional; the reply is a plan in five steps.
pub fn universal_response() -> Fixture {
    fixture!("universal-response")
}

/// All of them.
pub fn all() -> Vec<Fixture> {
    vec![code_analyzer(), code_analysis_result(), pr_reviewer(), security_scan_result(), universal_response()]
}
