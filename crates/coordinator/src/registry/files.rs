//! Reading schema files, and noticing that files have changed.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde_json::Value;
use slipform_schema::{SCHEMA_BYTES_MAX, Schema};

/// How deep agent folders are looked into: `agents/NAME/agent.yaml`.
const DEPTH_MAX: usize = 2;

/// The most files that are looked at; a folder with more is not one of agents.
const FILES_MAX: usize = 10_000;

/// What tells that something has changed: every file with its size and time.
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
        // Links are followed: a configuration that is mounted is made of them.
        // One that leads nowhere counts as itself: it is reported, and may come to lead somewhere.
        let Ok(about) = fs::metadata(&path).or_else(|_| fs::symlink_metadata(&path)) else { continue };
        if about.is_dir() {
            if depth > 1 {
                collect(&path, depth - 1, files);
            }
        } else {
            files.push((path, about.len(), about.modified().ok()));
        }
    }
}

/// A schema file: its name, where it is, and what it holds.
pub(super) type SchemaFile = (String, PathBuf, Result<(Value, String), String>);

/// The schemas of a folder, by name. A folder that does not exist has none.
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
            let read = read(&path).map_err(|problem| format!("{}: {problem}", path.display()));
            found.push((name.to_owned(), path, read));
        }
    }
    found.sort_by(|one, other| one.0.cmp(&other.0));
    Ok(found)
}

/// Whether a schema can have this name.
pub(crate) fn is_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    (1..=100).contains(&name.len()) && name.bytes().all(is_plain) && !name.starts_with('.')
}

fn read(path: &Path) -> Result<(Value, String), String> {
    let refused = |error: io::Error| format!("it cannot be read: {error}");
    // Before it is opened: opening a pipe waits until somebody writes to it, which may be never.
    if !fs::metadata(path).map_err(refused)?.is_file() {
        return Err("it is no regular file; put a file there, or a link to one".to_owned());
    }
    let mut bytes = Vec::new();
    File::open(path)
        .and_then(|file| file.take(SCHEMA_BYTES_MAX + 1).read_to_end(&mut bytes))
        .map_err(refused)?;
    if bytes.len() as u64 > SCHEMA_BYTES_MAX {
        return Err(format!("it has more than the {SCHEMA_BYTES_MAX} bytes allowed; split it"));
    }
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
    let source: Value = serde_json::from_slice(text).map_err(|error| format!("it is not JSON: {error}"))?;
    let schema = Schema::compile(&source).map_err(|error| error.to_string())?;
    let hash = schema.hash().to_owned();
    Ok((source, hash))
}
