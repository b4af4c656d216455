//! Third-party test data, which is not in the repository.

use std::path::{Path, PathBuf};

/// Returns the folder of a corpus in `../shared/corpora` beside the checkout; `None`, with a printed notice, if it is
/// missing.
#[expect(clippy::print_stdout, reason = "reports skipped tests")]
pub fn corpus(name: &str) -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpora").join(name);
    if !folder.exists() {
        println!("SKIPPED: ../shared/corpora/{name} is missing");
        return None;
    }
    Some(folder)
}
