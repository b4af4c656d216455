//! Runs, journals, schemas and agents to read.

use rmcp::ErrorData;
use rmcp::model::{
    CacheScope, ListResourceTemplatesResult, ListResourcesResult, PaginatedRequestParams, ReadResourceResult,
    Resource, ResourceContents, ResourceTemplate,
};
use serde_json::{Value, json};
use slipform_api::{CallerApi, Error, EventsQuery};
use slipform_types::SessionId;

use crate::pages::{LIST_TTL_MS, Page, page};
use crate::server::{McpServer, protocol_error};

/// The type of all resources.
const JSON: &str = "application/json";

/// What the addresses of resources begin with.
const SCHEME: &str = "slipform://";

/// The most bytes of a journal that a read returns.
const JOURNAL_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The templates: address, name, title, description.
const TEMPLATES: [(&str, &str, &str, &str); 4] = [
    ("slipform://runs/{run_id}", "run", "Run", "A run with its result, receipt and errors."),
    (
        "slipform://sessions/{session_id}/journal",
        "journal",
        "Journal of a session",
        "Everything that happened in a session: prompts, replies, tool calls, validations.",
    ),
    ("slipform://schemas/{name}", "schema", "Schema", "A registered JSON Schema."),
    ("slipform://agents/{name}", "agent", "Agent", "The definition of an agent."),
];

/// Lists the agents and the registered schemas. Runs and journals have templates.
pub(crate) async fn list(
    server: &McpServer,
    api: &dyn CallerApi,
    request: Option<PaginatedRequestParams>,
) -> Result<ListResourcesResult, ErrorData> {
    let agents = server.agents(api).await?.into_iter().map(|agent| {
        let description = agent.definition.get("description").and_then(Value::as_str).map(str::to_owned);
        resource("agents", &agent.name, description)
    });
    let mut resources: Vec<Resource> = agents.collect();
    let schemas = api.schemas().await.map_err(protocol_error)?;
    resources.extend(schemas.into_iter().map(|schema| resource("schemas", &schema.name, schema.description)));
    resources.sort_by(|one, other| one.uri.cmp(&other.uri));
    let Page { items, next } = page(resources, request, |resource| (true, &resource.uri))?;
    let mut result = ListResourcesResult::with_all_items(items);
    result.next_cursor = next;
    result.ttl_ms = Some(LIST_TTL_MS);
    result.cache_scope = Some(CacheScope::Private);
    Ok(result)
}

fn resource(kind: &str, name: &str, description: Option<String>) -> Resource {
    let mut resource = Resource::new(format!("{SCHEME}{kind}/{name}"), name).with_mime_type(JSON);
    resource.description = description.filter(|text| !text.is_empty());
    resource
}

/// Lists the templates.
pub(crate) fn templates() -> ListResourceTemplatesResult {
    let template = |(uri, name, title, description): (&str, &str, &str, &str)| {
        let template = ResourceTemplate::new(uri, name).with_title(title);
        template.with_description(description).with_mime_type(JSON)
    };
    ListResourceTemplatesResult::with_all_items(TEMPLATES.map(template).to_vec())
}

/// Reads a resource.
pub(crate) async fn read(
    server: &McpServer,
    api: &dyn CallerApi,
    uri: &str,
) -> Result<ReadResourceResult, ErrorData> {
    let unknown = || {
        let known = TEMPLATES.map(|(uri, ..)| uri).join(", ");
        not_found(format!("no resource has the address `{uri}`; there are {known}"), uri)
    };
    let failed = |error: Error| match error.code.status() {
        404 => not_found(error.message, uri),
        _ => protocol_error(error),
    };
    let path = uri.strip_prefix(SCHEME).ok_or_else(unknown)?;
    let parts: Vec<&str> = path.split('/').collect();
    let text = match parts[..] {
        ["runs", id] => {
            let run = api.run(&id.parse().map_err(|_| unknown())?).await.map_err(failed)?;
            if !server.options().shows(&run.agent_name) {
                return Err(unknown());
            }
            json_text(&run)?
        }
        ["sessions", id, "journal"] => {
            let session: SessionId = id.parse().map_err(|_| unknown())?;
            let view = api.session(&session).await.map_err(failed)?;
            if !server.options().shows(&view.agent_name) {
                return Err(unknown());
            }
            journal(api, &session).await?
        }
        ["schemas", name] => json_text(&api.schema(name).await.map_err(failed)?)?,
        ["agents", name] if server.options().shows(name) => {
            json_text(&api.agent(name).await.map_err(failed)?)?
        }
        _ => return Err(unknown()),
    };
    Ok(ReadResourceResult::new(vec![ResourceContents::text(text, uri).with_mime_type(JSON)]))
}

fn not_found(message: String, uri: &str) -> ErrorData {
    ErrorData::resource_not_found(message, Some(json!({"uri": uri})))
}

/// Returns the events of a session, oldest first. A long journal is cut at its end.
async fn journal(api: &dyn CallerApi, session: &SessionId) -> Result<String, ErrorData> {
    let (mut text, mut after) = ("{\"events\":[".to_owned(), None);
    loop {
        let page = api.events(session, EventsQuery { after, limit: None }).await.map_err(protocol_error)?;
        for event in &page.events {
            if text.len() + event.get().len() > JOURNAL_BYTES_MAX {
                text.push_str("],\"is_cut\":true}");
                return Ok(text);
            }
            if !text.ends_with('[') {
                text.push(',');
            }
            text.push_str(event.get());
        }
        after = page.next;
        if after.is_none() {
            text.push_str("],\"is_cut\":false}");
            return Ok(text);
        }
    }
}

fn json_text(value: &impl serde::Serialize) -> Result<String, ErrorData> {
    serde_json::to_string(value).map_err(|error| ErrorData::internal_error(error.to_string(), None))
}
