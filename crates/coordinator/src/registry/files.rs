//! Reads schema files and detects changed files.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde_json::Value;
use slipform_schema::{SCHEMA_BYTES_MAX, Schema};

/// Depth of the scan: `agents/NAME/agent.yaml`.
const DEPTH_MAX: usize = 2;

/// Maximum number of files in a fingerprint, which bounds the scan of a wrong folder.
const FILES_MAX: usize = 10_000;

/// Path, size and modification time of every file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Fingerprint(Vec<(PathBuf, u64, Option<SystemTime>)>);

impl Fingerprint {
    pub(super) fn of(folders: &[PathBuf]) -> Fingerprint {
        let mut files = Vec::new();
        for folder in folders {
            collect(folder, DEPTH_MAX, &mut files);
        }
        files.sort();
        Fingerprint(files)
    }
}

fn collect(folder: &Path, depth: usize, files: &mut Vec<(PathBuf, u64, Option<SystemTime>)>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        if files.len() >= FILES_MAX {
            return;
        }
        let path = entry.path();
        // Follows links, because mounted configuration consists of links. A dangling link is included as
        // itself, so that the registry reports it and notices when its target appears.
        let Ok(metadata) = fs::metadata(&path).or_else(|_| fs::symlink_metadata(&path)) else { continue };
        if metadata.is_dir() {
            if depth > 1 {
                collect(&path, depth - 1, files);
            }
        } else {
            files.push((path, metadata.len(), metadata.modified().ok()));
        }
    }
}

/// Name, path, and the schema with its hash or an error message.
pub(super) type SchemaFile = (String, PathBuf, Result<(Value, String), String>);

/// Reads the schemas of a folder, sorted by name. A missing folder has none.
pub(super) fn schemas(folder: &Path) -> io::Result<Vec<SchemaFile>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut found = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let name = path.file_stem().and_then(|name| name.to_str()).filter(|name| is_name(name));
        let is_schema = path.extension().is_some_and(|extension| extension == "json") && !path.is_dir();
        if let (Some(name), true) = (name, is_schema) {
            let read = read(&path);
            found.push((name.to_owned(), path, read));
        }
    }
    found.sort_by(|one, other| one.0.cmp(&other.0));
    Ok(found)
}

/// Whether a schema may have this name.
pub(crate) fn is_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    (1..=100).contains(&name.len()) && name.bytes().all(is_plain) && !name.starts_with('.')
}

fn read(path: &Path) -> Result<(Value, String), String> {
    let refused = |error: io::Error| format!("cannot read the file: {error}");
    // Checked before opening, because opening a named pipe can block forever.
    if !fs::metadata(path).map_err(refused)?.is_file() {
        return Err("not a regular file; replace it with a file or a link to one".to_owned());
    }
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(SCHEMA_BYTES_MAX + 1).read_to_end(&mut bytes))
        .map_err(refused)?;
    if bytes.len() as u64 > SCHEMA_BYTES_MAX {
        return Err(format!("the schema exceeds {SCHEMA_BYTES_MAX} bytes; split it"));
    }
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
    let source: Value = serde_json::from_slice(text).map_err(|error| format!("not valid JSON: {error}"))?;
    let schema = Schema::compile(&source).map_err(|error| error.to_string())?;
    let hash = schema.hash().to_owned();
    Ok((source, hash))
}

/// Returns when a file was last changed, as a Unix timestamp in milliseconds.
pub(super) fn modified_at(path: &Path) -> Option<i64> {
    let modified = fs::metadata(path).and_then(|metadata| metadata.modified()).ok()?;
    let since = modified.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    i64::try_from(since.as_millis()).ok()
}
