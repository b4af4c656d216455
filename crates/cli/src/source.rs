//! Reads texts and schemas from files, standard input, `schemas/` and the program itself.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow, bail};
use serde_json::Value;
use slipform_schema::{SCHEMA_BYTES_MAX, Schema, shipped};

/// The project folder with named schemas.
const SCHEMAS_FOLDER: &str = "schemas";

/// Reads at most `limit` bytes of a file or of standard input. Reads one byte more if the text is longer, so that the
/// caller can detect it.
pub(crate) fn read_bytes(file: Option<&Path>, limit: usize) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let bytes_max = (limit as u64).saturating_add(1);
    match file.filter(|path| *path != Path::new("-")) {
        Some(path) => open(path)?
            .take(bytes_max)
            .read_to_end(&mut bytes)
            .with_context(|| format!("cannot read {}", path.display()))?,
        None => io::stdin()
            .lock()
            .take(bytes_max)
            .read_to_end(&mut bytes)
            .context("cannot read standard input")?,
    };
    Ok(bytes)
}

/// Opens a file for reading. Errors contain its path.
pub(crate) fn open(path: &Path) -> Result<File> {
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    if file.metadata().is_ok_and(|metadata| metadata.is_dir()) {
        bail!("cannot read {}: it is a folder", path.display());
    }
    Ok(file)
}

/// Compiles the schema in a file, the schema of that name in `schemas/`, or a shipped schema.
pub(crate) fn load_schema(given: &str) -> Result<Schema> {
    let (path, source) = load_schema_source(given)?;
    Schema::compile(&source)
        .map_err(|error| anyhow!("the schema in {} cannot be used: {error}", path.display()))
}

/// Finds and parses a schema without compiling it.
pub(crate) fn load_schema_source(given: &str) -> Result<(PathBuf, Value)> {
    let missing = match schema_path(given) {
        Ok(path) => return read_schema(path),
        Err(missing) => missing,
    };
    let known = shipped().iter().find(|known| known.name == given).ok_or(missing)?;
    Ok((PathBuf::from(format!("shipped/{given}.json")), known.schema.source().clone()))
}

fn read_schema(path: PathBuf) -> Result<(PathBuf, Value)> {
    let mut bytes = Vec::new();
    open(&path)?
        .take(SCHEMA_BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .with_context(|| format!("cannot read the schema {}", path.display()))?;
    if bytes.len() as u64 > SCHEMA_BYTES_MAX {
        bail!(
            "the schema in {} has more than the {SCHEMA_BYTES_MAX} bytes allowed; split it",
            path.display()
        );
    }
    let source = serde_json::from_slice(strip_bom(&bytes))
        .map_err(|error| anyhow!("the schema in {} is not JSON: {error}", path.display()))?;
    Ok((path, source))
}

/// Returns the bytes without a leading UTF-8 byte order mark.
pub(crate) fn strip_bom(bytes: &[u8]) -> &[u8] {
    bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes)
}

fn schema_path(given: &str) -> Result<PathBuf> {
    let direct = PathBuf::from(given);
    // Pipes count as files, for `<(jq … big.json)`.
    if direct.exists() && !direct.is_dir() {
        return Ok(direct);
    }
    if let Some(named) = named_path(given) {
        if named.is_file() {
            return Ok(named);
        }
        bail!(
            "schema `{given}` not found: no such file, and no {}; pass a file or the name of a schema in {SCHEMAS_FOLDER}/",
            named.display()
        );
    }
    bail!("schema `{given}` not found: no such file")
}

/// Returns the path of a named schema, or `None` if the text is not a valid name.
fn named_path(name: &str) -> Option<PathBuf> {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.');
    let is_name = !name.is_empty() && name.bytes().all(is_plain);
    is_name.then(|| Path::new(SCHEMAS_FOLDER).join(format!("{name}.json")))
}
