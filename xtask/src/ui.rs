//! `cargo xtask ui`: builds the dashboard, which the next build of Slipform embeds.

use std::fs::{self, File};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::{Context as _, Result, bail};

use crate::debian;
use crate::shell::{self, command, exists, root};

/// The oldest Node.js that builds the dashboard.
const NODE_MAJOR_MIN: u32 = 20;

/// The browser of the tests, whose major version the pinned Playwright supports.
const CHROMIUM: &str = "chromium";

/// Folders of the dashboard that are not its source.
const OTHER_FOLDERS: [&str; 3] = ["node_modules", "dist", "test-results"];

/// Builds the dashboard unless it is up to date. Without Node.js it says so and goes on, because Slipform works without
/// the dashboard.
pub(crate) fn build() -> Result<()> {
    let folder = root().join("dashboard");
    if !has_node() {
        println!(
            "\n=== no dashboard: Node.js {NODE_MAJOR_MIN} or later and npm are not installed; Slipform is built without it"
        );
        return Ok(());
    }
    let stamp = root().join("target/dashboard.stamp");
    let source = source_hash(&folder)?.to_string();
    let is_current = fs::read_to_string(&stamp).is_ok_and(|built| built == source);
    if is_current && folder.join("dist/index.html").is_file() {
        return Ok(());
    }
    install(&folder)?;
    shell::run("building the dashboard", command("npm", &["run", "--silent", "build"]).current_dir(&folder))?;
    // The build script of `slipform-ui` runs again when this file is newer.
    let script = File::options().append(true).open(root().join("crates/ui/build.rs"))?;
    script.set_modified(SystemTime::now()).context("cannot mark the dashboard as changed")?;
    fs::create_dir_all(root().join("target"))?;
    fs::write(stamp, source).context("cannot mark the dashboard as built")
}

/// Installs the packages that `package-lock.json` names, unless they are installed.
fn install(folder: &Path) -> Result<()> {
    let (marker, lock) = (folder.join("node_modules/.installed"), folder.join("package-lock.json"));
    let wanted = fs::read(&lock).with_context(|| format!("cannot read {}", lock.display()))?;
    if fs::read(&marker).is_ok_and(|installed| installed == wanted) {
        return Ok(());
    }
    let mut install = command("npm", &["ci", "--silent", "--no-audit", "--no-fund"]);
    install.env("PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD", "1").current_dir(folder);
    shell::run("installing the packages of the dashboard", &mut install)?;
    fs::write(marker, wanted).context("cannot mark the packages as installed")
}

/// Checks the types and the pure logic of the dashboard.
pub(crate) fn check() -> Result<()> {
    let folder = root().join("dashboard");
    require_node()?;
    install(&folder)?;
    for (name, script) in [("types of the dashboard", "check"), ("logic of the dashboard", "test")] {
        shell::run(name, command("npm", &["run", "--silent", script]).current_dir(&folder))?;
    }
    Ok(())
}

/// Uses the dashboard of a built `slipform` in Chromium, and writes a picture of every screen to `target/screenshots`.
pub(crate) fn test_in_browser(slipform: &Path, database: &str) -> Result<()> {
    let folder = root().join("dashboard");
    require_node()?;
    require_chromium()?;
    let mut tests = command("npm", &["run", "--silent", "e2e"]);
    tests.current_dir(&folder).env("SLIPFORM_BIN", slipform).env("SLIPFORM_TEST_POSTGRES", database);
    tests.env("SLIPFORM_SCREENSHOTS", root().join("target/screenshots"));
    shell::run("dashboard in Chromium", &mut tests)
}

/// Measures the screens of the dashboard of a built `slipform`.
pub(crate) fn bench(slipform: &Path, rest: &[String]) -> Result<()> {
    require_node()?;
    require_chromium()?;
    let mut bench = command("node", &["scripts/bench.mjs"]);
    bench.args(rest).current_dir(root().join("dashboard")).env("SLIPFORM_BIN", slipform);
    shell::run("bench ui", &mut bench)
}

fn require_chromium() -> Result<()> {
    if exists(CHROMIUM) { Ok(()) } else { debian::install("Chromium", &["chromium", "fonts-liberation"]) }
}

fn require_node() -> Result<()> {
    if !has_node() {
        bail!("Node.js {NODE_MAJOR_MIN} or later and npm not found; the tests of the dashboard need them");
    }
    Ok(())
}

/// Returns whether Node.js and npm can build the dashboard.
fn has_node() -> bool {
    let version = command("node", &["--version"]).output().ok().filter(|output| output.status.success());
    let version = version.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let major = version.and_then(|text| text.trim_start_matches('v').split('.').next()?.parse().ok());
    exists("npm") && major.is_some_and(|major: u32| major >= NODE_MAJOR_MIN)
}

/// Returns a hash of the dashboard's source.
fn source_hash(folder: &Path) -> Result<u64> {
    let mut files = Vec::new();
    collect(folder, &mut files)?;
    files.sort();
    let mut hasher = DefaultHasher::new();
    for path in files {
        path.hash(&mut hasher);
        fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?.hash(&mut hasher);
    }
    Ok(hasher.finish())
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            if !OTHER_FOLDERS.contains(&name.as_str()) {
                collect(&path, files)?;
            }
        } else {
            files.push(path);
        }
    }
    Ok(())
}
