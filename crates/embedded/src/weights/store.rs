//! The store of weights: its folder, its files, and the file that runs use.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::pull_paths::PullPaths;
use super::{DEFAULT, Environment, Error, MODEL_VARIABLE, STORE_VARIABLE, Source};

/// The first bytes of a GGUF file.
const MAGIC: &[u8; 4] = b"GGUF";

/// The origin of weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Origin {
    /// The file named by `SLIPFORM_MODEL`.
    #[serde(rename = "SLIPFORM_MODEL")]
    Variable,
    /// The default weights, which `slipform model pull` downloads.
    #[serde(rename = "default")]
    Default,
    /// Another file in the store, put there by the user.
    #[serde(rename = "store")]
    Store,
}

impl Origin {
    /// Returns the name in listings, which is also the serialized form.
    pub fn name(self) -> &'static str {
        match self {
            Origin::Variable => MODEL_VARIABLE,
            Origin::Default => "default",
            Origin::Store => "store",
        }
    }
}

/// A file of weights on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Model {
    /// The file name without `.gguf`.
    pub name: String,
    /// The path of the file.
    pub path: PathBuf,
    /// The size in bytes.
    pub bytes: u64,
    /// The origin of the file.
    pub source: Origin,
    /// Whether its checksum is that of the published default weights.
    pub verified: bool,
    /// Whether runs load this file.
    pub used: bool,
}

/// The store of a project, which is used if the folder exists.
const PROJECT_STORE: &str = ".slipform/models";

/// Returns the folder of the store, which may not exist yet.
///
/// The folder is that of `SLIPFORM_MODEL_DIR`, else the project's, else one in the user's cache folder.
///
/// # Errors
/// Fails if the home folder is unknown.
pub fn folder(environment: Environment<'_>) -> Result<PathBuf, Error> {
    let read = |name: &str| environment(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(folder) = read(STORE_VARIABLE) {
        return Ok(folder);
    }
    let project = PathBuf::from(PROJECT_STORE);
    if project.is_dir() {
        return Ok(project);
    }
    let caches = if cfg!(windows) {
        read("LOCALAPPDATA")
    } else if cfg!(target_os = "macos") {
        read("HOME").map(|home| home.join("Library/Caches"))
    } else {
        // The XDG specification says to ignore relative paths.
        let named = read("XDG_CACHE_HOME").filter(|path| path.is_absolute());
        named.or_else(|| read("HOME").map(|home| home.join(".cache")))
    };
    Ok(caches.ok_or(Error::NoFolder)?.join("slipform").join("models"))
}

/// Returns the file that a run loads: the one named by `SLIPFORM_MODEL`, else the default weights.
///
/// # Errors
/// Fails if the named file is unusable, or the default weights are missing or not verified.
pub fn locate(environment: Environment<'_>) -> Result<PathBuf, Error> {
    if let Some(path) = chosen(environment) {
        check_chosen(&path)?;
        return Ok(path);
    }
    let store = folder(environment)?;
    let paths = PullPaths::of(&store, &DEFAULT);
    if paths.is_verified() {
        Ok(paths.weights)
    } else if paths.weights.exists() {
        Err(Error::Unverified { path: paths.weights })
    } else {
        Err(Error::NotPulled { path: paths.weights })
    }
}

/// Lists the weights on this machine, those in use first.
///
/// # Errors
/// Fails if the store is unreadable or the file named by `SLIPFORM_MODEL` is unusable.
pub fn list(store: &Path, source: &Source, environment: Environment<'_>) -> Result<Vec<Model>, Error> {
    let paths = PullPaths::of(store, source);
    let mut found = Vec::new();
    let chosen = chosen(environment);
    if let Some(path) = &chosen {
        found.push((path.clone(), check_chosen(path)?, Origin::Variable));
    }
    for (path, bytes) in files(store)? {
        let origin = if path == paths.weights { Origin::Default } else { Origin::Store };
        if !chosen.as_deref().is_some_and(|chosen| is_same(chosen, &path)) {
            found.push((path, bytes, origin));
        }
    }
    let model = |(path, bytes, origin): (PathBuf, u64, Origin)| {
        let verified = is_same(&path, &paths.weights) && paths.is_verified();
        let used = origin == Origin::Variable || (chosen.is_none() && verified);
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Model { name, path, bytes, source: origin, verified, used }
    };
    let mut models: Vec<Model> = found.into_iter().map(model).collect();
    models.sort_by(|a, b| (!a.used, &a.name).cmp(&(!b.used, &b.name)));
    Ok(models)
}

/// Returns whether two paths refer to the same existing file.
fn is_same(one: &Path, other: &Path) -> bool {
    fs::canonicalize(one).is_ok_and(|one| fs::canonicalize(other).is_ok_and(|other| one == other))
}

/// Returns the GGUF files of the store with their sizes; empty if the store does not exist.
fn files(store: &Path) -> Result<Vec<(PathBuf, u64)>, Error> {
    let failed = |source| Error::Store { action: "read", path: store.to_owned(), source };
    let entries = match fs::read_dir(store) {
        Ok(entries) => entries,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed(error)),
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.map_err(failed)?.path();
        if path.extension().is_none_or(|extension| extension != "gguf") {
            continue;
        }
        if let Some(metadata) = fs::metadata(&path).ok().filter(fs::Metadata::is_file) {
            files.push((path, metadata.len()));
        }
    }
    Ok(files)
}

fn check_chosen(path: &Path) -> Result<u64, Error> {
    check(path, MODEL_VARIABLE, "unset the variable")
}

fn chosen(environment: Environment<'_>) -> Option<PathBuf> {
    environment(MODEL_VARIABLE).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// Checks that a file looks like GGUF and returns its size in bytes.
///
/// `setting` names the source of the path in messages, and `otherwise` is an alternative remedy.
///
/// # Errors
/// Fails if the path is not a readable file that begins with `GGUF`.
pub fn check(path: &Path, setting: &str, otherwise: &str) -> Result<u64, Error> {
    let unusable =
        |problem: String| Error::Chosen { setting: setting.to_owned(), path: path.to_owned(), problem };
    let unreadable = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            unusable(format!("the file does not exist; give the path of a GGUF file, or {otherwise}"))
        }
        _ => unusable(format!("it cannot be read: {error}")),
    };
    let metadata = fs::metadata(path).map_err(unreadable)?;
    if !metadata.is_file() {
        return Err(unusable("it is not a file; give the path of the GGUF file itself".to_owned()));
    }
    let mut start = Vec::new();
    File::open(path)
        .and_then(|file| file.take(MAGIC.len() as u64).read_to_end(&mut start))
        .map_err(unreadable)?;
    if start != MAGIC {
        return Err(unusable(
            "it is not a GGUF file: its first bytes are not \"GGUF\"; weights of other kinds have to be converted"
                .to_owned(),
        ));
    }
    Ok(metadata.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::ffi::OsString;

    #[test]
    #[cfg(all(unix, not(target_os = "macos")))]
    fn folder_is_derived_from_the_environment() {
        let check = |variables: &[(&str, &str)], expected: Option<&str>| {
            let environment = |name: &str| {
                variables.iter().find(|(known, _)| *known == name).map(|(_, value)| OsString::from(value))
            };
            assert_eq!(folder(&environment).ok().as_deref(), expected.map(Path::new));
        };
        check(&[], None);
        check(&[("HOME", "/h")], Some("/h/.cache/slipform/models"));
        check(&[("HOME", "/h"), ("XDG_CACHE_HOME", "/x")], Some("/x/slipform/models"));
        check(&[("HOME", "/h"), ("XDG_CACHE_HOME", "x")], Some("/h/.cache/slipform/models"));
        check(&[("HOME", "/h"), ("SLIPFORM_MODEL_DIR", "")], Some("/h/.cache/slipform/models"));
        check(&[("HOME", "/h"), ("SLIPFORM_MODEL_DIR", "m")], Some("m"));
    }
}
