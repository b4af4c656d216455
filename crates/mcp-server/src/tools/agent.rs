//! Agents as tools.

use std::collections::HashMap;
use std::sync::Arc;

use rmcp::model::{CallToolResponse, JsonObject, MetaObject, Tool, ToolAnnotations};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer};
use serde_json::{Value, json};
use slipform_api::{AgentView, CallerApi, Code, RunRequest};
use slipform_schema::{publish_input, publish_output};
use slipform_types::{AgentType, Blueprint, WRITING_TOOLS};

use super::{is_reserved, unknown_tool};
use crate::calls::{self, CallEnd};
use crate::server::{McpServer, protocol_error};
use crate::{results, tasks};

/// The length of a tool's name above which some clients cut it, because they put the server's name in front.
const NAME_CHARACTERS_MAX: usize = 45;

/// The number of characters up to which Claude's clients show a result in full.
const SHOWN_CHARACTERS_MAX: u64 = 500_000;

/// Returns the tools of agents. Agents that cannot be published are left out and reported once.
pub(super) async fn tools(
    server: &McpServer,
    api: &dyn CallerApi,
    agents: &[AgentView],
) -> Result<Vec<Tool>, ErrorData> {
    let mut schemas = NamedSchemas::default();
    let mut tools = Vec::new();
    for agent in agents {
        let Some(definition) = agent.blueprint() else {
            warn_about_unusable(server, agent);
            continue;
        };
        let Ok(blueprint) = serde_json::from_value::<Blueprint>(definition.clone()) else { continue };
        let contract = schemas.contract(api, &blueprint).await?;
        let source = format!("{definition}{}", contract.as_ref().unwrap_or(&Value::Null));
        let make = || publish(server, &blueprint, contract.as_ref());
        tools.extend(server.tools().get_or_make(&source, make));
    }
    Ok(tools)
}

/// Reports an agent whose file was never valid, once for every version of the file.
fn warn_about_unusable(server: &McpServer, agent: &AgentView) {
    let name = &agent.name;
    let source = format!("{name} {}", serde_json::to_string(&agent.problems).unwrap_or_default());
    server.tools().get_or_make(&source, || {
        tracing::warn!(
            "agent `{name}` is not offered as an MCP tool: its file is invalid; run `slipform agents validate`"
        );
        None
    });
}

/// The registered schemas that agents name, each read once for a list.
#[derive(Default)]
struct NamedSchemas(HashMap<String, Option<Value>>);

impl NamedSchemas {
    /// Returns the schema that results of an agent satisfy unless a request names another; `None` if it has none.
    async fn contract(
        &mut self,
        api: &dyn CallerApi,
        blueprint: &Blueprint,
    ) -> Result<Option<Value>, ErrorData> {
        let Blueprint {
            output_schema,
            output_schema_name,
            default_output_schema,
            default_output_schema_name,
            ..
        } = blueprint;
        let sources =
            [(output_schema, output_schema_name), (default_output_schema, default_output_schema_name)];
        for (inline, name) in sources {
            if let Some(schema) = inline {
                return Ok(Some(schema.clone()));
            }
            if let Some(name) = name {
                return self.named(api, name).await;
            }
        }
        Ok(None)
    }

    async fn named(&mut self, api: &dyn CallerApi, name: &str) -> Result<Option<Value>, ErrorData> {
        if let Some(known) = self.0.get(name) {
            return Ok(known.clone());
        }
        let schema = match api.schema(name).await {
            Ok(view) => Some(view.schema).filter(|schema| !schema.is_null()),
            // Runs of such an agent are refused, with the reason.
            Err(error) if error.code == Code::SchemaNotFound => None,
            Err(error) => return Err(protocol_error(error)),
        };
        self.0.insert(name.to_owned(), schema.clone());
        Ok(schema)
    }
}

/// Returns an agent as a tool, or `None` if it cannot be one.
fn publish(server: &McpServer, blueprint: &Blueprint, contract: Option<&Value>) -> Option<Tool> {
    let name = &blueprint.name;
    let left_out = |reason: String| {
        tracing::warn!("agent `{name}` is not offered as an MCP tool: {reason}");
        None
    };
    if is_reserved(server, name) {
        return left_out("the name belongs to a tool of the server; rename the agent".to_owned());
    }
    let input = match publish_input(&blueprint.schema_of_parameters()) {
        Ok(input) => input,
        Err(error) => return left_out(format!("its parameters_schema: {error}")),
    };
    let output = match contract.map(publish_output).transpose() {
        Ok(output) => output.map(|published| published.schema),
        Err(error) => return left_out(format!("its output schema: {error}")),
    };
    if name.chars().count() > NAME_CHARACTERS_MAX {
        tracing::warn!(
            "agent `{name}` has a name of more than {NAME_CHARACTERS_MAX} characters; some MCP clients refuse it"
        );
    }
    Some(tool(blueprint, input, output))
}

fn tool(blueprint: &Blueprint, input: JsonObject, output: Option<JsonObject>) -> Tool {
    let mut tool = Tool::new(blueprint.name.clone(), shown_description(blueprint), Arc::new(input));
    tool.output_schema = output.map(Arc::new);
    tool.title.clone_from(&blueprint.title);
    let is_read_only = is_read_only(blueprint);
    let mut annotations = ToolAnnotations::new().read_only(is_read_only);
    annotations.title.clone_from(&blueprint.title);
    if !is_read_only {
        annotations = annotations.destructive(true);
    }
    tool.annotations = Some(annotations);
    let mut meta = MetaObject::new();
    meta.insert("anthropic/maxResultSizeChars".to_owned(), json!(SHOWN_CHARACTERS_MAX));
    tool.meta = Some(meta);
    tool
}

/// Returns the description of an agent. Clients expect one.
pub(crate) fn shown_description(blueprint: &Blueprint) -> String {
    if blueprint.description.is_empty() {
        format!("Runs the agent `{}`.", blueprint.name)
    } else {
        blueprint.description.clone()
    }
}

/// Returns whether nothing that the agent can do changes files or other systems, as far as that is known.
fn is_read_only(blueprint: &Blueprint) -> bool {
    let Blueprint { kind, tools, mcp_servers, agents, opening, .. } = blueprint;
    let writes = |name: &str| WRITING_TOOLS.contains(&name) || name.ends_with('*');
    *kind == AgentType::Autonomous
        && mcp_servers.is_empty()
        && agents.is_empty()
        && !tools.iter().any(|name| writes(name))
        && !opening.iter().any(|call| writes(&call.tool))
}

/// Runs an agent. Callers that know tasks get one.
pub(super) async fn call(
    server: &McpServer,
    agent: &str,
    arguments: JsonObject,
    context: RequestContext<RoleServer>,
) -> Result<CallToolResponse, ErrorData> {
    let api = server.api(&context);
    let request =
        RunRequest { parameters: Some(Value::Object(arguments)), ..RunRequest::start(agent.to_owned()) };
    let created = match calls::submit(&*api, request, &context).await {
        Ok(created) => created,
        Err(error) if matches!(error.code, Code::AgentNotFound | Code::Forbidden) => {
            return Err(unknown_tool(agent));
        }
        Err(error) => return results::refusal(&error).map(Into::into),
    };
    if tasks::are_known_to(&context) {
        return Ok(tasks::create(&*api, &created.run_id).await?.into());
    }
    match calls::wait(server, &api, &created, &context).await? {
        CallEnd::Ended(run) => Ok(results::of_agent(&run).into()),
        CallEnd::Cancelled => Err(calls::cancelled()),
    }
}
