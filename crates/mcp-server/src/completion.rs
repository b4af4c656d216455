//! Completes ids and names in the addresses of resources.

use rmcp::ErrorData;
use rmcp::model::{CompleteRequestParams, CompleteResult, CompletionInfo, Reference};
use slipform_api::{CallerApi, RunsQuery, SessionsQuery};

use crate::server::{McpServer, protocol_error};

/// The most recent runs and sessions among which ids are looked for.
const RECENT_MAX: i64 = 200;

/// Returns the values that begin with what was typed: the newest ids first, names in their order.
pub(crate) async fn complete(
    server: &McpServer,
    api: &dyn CallerApi,
    request: CompleteRequestParams,
) -> Result<CompleteResult, ErrorData> {
    let values = match &request.r#ref {
        Reference::Resource(template) => candidates(server, api, &template.uri).await?,
        // The arguments of an agent are free text.
        _ => Vec::new(),
    };
    let typed = &request.argument.value;
    let mut matching: Vec<String> = values.into_iter().filter(|value| value.starts_with(typed)).collect();
    let has_more = matching.len() > CompletionInfo::MAX_VALUES;
    matching.truncate(CompletionInfo::MAX_VALUES);
    let completion = CompletionInfo::with_pagination(matching, None, has_more);
    completion.map(CompleteResult::new).map_err(|error| ErrorData::internal_error(error, None))
}

/// Returns the values of the variable in a template.
async fn candidates(
    server: &McpServer,
    api: &dyn CallerApi,
    template: &str,
) -> Result<Vec<String>, ErrorData> {
    let kind = template.strip_prefix("slipform://").and_then(|path| path.split('/').next());
    Ok(match kind {
        Some("runs") => {
            let query = RunsQuery { limit: Some(RECENT_MAX), ..RunsQuery::default() };
            let runs = api.runs(query).await.map_err(protocol_error)?.runs.into_iter();
            runs.filter(|run| server.options().shows(&run.agent_name))
                .map(|run| run.run_id.to_string())
                .collect()
        }
        Some("sessions") => {
            let query = SessionsQuery { limit: Some(RECENT_MAX), ..SessionsQuery::default() };
            let sessions = api.sessions(query).await.map_err(protocol_error)?.sessions.into_iter();
            let shown = sessions.filter(|session| server.options().shows(&session.agent_name));
            shown.map(|session| session.session_id.to_string()).collect()
        }
        Some("schemas") => {
            api.schemas().await.map_err(protocol_error)?.into_iter().map(|schema| schema.name).collect()
        }
        Some("agents") => server.agents(api).await?.into_iter().map(|agent| agent.name).collect(),
        _ => Vec::new(),
    })
}
