//! The routes.

use std::sync::Arc;

use axum::Router;
use axum::middleware::from_fn_with_state;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::context::Context;
use super::{agents, check, errors, events, limits, operations, runner, runs, schemas, sessions, ui};

type Routes = OpenApiRouter<Arc<Context>>;

/// Routes that respond at once.
pub(super) fn short() -> Routes {
    OpenApiRouter::new()
        .routes(routes!(runs::list))
        .routes(routes!(runs::show))
        .routes(routes!(runs::result))
        .routes(routes!(runs::calls))
        .routes(routes!(runs::stop))
        .routes(routes!(sessions::list))
        .routes(routes!(sessions::show, sessions::delete))
        .routes(routes!(sessions::stop))
        .routes(routes!(sessions::result))
        .routes(routes!(events::list))
        .routes(routes!(agents::list, agents::create))
        .routes(routes!(agents::validate))
        .routes(routes!(agents::show, agents::change, agents::delete))
        .routes(routes!(schemas::list, schemas::add))
        .routes(routes!(schemas::validate))
        .routes(routes!(schemas::show, schemas::remove))
        .routes(routes!(check::check))
        .routes(routes!(runner::register))
        .routes(routes!(runner::heartbeat))
        .routes(routes!(runner::append))
        .routes(routes!(runner::finish))
        .routes(routes!(runner::park))
        .routes(routes!(runner::release))
        .routes(routes!(runner::delegate))
        .routes(routes!(runner::journal))
        .routes(routes!(runner::leave))
        .routes(routes!(operations::runners))
        .routes(routes!(operations::backends))
        .routes(routes!(operations::stats))
        .routes(routes!(operations::timeline))
        .routes(routes!(operations::violations))
        .routes(routes!(operations::gateway_requests))
        .routes(routes!(operations::whoami))
        .routes(routes!(operations::metrics))
        .routes(routes!(operations::description))
}

/// Routes that may wait, and health checks that must respond under load. They apply their own limits.
pub(super) fn long() -> Routes {
    OpenApiRouter::new()
        .routes(routes!(runs::submit))
        .routes(routes!(runner::claim))
        .routes(routes!(events::session_stream))
        .routes(routes!(events::all_stream))
        .routes(routes!(operations::healthz))
        .routes(routes!(operations::readyz))
}

/// Builds the router. The guard runs before it.
pub(super) fn router(context: &Arc<Context>) -> Router {
    let (short, _) = short().split_for_parts();
    let (long, _) = long().split_for_parts();
    short
        .route_layer(from_fn_with_state(context.clone(), limits::limit))
        .merge(long)
        .merge(ui::router())
        .fallback(errors::not_found)
        .method_not_allowed_fallback(errors::method_not_allowed)
        .with_state(context.clone())
}
