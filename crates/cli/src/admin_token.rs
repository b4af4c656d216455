//! The admin token of a project's servers, for commands of the same user in the same project.
//!
//! `slipform serve` writes the token to `.slipform/admin.token`, readable only by that user. While a server listens on an
//! address, it holds a lock on `.slipform/listen/ADDRESS`. Commands send the token only to an address whose lock is held:
//! another program that listens there after the server has ended never receives it. The token stays the same across
//! restarts, so that commands that wait for a run outlast them; deleting the file makes the next server write a new one.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use rustix::fs::{FlockOperation, OFlags, flock};
use slipform_types::with_hex;

use crate::coordinator;

const TOKEN_FILE: &str = ".slipform/admin.token";
const LISTEN_FOLDER: &str = ".slipform/listen";

/// The prefix of every token.
const PREFIX: &str = "sf_";

/// The maximum length of the token file. A token has 67 characters.
const FILE_BYTES_MAX: u64 = 4 * 1024;

/// Returns the project's token, and creates one if the project has none.
pub(crate) fn issue(project: &Path) -> Result<String> {
    coordinator::make_folder(&project.join(".slipform"))?;
    let mut file = open_private(&project.join(TOKEN_FILE))?;
    // Two servers that start together agree on one token.
    flock(&file, FlockOperation::LockExclusive)?;
    let stored = read_all(&mut file)?;
    if is_token(stored.trim()) {
        return Ok(stored.trim().to_owned());
    }
    let mut bytes = [0_u8; 32];
    getrandom::fill(&mut bytes).map_err(|error| anyhow::anyhow!("cannot generate a token: {error}"))?;
    let token = with_hex(PREFIX, &bytes);
    file.set_len(0)?;
    file.seek(SeekFrom::Start(0))?;
    writeln!(file, "{token}")?;
    file.sync_all()?;
    Ok(token)
}

/// Returns the project's token, if it has one.
pub(crate) fn read(project: &Path) -> Option<String> {
    let token = read_all(&mut open_trusted(&project.join(TOKEN_FILE))?).ok()?;
    Some(token.trim().to_owned()).filter(|token| is_token(token))
}

/// An address that commands may send the token to, until this is dropped.
pub(crate) struct Announcement {
    path: PathBuf,
    /// Holds the lock.
    _file: File,
}

impl Announcement {
    /// Announces an address that this process listens on.
    pub(crate) fn make(project: &Path, address: SocketAddr) -> Result<Announcement> {
        coordinator::make_folder(&project.join(LISTEN_FOLDER))?;
        let path = listen_file(project, address);
        let file = open_private(&path)?;
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            // A command may hold a shared lock for a moment while it checks the file.
            flock(&file, FlockOperation::LockExclusive)?;
        }
        Ok(Announcement { path, _file: file })
    }
}

impl Drop for Announcement {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Returns the token for a server of this project and the address to reach it at, if one listens at this host and port.
pub(crate) fn find(project: &Path, host: &str, port: u16) -> Option<(String, SocketAddr)> {
    let ip = match host.trim_matches(['[', ']']) {
        // The name may resolve to another host, so commands use the address that the server announced.
        "localhost" => vec![IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)],
        number => vec![number.parse::<IpAddr>().ok().filter(IpAddr::is_loopback)?],
    };
    let is_ours = |address: SocketAddr| {
        let all = if address.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        is_announced(project, address) || is_announced(project, SocketAddr::new(all, port))
    };
    let address = ip.into_iter().map(|ip| SocketAddr::new(ip, port)).find(|address| is_ours(*address))?;
    Some((read(project)?, address))
}

/// Whether a live server of the project listens on exactly this address.
fn is_announced(project: &Path, address: SocketAddr) -> bool {
    let file = open_trusted(&listen_file(project, address));
    file.is_some_and(|file| flock(&file, FlockOperation::NonBlockingLockShared).is_err())
}

fn listen_file(project: &Path, address: SocketAddr) -> PathBuf {
    project.join(LISTEN_FOLDER).join(address.to_string())
}

fn is_token(text: &str) -> bool {
    text.strip_prefix(PREFIX)
        .is_some_and(|digits| digits.len() == 64 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// Opens a file of the state folder for writing, readable only by this user.
fn open_private(path: &Path) -> Result<File> {
    let no_follow = OFlags::NOFOLLOW.bits().cast_signed();
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(no_follow)
        .open(path)
        .with_context(|| format!("cannot open {}", path.display()))?;
    file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
    Ok(file)
}

/// Opens a file, if this user owns it and other users can neither read nor write it.
fn open_trusted(path: &Path) -> Option<File> {
    let file = OpenOptions::new().read(true).open(path).ok()?;
    let metadata = file.metadata().ok()?;
    let is_own = metadata.uid() == rustix::process::geteuid().as_raw();
    (is_own && metadata.mode() & 0o077 == 0).then_some(file)
}

fn read_all(file: &mut File) -> Result<String> {
    let mut text = String::new();
    file.seek(SeekFrom::Start(0))?;
    if file.take(FILE_BYTES_MAX).read_to_string(&mut text)? as u64 == FILE_BYTES_MAX {
        bail!("{TOKEN_FILE} is too long to be a token; delete it");
    }
    Ok(text)
}
