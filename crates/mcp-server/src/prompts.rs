//! Agents with a `prompt` parameter as prompts, for clients in which people choose one from a list.

use rmcp::ErrorData;
use rmcp::model::{
    CacheScope, GetPromptRequestParams, GetPromptResult, ListPromptsResult, PaginatedRequestParams, Prompt,
    PromptArgument, PromptMessage, Role,
};
use serde_json::{Map, Value};
use slipform_api::{AgentView, CallerApi};
use slipform_types::Blueprint;

use crate::pages::{LIST_TTL_MS, Page, page};
use crate::server::McpServer;
use crate::tools::agent;

/// Lists the prompts.
pub(crate) async fn list(
    server: &McpServer,
    api: &dyn CallerApi,
    request: Option<PaginatedRequestParams>,
) -> Result<ListPromptsResult, ErrorData> {
    let prompts = server.agents(api).await?.iter().filter_map(prompt).collect();
    let Page { items, next } = page(prompts, request, |prompt: &Prompt| (true, &prompt.name))?;
    let mut result = ListPromptsResult::with_all_items(items);
    result.next_cursor = next;
    result.ttl_ms = Some(LIST_TTL_MS);
    result.cache_scope = Some(CacheScope::Private);
    Ok(result)
}

/// Returns an agent as a prompt, or `None` if it has no parameter `prompt`.
fn prompt(agent: &AgentView) -> Option<Prompt> {
    let blueprint: Blueprint = serde_json::from_value(agent.blueprint()?).ok()?;
    let schema = blueprint.schema_of_parameters();
    let properties = schema["properties"].as_object().filter(|members| members.contains_key("prompt"))?;
    let required = schema["required"].as_array().map(Vec::as_slice).unwrap_or_default();
    let arguments = properties.iter().map(|(name, property)| {
        let mut argument =
            PromptArgument::new(name).with_required(required.iter().any(|other| other == name));
        argument.description = property["description"].as_str().map(str::to_owned);
        argument
    });
    let description = agent::shown_description(&blueprint);
    let mut prompt = Prompt::new(blueprint.name.clone(), Some(description), Some(arguments.collect()));
    prompt.title = blueprint.title;
    Some(prompt)
}

/// Returns a message that asks the client's model to call the tool of the agent.
pub(crate) async fn get(
    server: &McpServer,
    api: &dyn CallerApi,
    request: GetPromptRequestParams,
) -> Result<GetPromptResult, ErrorData> {
    let GetPromptRequestParams { name, arguments, .. } = request;
    let agents = server.agents(api).await?;
    let agent = agents.iter().find(|agent| agent.name == name);
    let Some(prompt) = agent.and_then(prompt) else {
        let message = format!("unknown prompt `{name}`; prompts/list has the names of all prompts");
        return Err(ErrorData::invalid_params(message, None));
    };
    let arguments = arguments.unwrap_or_default();
    let known = prompt.arguments.as_deref().unwrap_or_default();
    if let Some(missing) = known
        .iter()
        .find(|argument| argument.required == Some(true) && !arguments.contains_key(&argument.name))
    {
        let message = format!("prompt `{name}` needs the argument `{}`", missing.name);
        return Err(ErrorData::invalid_params(message, None));
    }
    let text = format!(
        "Call the tool `{name}` with these arguments and answer with its result:\n{}",
        shown_arguments(&arguments)
    );
    let mut result = GetPromptResult::new(vec![PromptMessage::new_text(Role::User, text)]);
    result.description = prompt.description;
    Ok(result)
}

fn shown_arguments(arguments: &Map<String, Value>) -> String {
    serde_json::to_string_pretty(arguments).unwrap_or_default()
}
