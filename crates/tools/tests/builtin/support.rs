//! A project in a temporary folder, and calls of the tools in it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use slipform_schema::Schema;
use slipform_testkit::TestFolder;
use slipform_tools::{Error, Project, builtin};

/// A temporary folder that contains a project and files beside it. Dropping it deletes the folder.
pub(crate) struct Tree {
    base: TestFolder,
    project: Arc<Project>,
}

impl Tree {
    /// Creates a project with these files.
    pub(crate) fn new(files: &[(&str, &str)]) -> Tree {
        let base = TestFolder::new("tools");
        std::fs::create_dir_all(base.join("project")).unwrap();
        let project = Arc::new(Project::open(&base.join("project")).unwrap());
        let tree = Tree { base, project };
        for (path, content) in files {
            tree.put(path, content);
        }
        tree
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.base.join("project")
    }

    /// Returns a path beside the project.
    pub(crate) fn outside(&self, name: &str) -> PathBuf {
        self.base.join(name)
    }

    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.root().join(path)
    }

    pub(crate) fn put(&self, path: &str, content: impl AsRef<[u8]>) {
        let path = self.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, content).unwrap();
    }

    pub(crate) fn content(&self, path: &str) -> String {
        std::fs::read_to_string(self.path(path)).unwrap()
    }

    pub(crate) fn link(&self, to: impl AsRef<Path>, path: &str) {
        std::os::unix::fs::symlink(to, self.path(path)).unwrap();
    }

    /// Opens the same folder again, as another process would.
    pub(crate) fn reopen(&mut self) {
        self.project = Arc::new(Project::open(&self.root()).unwrap());
    }

    /// Calls a tool. Asserts that arguments and result satisfy its schemas.
    pub(crate) async fn call(&self, name: &str, arguments: Value) -> Result<Value, Error> {
        let tool = builtin(name, &self.project).unwrap();
        satisfies(&tool.definition().parameters, &arguments);
        let result = tool.call(&arguments).await;
        if let Ok(value) = &result {
            satisfies(tool.definition().output.as_ref().unwrap(), value);
        }
        result
    }

    /// Calls a tool and returns its result.
    pub(crate) async fn ok(&self, name: &str, arguments: Value) -> Value {
        self.call(name, arguments).await.unwrap()
    }

    /// Calls a tool and returns its error message.
    pub(crate) async fn refused(&self, name: &str, arguments: Value) -> String {
        match self.call(name, arguments).await {
            Ok(value) => panic!("not refused: {value}"),
            Err(error) => error.to_string(),
        }
    }
}

fn satisfies(schema: &Value, value: &Value) {
    let violations = Schema::compile(schema).unwrap().violations(value).lines();
    assert!(violations.is_empty(), "{violations:?} in {value}");
}

/// Returns one member of every item.
pub(crate) fn members(items: &Value, name: &str) -> Vec<String> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    items.as_array().unwrap().iter().map(|item| text(&item[name])).collect()
}
