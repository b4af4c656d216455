//! The gateway of `serve`: which backends answer for which model names.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use serde::Deserialize;
use slipform_api::RequestLog;
use slipform_coordinator::App;
use slipform_gateway::{
    ConnectError, Connected, Gateway, GatewayOptions, ModelEntry, ModelProvider, ModelRoute, RouteStep,
};
use slipform_runner::{LadderRung, Resources, Secrets};
use slipform_types::{BackendKind, Blueprint, CallErrorKind};

use crate::backends;
use crate::local_resources::LocalResources;
use crate::settings::{FILE, Settings};

/// The section `[gateway]`: the models of clients that speak OpenAI's API.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct GatewaySettings {
    /// The backend that answers for names of models that are neither a backend nor a route.
    pub(crate) fallback_backend: Option<String>,
    /// The backends of model names, each `BACKEND` or `BACKEND/MODEL`. A later one is used when the transport of the one before
    /// fails.
    pub(crate) routes: BTreeMap<String, Vec<String>>,
    /// The record of requests to plain models.
    pub(crate) record: Record,
}

/// The record of requests to plain models.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Record {
    /// A summary without texts: model, verdict, tokens, duration.
    #[default]
    Summary,
    /// Nothing.
    None,
}

impl GatewaySettings {
    /// Checks that the named backends exist.
    pub(crate) fn check(&self, settings: &Settings) -> Result<()> {
        if let Some(name) = &self.fallback_backend {
            settings.backend(name).with_context(|| format!("{FILE}: gateway.fallback_backend"))?;
        }
        for (model, backends) in &self.routes {
            let place = || format!("{FILE}: gateway.routes.{model}");
            anyhow::ensure!(!backends.is_empty(), "{}: name at least one backend", place());
            for backend in backends {
                settings.backend(&step(backend).backend).with_context(place)?;
            }
        }
        Ok(())
    }
}

/// Creates the gateway. Without resources it serves agents only.
pub(crate) fn open(app: &App, resources: Option<Arc<LocalResources>>, record: Record) -> Gateway {
    let log = (record == Record::Summary).then(|| Arc::new(app.clone()) as Arc<dyn RequestLog>);
    let provider = resources.map(|resources| resources as Arc<dyn ModelProvider>);
    Gateway::new(GatewayOptions { provider, log })
}

/// Reads `BACKEND` or `BACKEND/MODEL`.
fn step(name: &str) -> RouteStep {
    match name.split_once('/') {
        Some((backend, model)) => RouteStep { backend: backend.to_owned(), model: Some(model.to_owned()) },
        None => RouteStep { backend: name.to_owned(), model: None },
    }
}

impl ModelProvider for LocalResources {
    fn models(&self) -> Vec<ModelEntry> {
        let settings = self.settings();
        let routes = settings.gateway.routes.keys().map(|name| (name.clone(), "gateway".to_owned()));
        let backends = settings.backends.values().flat_map(|backend| {
            let owner = backend.name.clone();
            let named = backends::model_name(backend).filter(|_| takes_model(backend.kind));
            let named = named.map(|model| (format!("{}/{model}", backend.name), owner.clone()));
            [(backend.name.clone(), owner)].into_iter().chain(named)
        });
        routes.chain(backends).map(|(id, owner)| ModelEntry { id, owner }).collect()
    }

    fn route(&self, name: &str) -> Option<ModelRoute> {
        let settings = self.settings();
        let steps = if let Some(backends) = settings.gateway.routes.get(name) {
            backends.iter().map(|backend| step(backend)).collect()
        } else {
            let named = step(name);
            if named.model.as_deref() == Some("") {
                return None;
            }
            match settings.backends.get(&named.backend) {
                Some(backend) if named.model.is_none() || takes_model(backend.kind) => vec![named],
                // Every name of a backend with one model means that model.
                Some(_) => vec![RouteStep { model: None, ..named }],
                None => {
                    let backend = settings.gateway.fallback_backend.clone()?;
                    vec![RouteStep { backend, model: None }]
                }
            }
        };
        Some(ModelRoute { steps, escalation: Vec::new() })
    }

    fn has_tier(&self, tier: &str) -> bool {
        self.settings().tier(tier).is_ok()
    }

    fn connect<'a>(&'a self, blueprint: Arc<Blueprint>, route: &'a ModelRoute) -> Connected<'a> {
        Box::pin(async move {
            let ladder = self.route_ladder(route).await.map_err(|error| {
                let reason = self.secrets().redact(format!("{error:#}"));
                let cause = error.downcast_ref::<slipform_model::Error>();
                let is_transient =
                    cause.is_some_and(|cause| cause.to_call_error().kind == CallErrorKind::Unavailable);
                if is_transient {
                    ConnectError::Unavailable(reason)
                } else {
                    ConnectError::Misconfigured(reason)
                }
            })?;
            // Backends over HTTP redact their keys themselves and know no other secret; programs have the environment.
            let has_program = ladder.iter().any(|rung| rung.tier.backend.kind == BackendKind::Command);
            let secrets = if has_program { self.secrets().clone() } else { Secrets::default() };
            Ok(Resources { ladder, secrets, ..Resources::new(blueprint) })
        })
    }
}

/// Returns whether requests to a backend of this kind name a model.
fn takes_model(kind: BackendKind) -> bool {
    matches!(kind, BackendKind::OpenAi | BackendKind::Completions | BackendKind::Anthropic)
}

impl LocalResources {
    /// Connects the backends of a route: those of its steps, then those of the tiers to escalate to.
    async fn route_ladder(&self, route: &ModelRoute) -> Result<Vec<LadderRung>> {
        let mut ladder: Vec<LadderRung> = Vec::new();
        for (index, RouteStep { backend, model }) in route.steps.iter().enumerate() {
            let config = self.settings().backend(backend)?;
            let opening = async {
                match model {
                    Some(model) => self.connections().with_kept_model(config, model).await,
                    None => self.connections().rung("default", config).await,
                }
            };
            // A backend that is not needed yet must not fail or delay the request.
            let opened = if ladder.is_empty() {
                opening.await
            } else {
                let Some(opened) = self.connections().fallback(backend, opening).await else { continue };
                opened
            };
            match opened {
                Ok(mut rung) => {
                    rung.tier.is_fallback = index > 0;
                    ladder.push(rung);
                }
                Err(error) if index + 1 < route.steps.len() || !ladder.is_empty() => {
                    let reason = self.secrets().redact(format!("{error:#}"));
                    tracing::warn!("backend `{backend}` of a route cannot be used: {reason}");
                }
                Err(error) => return Err(error),
            }
        }
        for tier in &route.escalation {
            ladder.push(self.connections().rung(tier, self.settings().tier(tier)?).await?);
        }
        // A rung is found by the name of its backend.
        for index in 1..ladder.len() {
            let (before, rung) = ladder.split_at_mut(index);
            let info = &mut rung[0].tier.backend;
            if before.iter().any(|other| other.tier.backend.name == info.name) {
                info.name = format!("{}/{}", info.name, info.model);
            }
        }
        ladder.dedup_by(|next, rung| next.tier.backend.name == rung.tier.backend.name);
        Ok(ladder)
    }
}
