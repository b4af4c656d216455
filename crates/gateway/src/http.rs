//! The routes and their handlers.

use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::body::to_bytes;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, Uri, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{any, get, post};
use axum::{Extension, Json, Router};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use serde_json::{Value, json};
use slipform_api::{Caller, CallerApi, RequestLog, RequestSender};
use slipform_types::{RunId, TraceParent, closest};
use tokio::sync::{Semaphore, mpsc};

use crate::budget::Budgets;
use crate::chat::request::ChatRequest;
use crate::deadline::time_limit;
use crate::direct::{ChoiceResult, Deltas, DirectRun};
use crate::durable::{Bill, DurableRun};
use crate::error::ApiError;
use crate::failure::internal;
use crate::in_flight::{Finished, Limits, RequestsInFlight};
use crate::models::{ModelName, ModelProvider, ModelRoute};
use crate::random::random;
use crate::respond::PendingResponse;
use crate::summary::SummaryGuard;

/// The beginning of the paths.
pub const PATH: &str = "/v1";

/// The most bytes of a body, which may have images.
pub const BODY_BYTES_MAX: usize = 32 * 1024 * 1024;

/// The most requests at once. More would only wait for the backends without their clients knowing.
const REQUESTS_MAX: usize = 4_096;

/// The header in which the SDKs count how often they have repeated a request.
const RETRY_COUNT: &str = "x-stainless-retry-count";

/// Options of the gateway.
pub struct GatewayOptions {
    /// The backends of this process; `None` if it has no runner, so that only agents can be used.
    pub provider: Option<Arc<dyn ModelProvider>>,
    /// Keeps the summaries of requests to plain models; `None` discards them.
    pub log: Option<Arc<dyn RequestLog>>,
}

/// The state of the gateway. Clones share it.
#[derive(Clone)]
pub struct Gateway(Arc<Shared>);

struct Shared {
    provider: Option<Arc<dyn ModelProvider>>,
    log: Option<Arc<dyn RequestLog>>,
    budgets: Arc<Budgets>,
    in_flight: RequestsInFlight,
    permits: Arc<Semaphore>,
    started: u64,
}

impl Gateway {
    /// Creates a gateway.
    pub fn new(options: GatewayOptions) -> Gateway {
        Gateway(Arc::new(Shared {
            provider: options.provider,
            log: options.log,
            budgets: Arc::default(),
            in_flight: RequestsInFlight::default(),
            permits: Arc::new(Semaphore::new(REQUESTS_MAX)),
            started: now(),
        }))
    }

    /// Waits until all requests have ended, at most `longest`.
    pub async fn wait_until_idle(&self, longest: Duration) {
        let all = u32::try_from(REQUESTS_MAX).unwrap_or(u32::MAX);
        let _ = tokio::time::timeout(longest, self.0.permits.acquire_many(all)).await;
    }
}

/// Returns the routes. The server that mounts them checks tokens and origins, limits bodies, and attaches the [`Caller`] and
/// the [`RequestSender`].
pub fn router(gateway: Gateway) -> Router {
    Router::new()
        .route("/v1/chat/completions", post(chat).fallback(other_method))
        .route("/v1/models", get(models).fallback(other_method))
        .route("/v1/models/{*id}", get(model).fallback(other_method))
        .route("/v1/", any(unknown))
        .route("/v1/{*path}", any(unknown))
        .with_state(gateway)
}

async fn unknown(uri: Uri) -> ApiError {
    let message =
        format!("no route for {}; the gateway has POST /v1/chat/completions and GET /v1/models", uri.path());
    ApiError::new(404, "invalid_request_error", "not_found", message)
}

async fn other_method(method: Method, uri: Uri) -> ApiError {
    let message =
        format!("{} does not take {method}; use POST for chat completions and GET for models", uri.path());
    ApiError::new(405, "invalid_request_error", "method_not_allowed", message)
}

async fn models(
    State(gateway): State<Gateway>,
    Extension(Caller(api)): Extension<Caller>,
    Extension(sender): Extension<RequestSender>,
) -> Result<Json<Value>, ApiError> {
    let data = gateway.list(&*api, &sender).await?;
    Ok(Json(json!({"object": "list", "data": data})))
}

async fn model(
    State(gateway): State<Gateway>,
    Extension(Caller(api)): Extension<Caller>,
    Extension(sender): Extension<RequestSender>,
    id: Result<Path<String>, PathRejection>,
) -> Result<Json<Value>, ApiError> {
    let Path(id) = id.map_err(|error| ApiError::invalid(None, error.body_text()))?;
    let id = match ModelName::parse(&id) {
        ModelName::Agent(agent) => format!("agent/{agent}"),
        ModelName::Plain(name) => name,
    };
    let listed = gateway.list(&*api, &sender).await?;
    if let Some(found) = listed.into_iter().find(|model| model["id"] == id.as_str()) {
        return Ok(Json(found));
    }
    let provider = gateway.0.provider.as_ref().filter(|_| !sender.is_limited_to_agents);
    match provider.and_then(|provider| provider.route(&id)) {
        Some(route) => {
            let owner = route.steps.first().map(|step| step.backend.clone()).unwrap_or_default();
            Ok(Json(gateway.entry(&id, &owner)))
        }
        None => Err(unknown_model(&id, &[])),
    }
}

async fn chat(State(gateway): State<Gateway>, request: Request) -> Response {
    gateway.chat(request).await.unwrap_or_else(ApiError::into_response)
}

/// The work of a request, which ends with its answers.
type Work = Pin<Box<dyn Future<Output = Finished> + Send>>;

/// What the headers of a request say about its run.
struct HeaderOptions {
    limit: Duration,
    trace_parent: Option<TraceParent>,
}

/// The agent or the backends that a request names.
enum Target {
    Agent(String),
    Model(Arc<dyn ModelProvider>, ModelRoute),
}

impl Gateway {
    async fn chat(&self, request: Request) -> Result<Response, ApiError> {
        let (mut parts, body) = request.into_parts();
        let (Some(Caller(api)), Some(sender)) =
            (parts.extensions.get::<Caller>().cloned(), parts.extensions.get::<RequestSender>().cloned())
        else {
            let message = "the sender's authority is unknown";
            return Err(ApiError::new(500, "server_error", "internal_error", message));
        };
        require_json(&parts.headers)?;
        let permit = self.0.permits.clone().try_acquire_owned().map_err(|_| overloaded())?;
        let bytes = to_bytes(body, BODY_BYTES_MAX)
            .await
            .map_err(|_| ApiError::invalid(None, "the body is incomplete"))?;
        let mut chat = match ChatRequest::parse_prepared(&bytes)? {
            Some(chat) => chat,
            // New schemas can take long to compile, and the runner's heartbeats share these threads.
            None => {
                let bytes = bytes.clone();
                let parsing = tokio::task::spawn_blocking(move || ChatRequest::parse(&bytes));
                parsing.await.map_err(|error| internal(&error))??
            }
        };
        if sender.tokens_per_minute.is_some() {
            chat.count_while_written();
        }
        let chat = Arc::new(chat);
        let retries = parts.headers.get(RETRY_COUNT).and_then(|count| count.to_str().ok());
        let fingerprint = retries.map(|_| self.0.in_flight.fingerprint(&sender, &bytes));
        drop(bytes);
        let mut response = PendingResponse::new(chat.clone());
        if let Some(fingerprint) = fingerprint.filter(|_| retries != Some("0"))
            && let Some(waiter) = self.0.in_flight.join(fingerprint)
        {
            if let Some(log) = &self.0.log {
                log.joined();
            }
            return Ok(response.finish(waiter, None).await);
        }
        let target = self.target(&chat, &sender)?;
        self.0.budgets.take(&sender)?;
        let headers = HeaderOptions {
            limit: time_limit(&parts.headers, chat.timeout),
            trace_parent: trace_parent(&parts.headers),
        };
        let (work, deltas) = match target {
            Target::Agent(agent) => (self.agent_work(agent, &chat, sender, api, headers), None),
            Target::Model(provider, route) => {
                let run_id = RunId::from_random(random());
                response.request_id = HeaderValue::from_str(run_id.as_str()).ok();
                self.model_work((provider, route), &chat, sender, run_id, headers)
            }
        };
        let limits = Limits { _permit: permit, _extensions: std::mem::take(&mut parts.extensions) };
        let waiter = self.0.in_flight.start(fingerprint, limits, work);
        Ok(response.finish(waiter, deltas).await)
    }

    /// Returns the agent or the backends that a request names.
    fn target(&self, chat: &ChatRequest, sender: &RequestSender) -> Result<Target, ApiError> {
        let name = match ModelName::parse(&chat.model) {
            ModelName::Agent(agent) => return Ok(Target::Agent(agent)),
            ModelName::Plain(name) => name,
        };
        if sender.is_limited_to_agents {
            let message = format!("the token is limited to agents and may not use the model `{name}`");
            return Err(ApiError::new(403, "permission_error", "permission_denied", message));
        }
        let Some(provider) = &self.0.provider else {
            let message =
                "this server has no runner of its own (--no-runner), so it calls no models; use agent/NAME";
            return Err(ApiError::new(503, "server_error", "backend_unavailable", message).final_error());
        };
        let Some(mut route) = provider.route(&name) else {
            let known: Vec<String> = provider.models().into_iter().map(|entry| entry.id).collect();
            return Err(unknown_model(&name, &known));
        };
        let wanted = chat.tier.iter().map(|tier| ("slipform.tier", tier));
        let wanted = wanted.chain(chat.escalation.iter().map(|tier| ("slipform.escalation", tier)));
        for (param, tier) in wanted {
            if !provider.has_tier(tier) {
                let message = format!("unknown tier `{tier}`; map it in [tiers] of slipform.toml");
                return Err(ApiError::invalid(param.to_owned(), message));
            }
            route.escalation.push(tier.clone());
        }
        if chat.tier.is_some() {
            route.steps.clear();
        }
        Ok(Target::Model(provider.clone(), route))
    }

    fn agent_work(
        &self,
        agent: String,
        chat: &Arc<ChatRequest>,
        sender: RequestSender,
        api: Arc<dyn CallerApi>,
        headers: HeaderOptions,
    ) -> Work {
        let HeaderOptions { limit, trace_parent } = headers;
        let budgets = self.0.budgets.clone();
        let bill: Bill =
            Arc::new(move |tokens| budgets.spend(&sender, tokens.input.saturating_add(tokens.output)));
        let run = DurableRun { api, agent, request: chat.clone(), limit, bill, trace_parent };
        Box::pin(async move {
            match run.answer().await {
                Ok(answer) => Ok(Arc::from(vec![answer])),
                Err(failed) => Err(failed.error),
            }
        })
    }

    /// Returns the work of a request to a plain model, and the text of its answer as it is written.
    fn model_work(
        &self,
        (provider, route): (Arc<dyn ModelProvider>, ModelRoute),
        chat: &Arc<ChatRequest>,
        sender: RequestSender,
        run_id: RunId,
        headers: HeaderOptions,
    ) -> (Work, Option<mpsc::UnboundedReceiver<String>>) {
        let HeaderOptions { limit, trace_parent } = headers;
        let (log, budgets) = (self.0.log.clone(), self.0.budgets.clone());
        let summary = SummaryGuard::begin(chat, &run_id, sender, log, budgets);
        let usage = summary.usage();
        let run = DirectRun { provider, route, request: chat.clone(), limit, trace_parent, usage };
        let (deltas, receiver) = chat.may_be_live().then(mpsc::unbounded_channel).unzip();
        let work = async move {
            let results = answer_choices(run, run_id, deltas).await;
            summary.finish(&results);
            let answers = results.into_iter().map(|result| result.map_err(|failed| failed.error));
            answers.collect::<Result<Vec<_>, _>>().map(Arc::from)
        };
        (Box::pin(work), receiver)
    }

    async fn list(&self, api: &dyn CallerApi, sender: &RequestSender) -> Result<Vec<Value>, ApiError> {
        let provider = self.0.provider.as_ref().filter(|_| !sender.is_limited_to_agents);
        let plain = provider.map(|provider| provider.models()).unwrap_or_default();
        let mut data: Vec<Value> = plain.iter().map(|model| self.entry(&model.id, &model.owner)).collect();
        let agents = api.agents().await?;
        let usable = agents.iter().filter(|agent| agent.blueprint().is_some());
        data.extend(usable.map(|agent| self.entry(&format!("agent/{}", agent.name), "slipform")));
        Ok(data)
    }

    fn entry(&self, id: &str, owner: &str) -> Value {
        json!({"id": id, "object": "model", "created": self.0.started, "owned_by": owner})
    }
}

/// Answers all choices of a request, in order. The first failed choice cancels the others.
async fn answer_choices(run: DirectRun, run_id: RunId, deltas: Option<Deltas>) -> Vec<ChoiceResult> {
    if run.request.choices == 1 {
        return vec![run.answer(run_id, 0, deltas).await];
    }
    let run = &run;
    let mut run_ids = std::iter::once(run_id).chain(std::iter::repeat_with(|| RunId::from_random(random())));
    // Dropping a choice cancels it at once, so that what it has used is counted before the request ends.
    let mut choices: FuturesUnordered<_> = (0..run.request.choices)
        .zip(&mut run_ids)
        .map(|(index, run_id)| async move { (index, run.answer(run_id, index, None).await) })
        .collect();
    let mut ended: Vec<(u32, ChoiceResult)> = Vec::new();
    while let Some(choice) = choices.next().await {
        let has_failed = choice.1.is_err();
        ended.push(choice);
        if has_failed {
            break;
        }
    }
    drop(choices);
    ended.sort_by_key(|(index, _)| *index);
    ended.into_iter().map(|(_, ended)| ended).collect()
}

/// Returns the client's position in its trace. A malformed one is ignored, as the standard asks.
fn trace_parent(headers: &HeaderMap) -> Option<TraceParent> {
    headers.get("traceparent")?.to_str().ok()?.parse().ok()
}

/// Requires the content type of JSON, which pages of other sites cannot send.
fn require_json(headers: &HeaderMap) -> Result<(), ApiError> {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = value.split(';').next().unwrap_or_default().trim();
    if kind.eq_ignore_ascii_case("application/json") {
        return Ok(());
    }
    let message = "the body must be JSON; send the header `Content-Type: application/json`";
    Err(ApiError::new(415, "invalid_request_error", "unsupported_media_type", message))
}

fn unknown_model(name: &str, known: &[String]) -> ApiError {
    let hint = closest(name, known.iter().map(String::as_str));
    let hint = hint.map(|near| format!(" Did you mean `{near}`?")).unwrap_or_default();
    let message = format!(
        "model `{name}` not found; name a backend, BACKEND/MODEL or agent/NAME (GET /v1/models lists them).{hint}"
    );
    let error = ApiError::new(404, "invalid_request_error", "model_not_found", message);
    ApiError { param: Some("model".to_owned()), ..error }
}

fn overloaded() -> ApiError {
    let message = format!("{REQUESTS_MAX} requests are under way; retry in a moment");
    ApiError::new(429, "rate_limit_error", "rate_limit_exceeded", message).retry_after(1)
}

pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}
