//! The file of lines. There is one: whoever reads `*.jsonl` with common tools gets its lines and no names of files.

use std::collections::HashSet;
use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, BufRead as _, BufReader, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use slipform_store::Position;

use super::cursor::{self, Cursor};
use super::line::{Identity, Line};

/// Its name.
const FILE: &str = "events.jsonl";

/// A folder that nobody else writes to.
pub(super) struct Folder {
    path: PathBuf,
    kept_at: PathBuf,
    kept: Cursor,
    written: Option<Written>,
    #[expect(dead_code, reason = "the lock lasts as long as the file is open")]
    lock: File,
}

/// The file, while it is written to.
struct Written {
    file: File,
    length: u64,
    /// Where that begins which may be said again.
    settled: u64,
    /// What was said there.
    known: HashSet<Identity>,
}

impl Folder {
    /// Opens or makes a folder; none where somebody else writes to it now.
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
        let kept_at = cursor::path(path, database);
        let kept = Cursor::read(&kept_at)?;
        Ok(Some(Folder { path: path.to_owned(), kept_at, kept, written: None, lock }))
    }

    /// How far the lines go.
    pub(super) fn position(&self) -> Position {
        self.kept.position()
    }

    /// Begins with the first event. What the files hold is not said again.
    pub(super) fn begin_anew(&mut self) {
        self.kept = Cursor::default();
    }

    /// Appends what is not there yet, and then notes how far that goes.
    pub(super) fn write(&mut self, lines: Vec<Line>, position: Position) -> io::Result<()> {
        if !lines.is_empty() {
            let written = match &mut self.written {
                Some(written) => written,
                None => self.written.insert(Written::open(&self.path.join(FILE), self.kept.length)?),
            };
            written.append(&lines)?;
            self.kept.length = written.settled;
        }
        self.kept.advance(position);
        self.kept.write(&self.kept_at)
    }

    /// Notes that everything was read: what was not said again by now is not going to be.
    pub(super) fn settle(&mut self) -> io::Result<()> {
        let Some(written) = self.written.as_mut().filter(|written| written.settled < written.length) else {
            return Ok(());
        };
        written.known.clear();
        written.settled = written.length;
        self.kept.length = written.length;
        self.kept.write(&self.kept_at)
    }
}

impl Written {
    /// Opens a file, takes a torn last line away, and learns what was said beyond what is settled.
    fn open(path: &Path, settled: u64) -> io::Result<Written> {
        let mut file = OpenOptions::new().create(true).read(true).append(true).open(path)?;
        let settled = settled.min(file.metadata()?.len());
        file.seek(SeekFrom::Start(settled))?;
        let (mut length, mut known) = (settled, HashSet::new());
        let (mut reader, mut line) = (BufReader::new(&file), Vec::new());
        while reader.read_until(b'\n', &mut line)? > 0 && line.ends_with(b"\n") {
            length += line.len() as u64;
            known.extend(Identity::read(&line));
            line.clear();
        }
        if !line.is_empty() {
            file.set_len(length)?;
        }
        Ok(Written { file, length, settled, known })
    }

    fn append(&mut self, lines: &[Line]) -> io::Result<()> {
        let mut text = Vec::new();
        for line in lines.iter().filter(|line| !self.known.remove(&line.identity())) {
            serde_json::to_writer(&mut text, line)?;
            text.push(b'\n');
        }
        if !text.is_empty() {
            self.file.write_all(&text)?;
            self.file.sync_data()?;
        }
        self.length += text.len() as u64;
        if self.known.is_empty() {
            self.settled = self.length;
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
    fn what_is_there_stays_known_until_everything_was_read() {
        let path = std::env::temp_dir().join(format!("slipform-folder-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        write(&path, &[1, 2, 3]).settle().unwrap();
        let file = path.join(FILE);
        let written = fs::read(&file).unwrap();
        fs::remove_file(cursor::path(&path, "sqlite:x")).unwrap();
        // Somebody who is interrupted after a part of it settles nothing.
        drop(write(&path, &[1]));
        let folder = write(&path, &[2, 3]);
        assert_eq!(folder.position(), Position { transaction: 0, event: 3 });
        assert!(Folder::open(&path, "sqlite:x").unwrap().is_none(), "one at a time");
        assert_eq!(fs::read(&file).unwrap(), written);
        fs::remove_dir_all(&path).unwrap();
    }
}
