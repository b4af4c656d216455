//! A temporary folder for one test.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// An empty folder in the system's temporary folder. Dropping it deletes the folder.
#[derive(Debug)]
pub struct TestFolder(PathBuf);

impl TestFolder {
    /// Creates a folder. `name` is part of its path and need not be unique.
    pub fn new(name: &str) -> TestFolder {
        let path = std::env::temp_dir().join(format!("slipform-{name}-{:x}", unique_number()));
        // Remove the folder of an earlier test process with the same process id.
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a temporary folder");
        TestFolder(path)
    }

    /// Creates a folder with these files: path and content.
    pub fn with_files(name: &str, files: &[(&str, &str)]) -> TestFolder {
        let folder = TestFolder::new(name);
        for (path, text) in files {
            folder.write(path, text);
        }
        folder
    }

    /// Returns the path of the folder.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Returns the path of a file in the folder, which need not exist.
    pub fn join(&self, path: impl AsRef<Path>) -> PathBuf {
        self.0.join(path)
    }

    /// Writes a file, and creates the folders above it.
    pub fn write(&self, path: impl AsRef<Path>, text: &str) {
        let file = self.join(path);
        fs::create_dir_all(file.parent().expect("a file in the folder")).expect("a subfolder");
        fs::write(&file, text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    }

    /// Reads a file.
    pub fn read(&self, path: impl AsRef<Path>) -> String {
        let file = self.join(path);
        fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
    }

    /// Creates a named pipe and returns its path.
    pub fn named_pipe(&self, name: &str) -> PathBuf {
        let path = self.join(name);
        let status = std::process::Command::new("mkfifo").arg(&path).status();
        assert!(status.expect("`mkfifo`").success(), "cannot create the pipe {}", path.display());
        path
    }
}

impl Drop for TestFolder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Returns a number that no other call in any test process on this machine returns.
pub fn unique_number() -> u64 {
    static COUNTER: AtomicU64 = AtomicU64::new(1);
    (u64::from(std::process::id()) << 24) + COUNTER.fetch_add(1, Ordering::Relaxed)
}
