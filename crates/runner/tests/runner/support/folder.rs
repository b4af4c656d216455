//! A temporary folder whose path is a string, as in a blueprint.

use slipform_testkit::TestFolder;

/// A folder for one test. Dropping it deletes the folder.
pub(crate) struct Folder(TestFolder);

impl Folder {
    pub(crate) fn new(name: &str) -> Folder {
        Folder(TestFolder::new(name))
    }

    /// Creates a folder with these files.
    pub(crate) fn with(name: &str, files: &[(&str, &str)]) -> Folder {
        Folder(TestFolder::with_files(name, files))
    }

    pub(crate) fn write(&self, path: &str, text: &str) {
        self.0.write(path, text);
    }

    pub(crate) fn read(&self, path: &str) -> String {
        self.0.read(path)
    }

    pub(crate) fn path(&self) -> String {
        self.0.path().to_str().unwrap().to_owned()
    }
}
