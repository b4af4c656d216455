//! The files for those who count, as this project wants them.

use std::path::Path;

use slipform_coordinator::{Analytics, App};

use crate::backends::environment;
use crate::coordinator;
use crate::settings::{AnalyticsSettings, Settings};

/// Where they are.
const FOLDER: &str = ".slipform/analytics";

/// The files about a database; none where nobody wants them.
pub(crate) fn about(
    app: &App,
    database: &str,
    project: &Path,
    settings: &AnalyticsSettings,
) -> Option<Analytics> {
    settings.enabled.then(|| Analytics::new(app.store().clone(), &project.join(FOLDER), database))
}

/// Writes what there is about the project's own runs. Settings that cannot be read want nothing.
pub(crate) async fn catch_up(app: &App, project: &Path) {
    let Ok(settings) = Settings::read(project, &environment) else { return };
    if let Some(analytics) = about(app, &coordinator::database(project), project, &settings.analytics) {
        analytics.catch_up().await;
    }
}
