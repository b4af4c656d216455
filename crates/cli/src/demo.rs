//! `slipform serve --demo`: a project with recorded runs in memory, to look around in.
//!
//! The runs are performed by the engine like any other; only the replies of their models are recorded. New runs use the
//! embedded model.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde::Deserialize;
use serde_json::Value;
use slipform_api::{CallerApi, RequestLog as _, RunRequest, waiting};
use slipform_coordinator::App;
use slipform_types::{GatewayRequest, with_hex};

use crate::output;

/// The agents of the project: file names and contents.
const AGENTS: [(&str, &str); 7] = [
    ("triage.yaml", include_str!("demo/triage.yaml")),
    ("invoice.yaml", include_str!("demo/invoice.yaml")),
    ("release-notes.yaml", include_str!("demo/release-notes.yaml")),
    ("release-manager.yaml", include_str!("demo/release-manager.yaml")),
    ("support-lead.yaml", include_str!("demo/support-lead.yaml")),
    ("inventory.yaml", include_str!("demo/inventory.yaml")),
    (
        "check-documentation-links-of-all-supported-versions.yaml",
        include_str!("demo/check-documentation-links-of-all-supported-versions.yaml"),
    ),
];

/// The runs in order, with the replies of their models.
const RUNS: &str = include_str!("demo/runs.json");

/// Requests of the gateway. Only their summaries are recorded.
const REQUESTS: &str = include_str!("demo/requests.json");

/// The backends whose replies are recorded, with the names of their models.
const BACKENDS: [(&str, &str); 3] =
    [("local", "smollm2-135m"), ("hosted", "gpt-4.1-mini"), ("large", "claude-sonnet-4-5")];

/// The address of the demo's database.
pub(crate) const DATABASE: &str = "sqlite::memory:";

/// The longest time that a run may take.
const RUN_MAX: Duration = Duration::from_secs(60);

/// A project in a temporary folder, which is deleted when this is dropped.
pub(crate) struct DemoProject {
    pub(crate) folder: PathBuf,
    runs: Vec<DemoRun>,
    requests: Vec<GatewayRequest>,
}

/// One recorded run.
#[derive(Deserialize)]
struct DemoRun {
    agent: String,
    #[serde(default)]
    prompt: Option<String>,
    #[serde(default)]
    backend: Option<String>,
    replies: Vec<DemoReply>,
}

#[derive(Deserialize)]
struct DemoReply {
    backend: String,
    reply: Value,
}

impl DemoProject {
    /// Writes the project.
    pub(crate) fn create() -> Result<DemoProject> {
        let runs: Vec<DemoRun> = serde_json::from_str(RUNS).context("the recorded runs are invalid")?;
        let requests = serde_json::from_str(REQUESTS).context("the recorded requests are invalid")?;
        let mut bytes = [0; 6];
        getrandom::fill(&mut bytes).map_err(|error| anyhow::anyhow!("cannot name a folder: {error}"))?;
        let folder = std::env::temp_dir().join(with_hex("slipform-demo-", &bytes));
        let project = DemoProject { folder, runs, requests };
        project
            .write()
            .with_context(|| format!("cannot write the project in {}", project.folder.display()))?;
        Ok(project)
    }

    fn write(&self) -> Result<()> {
        let agents = self.folder.join("agents");
        fs::create_dir_all(&agents)?;
        for (name, text) in AGENTS {
            fs::write(agents.join(name), text)?;
        }
        // Calls are answered in order, so each backend has the replies of all its runs.
        let mut replies: BTreeMap<&str, String> = BTreeMap::new();
        for reply in self.runs.iter().flat_map(|run| &run.replies) {
            writeln!(replies.entry(&reply.backend).or_default(), "{}", reply.reply)?;
        }
        let mut settings =
            "default_backend = \"embedded\"\n[server]\nslots = 1\n[tiers]\nsmall = \"local\"\nlarge = \"large\"\n"
                .to_owned();
        for (name, model) in BACKENDS {
            let file = format!("{name}.jsonl");
            write!(
                settings,
                "[backends.{name}]\nkind = \"replay\"\nmodel = \"{model}\"\nreplies = \"{file}\"\n"
            )?;
            fs::write(self.folder.join(file), replies.get(name).map_or("\"\"\n", String::as_str))?;
        }
        fs::write(self.folder.join("slipform.toml"), settings)?;
        Ok(())
    }

    /// Performs the recorded runs, one after the other.
    async fn perform(&self, app: &App) {
        self.requests.iter().for_each(|request| app.record(request.clone()));
        for run in &self.runs {
            let request = RunRequest {
                prompt: run.prompt.clone(),
                backend: run.backend.clone(),
                ..RunRequest::start(run.agent.clone())
            };
            let performed = async {
                let created = app.submit(request, None).await?;
                waiting::wait_until_idle(app as &dyn CallerApi, &created.run_id).await
            };
            let outcome = tokio::time::timeout(RUN_MAX, performed).await;
            if let Ok(Err(error)) = outcome {
                output::lines([format!("slipform: a run of the demo could not start: {error}")]);
            }
        }
    }
}

/// Makes a folder the current one.
pub(crate) fn enter(folder: &Path) -> Result<()> {
    std::env::set_current_dir(folder).with_context(|| format!("cannot use the folder {}", folder.display()))
}

/// Performs the recorded runs of a demo, and then waits forever.
pub(crate) async fn fill(demo: Option<&DemoProject>, app: &App) {
    if let Some(demo) = demo {
        demo.perform(app).await;
    }
    std::future::pending().await
}

impl Drop for DemoProject {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}
