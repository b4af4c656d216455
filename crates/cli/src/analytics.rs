//! Opens the analytics files of a project if its settings enable them.

use std::path::Path;

use slipform_coordinator::{Analytics, App};

use crate::backends::environment;
use crate::coordinator;
use crate::settings::{AnalyticsSettings, Settings};

/// The project folder with the analytics files.
const FOLDER: &str = ".slipform/analytics";

/// Returns the analytics writer for a database, or `None` if the settings disable it.
pub(crate) fn open(
    app: &App,
    database: &str,
    project: &Path,
    settings: &AnalyticsSettings,
) -> Option<Analytics> {
    settings.enabled.then(|| Analytics::new(app.store().clone(), &project.join(FOLDER), database))
}

/// Writes pending analytics of the project's own runs. Does nothing if the settings cannot be read: another command
/// reports that error.
pub(crate) async fn catch_up(app: &App, project: &Path) {
    let Ok(settings) = Settings::read(project, &environment) else { return };
    if let Some(analytics) = open(app, &coordinator::database(project), project, &settings.analytics) {
        analytics.catch_up().await;
    }
}
