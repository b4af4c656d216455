//! Writes the list of the dashboard's files, if `cargo xtask ui` has built them.

use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let manifest = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let folder = manifest.join("../../dashboard/dist");
    // Cargo would run this script for every build if it watched a folder that does not exist. `cargo xtask ui` changes
    // the time of this file instead.
    println!("cargo::rerun-if-changed=build.rs");
    let mut files = Vec::new();
    if folder.is_dir() {
        println!("cargo::rerun-if-changed={}", folder.display());
        let folder = folder.canonicalize()?;
        collect(&folder, &folder, &mut files)?;
    }
    files.sort();
    let mut code = "static FILES: &[File] = &[\n".to_owned();
    for (name, path) in &files {
        write_entry(&mut code, name, path)?;
    }
    code.push_str("];\n");
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default());
    fs::write(out.join("files.rs"), code)
}

/// Lists the files in a folder, without the compressed forms of others.
fn collect(root: &Path, folder: &Path, files: &mut Vec<(String, PathBuf)>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(root, &path, files)?;
        } else if path.extension().is_none_or(|extension| extension != "gz") {
            let name = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().replace('\\', "/");
            files.push((name, path));
        }
    }
    Ok(())
}

fn write_entry(code: &mut String, name: &str, path: &Path) -> io::Result<()> {
    let mut hasher = DefaultHasher::new();
    fs::read(path)?.hash(&mut hasher);
    let compressed = PathBuf::from(format!("{}.gz", path.display()));
    let gzip = if compressed.exists() {
        format!("Some(include_bytes!({:?}))", compressed.display().to_string())
    } else {
        "None".to_owned()
    };
    writeln!(
        code,
        "    File {{ name: {name:?}, etag: \"\\\"{:016x}\\\"\", bytes: include_bytes!({:?}), gzip: {gzip} }},",
        hasher.finish(),
        path.display().to_string(),
    )
    .map_err(io::Error::other)
}
