//! `slipform runs`: lists, shows and stops runs.

use anyhow::{Result, anyhow, bail};
use serde_json::json;
use slipform_api::{CallerApi, RunSummary, RunView, RunsQuery};
use slipform_types::{RunId, RunStatus};

use crate::arguments::{Runs, RunsCommand};
use crate::coordinator::Coordinator;
use crate::exit::Exit;
use crate::{backends, output, waiting};

pub(crate) fn run(arguments: &Runs) -> Result<Exit> {
    backends::runtime()?.block_on(async {
        let coordinator = Coordinator::open(arguments.server.as_deref()).await?;
        let api = &*coordinator.api;
        match &arguments.command {
            RunsCommand::List { agent, status, limit, json } => {
                let status = status.as_deref().map(read_status).transpose()?;
                let limit = i64::from(*limit);
                let query = RunsQuery {
                    agent_name: agent.clone(),
                    status,
                    limit: Some(limit),
                    ..RunsQuery::default()
                };
                list(api, query, *json).await
            }
            RunsCommand::Show { id, json } => show(api, &run_id(id)?, *json).await,
            RunsCommand::Stop { id } => {
                let run = waiting::wait_for_stop(api, api.stop_run(&run_id(id)?).await?).await?;
                output::lines([format!("slipform: run `{}` is {}", run.run_id, run.status.name())]);
                Ok(Exit::Valid)
            }
        }
    })
}

fn run_id(text: &str) -> Result<RunId> {
    text.parse::<RunId>().map_err(|error| anyhow!("{error}; run `slipform runs list`"))
}

fn read_status(name: &str) -> Result<RunStatus> {
    match serde_json::from_value(json!(name)) {
        Ok(status) => Ok(status),
        Err(_) => bail!(
            "unknown `--status {name}`; use pending, claimed, running, waiting, stopping, completed, failed or stopped"
        ),
    }
}

async fn list(api: &dyn CallerApi, query: RunsQuery, as_json: bool) -> Result<Exit> {
    let limit = query.limit.unwrap_or_default();
    let page = api.runs(query).await?;
    if as_json {
        output::data(&serde_json::to_value(&page)?)?;
        return Ok(Exit::Valid);
    }
    if page.runs.is_empty() {
        output::lines(["no runs found".to_owned()]);
    }
    let header = ["RUN", "SESSION", "STATUS", "CREATED", "AGENT", "ERROR"];
    output::table(header, page.runs.iter().map(row))?;
    if page.next.is_some() {
        output::lines([format!("… more rows exist; raise `--limit` (now {limit})")]);
    }
    Ok(Exit::Valid)
}

fn row(run: &RunSummary) -> Vec<String> {
    let error = run.error.as_ref().and_then(|error| error["type"].as_str());
    vec![
        run.run_id.to_string(),
        run.session_id.to_string(),
        run.status.name().to_owned(),
        run.created_at.clone(),
        run.agent_name.clone(),
        error.unwrap_or_default().to_owned(),
    ]
}

async fn show(api: &dyn CallerApi, run: &RunId, as_json: bool) -> Result<Exit> {
    let view = api.run(run).await?;
    if as_json {
        output::data(&serde_json::to_value(&view)?)?;
        return Ok(Exit::Valid);
    }
    let RunView { run_id, session_id, status, created_at, agent_name, .. } = &view;
    output::text(&format!("{run_id}  {session_id}  {}  {created_at}  {agent_name}", status.name()))?;
    let moment = |moment: &Option<String>| moment.clone().unwrap_or_else(|| "not yet".to_owned());
    output::text(&format!("started: {}  finished: {}", moment(&view.started_at), moment(&view.finished_at)))?;
    output::text(&format!("attempts: {}  retries: {}", view.attempts, view.retry_count))?;
    if let Some(error) = &view.error {
        let text = |key: &str| error[key].as_str().unwrap_or_default().to_owned();
        output::text(&format!("error: {}", output::run_error(&text("message"), &text("type"))))?;
    }
    if let Some(result) = view.result.as_ref().and_then(|result| result.result.as_ref()) {
        output::text(&format!("result: {result}"))?;
    }
    Ok(Exit::Valid)
}
