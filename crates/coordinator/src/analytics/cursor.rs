//! How far the lines of a database go.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use slipform_store::Position;

/// How far the lines of a database go. It is written after them, so that it never says too much.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Cursor {
    transaction: i64,
    event: i64,
    /// How long the file was by then: what is beyond may be said again.
    pub(super) length: u64,
}

impl Cursor {
    /// What was kept; nothing where that cannot be read. Lines that are there are recognised all the same.
    pub(super) fn read(path: &Path) -> io::Result<Cursor> {
        match fs::read(path) {
            Ok(text) => Ok(serde_json::from_slice(&text).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Cursor::default()),
            Err(error) => Err(error),
        }
    }

    /// Replaces what was kept, in whole or not at all.
    pub(super) fn write(&self, path: &Path) -> io::Result<()> {
        let beside = path.with_extension("new");
        fs::write(&beside, serde_json::to_vec(self)?)?;
        fs::rename(&beside, path)
    }

    pub(super) fn position(&self) -> Position {
        Position { transaction: self.transaction, event: self.event }
    }

    pub(super) fn advance(&mut self, position: Position) {
        (self.transaction, self.event) = (position.transaction, position.event);
    }
}

/// Where it is kept. A project may have had several databases, and their addresses may have passwords in them.
pub(super) fn path(folder: &Path, database: &str) -> PathBuf {
    let hash: String = Sha256::digest(database).iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    folder.join(format!(".position-{hash}.json"))
}
