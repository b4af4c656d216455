//! The agents and schemas of a project's files.

mod files;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;

use serde_json::Value;
use slipform_agents::{Checked, load};
use slipform_schema::shipped;
use slipform_types::Blueprint;

use files::Fingerprint;
pub(crate) use files::is_name as is_schema_name;

/// The folder with a project's agents.
const AGENTS_FOLDER: &str = "agents";

/// The folder with a project's named schemas.
const SCHEMAS_FOLDER: &str = "schemas";

/// How often files are looked at. Editors save more often than people notice.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Something that a file describes.
#[derive(Debug, Clone)]
pub struct FromFile<T> {
    /// The file.
    pub path: PathBuf,
    /// The last version that could be used.
    pub in_force: Option<T>,
    /// What is wrong with the file as it is.
    pub problems: Vec<String>,
}

/// What a project's files describe, by name.
#[derive(Debug, Clone, Default)]
pub struct Files {
    /// Agents.
    pub agents: BTreeMap<String, FromFile<Arc<Blueprint>>>,
    /// Schemas, with their hash.
    pub schemas: BTreeMap<String, FromFile<(Arc<Value>, String)>>,
    /// A folder that cannot be read.
    pub trouble: Option<String>,
}

/// The agents and schemas of a project's files. A file that breaks leaves its last good version in force.
#[derive(Debug)]
pub struct Registry {
    project: PathBuf,
    files: RwLock<Arc<Files>>,
    /// What the files looked like just before they were read.
    seen: Mutex<Fingerprint>,
}

impl Registry {
    /// Reads the files of a project.
    pub fn read(project: &Path) -> Registry {
        let registry =
            Registry { project: project.to_owned(), files: RwLock::default(), seen: Mutex::default() };
        registry.look();
        registry
    }

    /// Adds an agent that no folder holds, or puts it before the one of its name.
    pub fn give(&self, path: PathBuf, blueprint: Blueprint) {
        let mut files = (*self.files()).clone();
        let name = blueprint.name.clone();
        let given = FromFile { path, in_force: Some(Arc::new(blueprint)), problems: Vec::new() };
        files.agents.insert(name, given);
        *self.files.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(files);
    }

    /// What the files describe now.
    pub fn files(&self) -> Arc<Files> {
        self.files.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads everything again.
    pub fn look(&self) {
        // Taken first: what changes while they are read is read again.
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = self.fingerprint();
        let before = self.files();
        let mut now = Files::default();
        self.read_agents(&before, &mut now);
        self.read_schemas(&before, &mut now);
        *self.files.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(now);
    }

    /// Watches the files for as long as it is polled. They are read where waiting for a disk keeps nobody else waiting.
    pub async fn watch(self: &Arc<Registry>) {
        let mut ticks = tokio::time::interval(LOOK_EVERY);
        loop {
            ticks.tick().await;
            let registry = self.clone();
            // One that panicked is tried again at the next tick.
            let _ = tokio::task::spawn_blocking(move || registry.look_again()).await;
        }
    }

    /// Reads everything again where something has changed.
    fn look_again(&self) {
        let now = self.fingerprint();
        let has_changed = *self.seen.lock().unwrap_or_else(PoisonError::into_inner) != now;
        if has_changed {
            self.look();
        }
    }

    fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of(&[self.project.join(AGENTS_FOLDER), self.project.join(SCHEMAS_FOLDER)])
    }

    fn read_agents(&self, before: &Files, now: &mut Files) {
        let all = match load(&self.project.join(AGENTS_FOLDER)) {
            Ok(all) => all,
            Err(error) => {
                now.agents = before.agents.clone();
                now.trouble = Some(error.to_string());
                return;
            }
        };
        for loaded in all {
            let last_good = before.agents.get(&loaded.name).and_then(|agent| agent.in_force.clone());
            let (in_force, problems) = match loaded.result {
                Ok(Checked { blueprint, .. }) => (Some(Arc::new(blueprint)), Vec::new()),
                Err(problems) => (last_good, problems.list.iter().map(ToString::to_string).collect()),
            };
            now.agents.insert(loaded.name, FromFile { path: loaded.path, in_force, problems });
        }
        self.keep_renamed(before, now);
    }

    /// A file whose name stands inside it is known by its file's name once it is broken: what it described before stays
    /// in force under the name that it had.
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

    fn read_schemas(&self, before: &Files, now: &mut Files) {
        let folder = self.project.join(SCHEMAS_FOLDER);
        let found = match files::schemas(&folder) {
            Ok(found) => found,
            Err(error) => {
                now.schemas = before.schemas.clone();
                now.trouble = Some(format!("the folder {} cannot be read: {error}", folder.display()));
                return;
            }
        };
        for (name, path, read) in found {
            let last_good = before.schemas.get(&name).and_then(|schema| schema.in_force.clone());
            let (in_force, problems) = match read {
                Ok((schema, hash)) => {
                    let problem = shadowing(&name, &schema);
                    let problems = problem.map(|problem| format!("{}: {problem}", path.display()));
                    (Some((Arc::new(schema), hash)), problems.into_iter().collect())
                }
                Err(problem) => (last_good, vec![problem]),
            };
            now.schemas.insert(name, FromFile { path, in_force, problems });
        }
    }
}

/// What has to be said of a schema that goes before one of the program's and says something else.
pub(crate) fn shadowing(name: &str, schema: &Value) -> Option<String> {
    let known = shipped().iter().find(|known| known.name == name)?;
    let is_other = known.schema.source() != schema;
    is_other.then(|| {
        format!("it is used in place of the schema '{name}' that comes with the program, and is another; rename it")
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_changes_before_anyone_watches_is_seen() {
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
