//! Where weights are kept, which there are, and which one is used.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::pull_paths::PullPaths;
use super::{DEFAULT, Environment, Error, MODEL_VARIABLE, STORE_VARIABLE, Source};

/// The first bytes of every GGUF file.
const MAGIC: &[u8; 4] = b"GGUF";

/// Where weights come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Origin {
    /// The file that `SLIPFORM_MODEL` names.
    #[serde(rename = "SLIPFORM_MODEL")]
    Variable,
    /// The weights that a pull fetches.
    #[serde(rename = "default")]
    Default,
    /// A file that someone put into the store.
    #[serde(rename = "store")]
    Store,
}

impl Origin {
    /// Its name in listings.
    pub fn name(self) -> &'static str {
        match self {
            Origin::Variable => MODEL_VARIABLE,
            Origin::Default => "default",
            Origin::Store => "store",
        }
    }
}

/// Weights on this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Model {
    /// The file's name without `.gguf`.
    pub name: String,
    /// The file.
    pub path: PathBuf,
    /// Its size.
    pub bytes: u64,
    /// Where it comes from.
    pub source: Origin,
    /// Whether it was found to be the published file.
    pub verified: bool,
    /// Whether it is the one that runs use.
    pub used: bool,
}

/// The folder for weights of a project alone, which is used where somebody has made it.
const PROJECT_STORE: &str = ".slipform/models";

/// The folder in which weights are kept; it need not exist yet.
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
        // A relative path is to be ignored, says the specification of the variable.
        let named = read("XDG_CACHE_HOME").filter(|path| path.is_absolute());
        named.or_else(|| read("HOME").map(|home| home.join(".cache")))
    };
    Ok(caches.ok_or(Error::NoFolder)?.join("slipform").join("models"))
}

/// The file that a run is to load: the one that `SLIPFORM_MODEL` names, else the default weights.
pub fn locate(environment: Environment<'_>) -> Result<PathBuf, Error> {
    if let Some(path) = chosen(environment) {
        check_chosen(&path)?;
        return Ok(path);
    }
    let place_in = folder(environment)?;
    let place = PullPaths::of(&place_in, &DEFAULT);
    match place.is_verified() {
        true => Ok(place.weights),
        false if place.weights.exists() => Err(Error::Unverified { path: place.weights }),
        false => Err(Error::NotPulled { path: place.weights }),
    }
}

/// The weights there are, the used ones first. A file that `SLIPFORM_MODEL` names has to be usable.
pub fn list(store: &Path, source: &Source, environment: Environment<'_>) -> Result<Vec<Model>, Error> {
    let place = PullPaths::of(store, source);
    let mut found = Vec::new();
    let chosen = chosen(environment);
    if let Some(path) = &chosen {
        found.push((path.clone(), check_chosen(path)?, Origin::Variable));
    }
    for (path, bytes) in files(store)? {
        let origin = if path == place.weights { Origin::Default } else { Origin::Store };
        if !chosen.as_deref().is_some_and(|chosen| is_same(chosen, &path)) {
            found.push((path, bytes, origin));
        }
    }
    let model = |(path, bytes, origin): (PathBuf, u64, Origin)| {
        let verified = is_same(&path, &place.weights) && place.is_verified();
        let used = origin == Origin::Variable || (chosen.is_none() && verified);
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Model { name, path, bytes, source: origin, verified, used }
    };
    let mut models: Vec<Model> = found.into_iter().map(model).collect();
    models.sort_by(|a, b| (!a.used, &a.name).cmp(&(!b.used, &b.name)));
    Ok(models)
}

/// Whether two paths are of one file that exists.
fn is_same(one: &Path, other: &Path) -> bool {
    fs::canonicalize(one).is_ok_and(|one| fs::canonicalize(other).is_ok_and(|other| one == other))
}

/// The GGUF files of the store with their sizes.
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

/// The size of a file that looks like weights. `setting` is what names it, and `otherwise` what else could be done
/// with the setting.
pub fn check(path: &Path, setting: &str, otherwise: &str) -> Result<u64, Error> {
    let unusable =
        |problem: String| Error::Chosen { setting: setting.to_owned(), path: path.to_owned(), problem };
    let unreadable = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            unusable(format!("there is no such file; give the path of a GGUF file, or {otherwise}"))
        }
        _ => unusable(format!("it cannot be read: {error}")),
    };
    let metadata = fs::metadata(path).map_err(unreadable)?;
    if !metadata.is_file() {
        return Err(unusable("that is not a file; give the path of the GGUF file itself".to_owned()));
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
    fn the_environment_says_where_weights_are() {
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
