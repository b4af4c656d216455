//! The cursor of an analytics folder for one database.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use slipform_store::Position;

/// The position up to which lines are written. Stored after the lines, so that it never points beyond them.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Cursor {
    transaction: i64,
    event: i64,
    /// Length of the file at that position. Lines beyond it may be written again.
    pub(super) length: u64,
}

impl Cursor {
    /// Reads a cursor. A missing or damaged file yields the start; existing lines are still recognized.
    pub(super) fn read(path: &Path) -> io::Result<Cursor> {
        match fs::read(path) {
            Ok(text) => Ok(serde_json::from_slice(&text).unwrap_or_default()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Cursor::default()),
            Err(error) => Err(error),
        }
    }

    /// Replaces the cursor atomically.
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

/// Returns the cursor's path. The database address is hashed, because it can contain a password.
pub(super) fn path(folder: &Path, database: &str) -> PathBuf {
    let hash: String = Sha256::digest(database).iter().take(6).map(|byte| format!("{byte:02x}")).collect();
    folder.join(format!(".position-{hash}.json"))
}
