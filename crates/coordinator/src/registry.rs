//! Loads and watches the agents and schemas of a project.

mod files;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use serde_json::Value;
use slipform_agents::{AGENTS_FOLDER, Checked, KB_AGENTS_FOLDER, load_project};
use slipform_api::Problem;
use slipform_schema::shipped;
use slipform_types::Blueprint;

use files::Fingerprint;
pub(crate) use files::is_name as is_schema_name;

/// Folder of the project's named schemas.
const SCHEMAS_FOLDER: &str = "schemas";

/// Polling interval for changed files.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// An agent or schema defined by a file.
#[derive(Debug, Clone)]
pub struct FromFile<T> {
    /// Path of the file.
    pub path: PathBuf,
    /// The last valid version; `None` if the file was never valid.
    pub in_force: Option<T>,
    /// Problems of the current file.
    pub problems: Vec<Problem>,
    /// Parts of the current file that are valid but probably not intended.
    pub warnings: Vec<Problem>,
    /// When the file was last changed, as a Unix timestamp in milliseconds.
    pub modified_at: Option<i64>,
}

/// The agents and schemas of a project, by name.
#[derive(Debug, Clone, Default)]
pub struct Files {
    /// Agents.
    pub agents: BTreeMap<String, FromFile<Arc<Blueprint>>>,
    /// Schemas with their hashes.
    pub schemas: BTreeMap<String, FromFile<(Arc<Value>, String)>>,
    /// The error of a folder that cannot be read.
    pub folder_error: Option<String>,
}

/// The project's agents and schemas. A file that becomes invalid leaves its last valid version in use.
#[derive(Debug)]
pub struct Registry {
    project: PathBuf,
    files: RwLock<Arc<Files>>,
    /// State of the files before they were last read.
    fingerprint: Mutex<Fingerprint>,
}

impl Registry {
    /// Reads the files of a project.
    pub fn read(project: &Path) -> Registry {
        let registry =
            Registry { project: project.to_owned(), files: RwLock::default(), fingerprint: Mutex::default() };
        registry.reload();
        registry
    }

    /// Adds an agent from outside the project's folders. It replaces an agent of the same name until the
    /// files change.
    pub fn insert_agent(&self, path: PathBuf, blueprint: Blueprint) {
        let mut files = (*self.files()).clone();
        let name = blueprint.name.clone();
        let given = FromFile {
            modified_at: files::modified_at(&path),
            path,
            in_force: Some(Arc::new(blueprint)),
            problems: Vec::new(),
            warnings: Vec::new(),
        };
        files.agents.insert(name, given);
        *self.files.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(files);
    }

    /// Returns the current agents and schemas.
    pub fn files(&self) -> Arc<Files> {
        self.files.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads all files again.
    pub fn reload(&self) {
        // Taken first, so that files changed during the read are read again.
        *self.fingerprint.lock().unwrap_or_else(PoisonError::into_inner) = self.current_fingerprint();
        let before = self.files();
        let mut now = Files::default();
        self.read_agents(&before, &mut now);
        self.read_schemas(&before, &mut now);
        *self.files.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(now);
    }

    /// Polls the files for changes, forever. Reads them on the blocking thread pool.
    pub async fn watch(self: &Arc<Registry>) {
        let mut ticks = tokio::time::interval(POLL_INTERVAL);
        loop {
            ticks.tick().await;
            let registry = self.clone();
            // A panic is retried at the next tick.
            let _ = tokio::task::spawn_blocking(move || registry.reload_if_changed()).await;
        }
    }

    /// Reads all files again if any has changed.
    fn reload_if_changed(&self) {
        let now = self.current_fingerprint();
        let has_changed = *self.fingerprint.lock().unwrap_or_else(PoisonError::into_inner) != now;
        if has_changed {
            self.reload();
        }
    }

    fn current_fingerprint(&self) -> Fingerprint {
        let folders = [AGENTS_FOLDER, KB_AGENTS_FOLDER, SCHEMAS_FOLDER];
        Fingerprint::of(&folders.map(|folder| self.project.join(folder)))
    }

    fn read_agents(&self, before: &Files, now: &mut Files) {
        let all = match load_project(&self.project, None) {
            Ok(all) => all,
            Err(error) => {
                now.agents = before.agents.clone();
                now.folder_error = Some(error.to_string());
                return;
            }
        };
        for loaded in all {
            let last_good = before.agents.get(&loaded.name).and_then(|agent| agent.in_force.clone());
            let (in_force, problems, warnings) = match loaded.result {
                Ok(Checked { blueprint, warnings }) => {
                    (Some(Arc::new(blueprint)), Vec::new(), warnings.iter().map(problem).collect())
                }
                Err(problems) => (last_good, problems.list.iter().map(problem).collect(), Vec::new()),
            };
            let (path, modified_at) = (self.relative(&loaded.path), files::modified_at(&loaded.path));
            now.agents.insert(loaded.name, FromFile { path, in_force, problems, warnings, modified_at });
        }
        self.keep_renamed(before, now);
    }

    /// An invalid file is listed under its file name, because its `name` key cannot be read. Keeps its last
    /// valid version in use under the name that it had.
    fn keep_renamed(&self, before: &Files, now: &mut Files) {
        for (name, agent) in &before.agents {
            let broken =
                now.agents.iter().find(|(_, other)| other.path == agent.path && other.in_force.is_none());
            let Some((other, problems)) = broken.map(|(other, file)| (other.clone(), file.problems.clone()))
            else {
                continue;
            };
            if other != *name && !now.agents.contains_key(name) && agent.in_force.is_some() {
                now.agents.remove(&other);
                now.agents.insert(name.clone(), FromFile { problems, ..agent.clone() });
            }
        }
    }

    /// Returns a path relative to the project, as people write it.
    fn relative(&self, path: &Path) -> PathBuf {
        path.strip_prefix(&self.project).unwrap_or(path).to_owned()
    }

    fn read_schemas(&self, before: &Files, now: &mut Files) {
        let folder = self.project.join(SCHEMAS_FOLDER);
        let found = match files::schemas(&folder) {
            Ok(found) => found,
            Err(error) => {
                now.schemas = before.schemas.clone();
                now.folder_error = Some(format!("cannot read the folder {}: {error}", folder.display()));
                return;
            }
        };
        for (name, path, read) in found {
            let (path, modified_at) = (self.relative(&path), files::modified_at(&path));
            let last_good = before.schemas.get(&name).and_then(|schema| schema.in_force.clone());
            let (in_force, problems) = match read {
                Ok((schema, hash)) => {
                    let problem = shadow_warning(&name, &schema).map(Problem::of_whole);
                    (Some((Arc::new(schema), hash)), problem.into_iter().collect())
                }
                Err(problem) => (last_good, vec![Problem::of_whole(problem)]),
            };
            let warnings = Vec::new();
            now.schemas.insert(name, FromFile { path, in_force, problems, warnings, modified_at });
        }
    }
}

/// Converts a problem to the form of the API.
pub(crate) fn problem(of: &slipform_agents::Problem) -> Problem {
    Problem { path: of.path.clone(), message: of.message.clone(), line: of.line }
}

/// Returns a warning if a schema replaces a different shipped schema of the same name.
pub(crate) fn shadow_warning(name: &str, schema: &Value) -> Option<String> {
    let known = shipped().iter().find(|known| known.name == name)?;
    let is_other = known.schema.source() != schema;
    is_other.then(|| format!("overrides a different schema `{name}` that comes with the program; rename it"))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[tokio::test]
    async fn change_before_watch_starts_is_detected() {
        let project = std::env::temp_dir().join(format!("slipform-registry-{}", std::process::id()));
        std::fs::create_dir_all(project.join(AGENTS_FOLDER)).unwrap();
        let registry = Arc::new(Registry::read(&project));
        let text = "name: late\ndescription: An agent.\nsystem_prompt: Be brief.\n";
        std::fs::write(project.join(AGENTS_FOLDER).join("late.yaml"), text).unwrap();
        let noticed = async {
            while !registry.files().agents.contains_key("late") {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        let watched = tokio::time::timeout(Duration::from_secs(20), async {
            tokio::select! {
                () = registry.watch() => {}
                () = noticed => {}
            }
        });
        assert!(watched.await.is_ok());
        std::fs::remove_dir_all(&project).unwrap();
    }
}
