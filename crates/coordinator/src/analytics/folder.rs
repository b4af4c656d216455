//! The lines file. A single file, so that `grep` over `*.jsonl` prints no file names.

use std::collections::HashSet;
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, BufRead as _, BufReader, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use slipform_store::Position;

use super::cursor::{self, Cursor};
use super::line::{Identity, Line};

/// Name of the lines file.
const FILE: &str = "events.jsonl";

/// An analytics folder, locked for this process.
pub(super) struct Folder {
    path: PathBuf,
    cursor_path: PathBuf,
    cursor: Cursor,
    file: Option<LinesFile>,
    #[expect(dead_code, reason = "the lock lasts as long as the file is open")]
    lock: File,
}

/// The lines file, opened for appending.
struct LinesFile {
    file: File,
    length: u64,
    /// Length up to which no line will be written again.
    complete_length: u64,
    /// Lines beyond that length.
    existing: HashSet<Identity>,
}

impl Folder {
    /// Opens or creates a folder. Returns `None` if another process is writing to it.
    pub(super) fn open(path: &Path, database: &str) -> io::Result<Option<Folder>> {
        let mut builder = DirBuilder::new();
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.recursive(true).create(path)?;
        let lock = OpenOptions::new().create(true).truncate(false).write(true).open(path.join(".lock"))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(error),
        }
        let cursor_path = cursor::path(path, database);
        let cursor = Cursor::read(&cursor_path)?;
        Ok(Some(Folder { path: path.to_owned(), cursor_path, cursor, file: None, lock }))
    }

    /// Returns the position up to which lines are written.
    pub(super) fn position(&self) -> Position {
        self.cursor.position()
    }

    /// Restarts at the first event. Existing lines are not repeated.
    pub(super) fn restart(&mut self) {
        self.cursor = Cursor::default();
    }

    /// Appends lines that are not in the file yet, then stores the cursor.
    pub(super) fn write(&mut self, lines: Vec<Line>, position: Position) -> io::Result<()> {
        if !lines.is_empty() {
            let written = match &mut self.file {
                Some(written) => written,
                None => self.file.insert(LinesFile::open(&self.path.join(FILE), self.cursor.length)?),
            };
            written.append(&lines)?;
            self.cursor.length = written.complete_length;
        }
        self.cursor.advance(position);
        self.cursor.write(&self.cursor_path)
    }

    /// Marks the whole file as complete, after all events have been read.
    pub(super) fn mark_complete(&mut self) -> io::Result<()> {
        let Some(written) = self.file.as_mut().filter(|written| written.complete_length < written.length)
        else {
            return Ok(());
        };
        written.existing.clear();
        written.complete_length = written.length;
        self.cursor.length = written.length;
        self.cursor.write(&self.cursor_path)
    }
}

impl LinesFile {
    /// Opens a file, truncates an incomplete last line, and reads the lines beyond the cursor.
    fn open(path: &Path, complete_length: u64) -> io::Result<LinesFile> {
        let mut file = OpenOptions::new().create(true).read(true).append(true).open(path)?;
        let complete_length = complete_length.min(file.metadata()?.len());
        file.seek(SeekFrom::Start(complete_length))?;
        let (mut length, mut existing) = (complete_length, HashSet::new());
        let (mut reader, mut line) = (BufReader::new(&file), Vec::new());
        while reader.read_until(b'\n', &mut line)? > 0 && line.ends_with(b"\n") {
            length += line.len() as u64;
            existing.extend(Identity::read(&line));
            line.clear();
        }
        if !line.is_empty() {
            file.set_len(length)?;
        }
        Ok(LinesFile { file, length, complete_length, existing })
    }

    fn append(&mut self, lines: &[Line]) -> io::Result<()> {
        let mut text = Vec::new();
        for line in lines.iter().filter(|line| !self.existing.remove(&line.identity())) {
            serde_json::to_writer(&mut text, line)?;
            text.push(b'\n');
        }
        if !text.is_empty() {
            self.file.write_all(&text)?;
            self.file.sync_data()?;
        }
        self.length += text.len() as u64;
        if self.existing.is_empty() {
            self.complete_length = self.length;
        }
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::fs;

    use serde_json::json;

    use super::*;

    fn line(seq: i64) -> Line {
        let payload = json!({"session_id": "ses_0123456789ab", "seq": seq});
        Line { kind: "agent.escalated", ts: "2000-02-29T00:00:00.007Z".to_owned(), payload }
    }

    fn write(path: &Path, events: &[i64]) -> Folder {
        let mut folder = Folder::open(path, "sqlite:x").unwrap().unwrap();
        let position = Position { transaction: 0, event: *events.last().unwrap() };
        folder.write(events.iter().map(|seq| line(*seq)).collect(), position).unwrap();
        folder
    }

    #[test]
    fn existing_lines_are_recognized_after_interruption() {
        let path = std::env::temp_dir().join(format!("slipform-folder-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        write(&path, &[1, 2, 3]).mark_complete().unwrap();
        let file = path.join(FILE);
        let written = fs::read(&file).unwrap();
        fs::remove_file(cursor::path(&path, "sqlite:x")).unwrap();
        // An interrupted writer must not mark the file as complete.
        drop(write(&path, &[1]));
        let folder = write(&path, &[2, 3]);
        assert_eq!(folder.position(), Position { transaction: 0, event: 3 });
        assert!(Folder::open(&path, "sqlite:x").unwrap().is_none(), "the folder is locked");
        assert_eq!(fs::read(&file).unwrap(), written);
        fs::remove_dir_all(&path).unwrap();
    }
}
