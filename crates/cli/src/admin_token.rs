//! The administrator's token of a server, for commands of the same user in the same project.
//!
//! `slipform serve` writes it to `.slipform/admin.token`, which no one else can read, and the addresses it listens on to
//! `.slipform/listen`. Commands send it to those addresses only, and only while a server of the project is alive: another
//! program that listens there when it is not learns nothing. The token stays the same across restarts, so that commands
//! that wait for a run outlast them; deleting the file makes the next server write a new one.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use rustix::fs::{FlockOperation, OFlags, flock};
use slipform_types::with_hex;

use crate::coordinator;

const TOKEN_FILE: &str = ".slipform/admin.token";
const ADDRESSES_FILE: &str = ".slipform/listen";

/// What every token begins with.
const PREFIX: &str = "sf_";

/// The longest file that is read. A token has 67 characters, an address at most 60.
const FILE_BYTES_MAX: u64 = 64 * 1024;

/// A token that is valid for as long as this is kept.
pub(crate) struct AdminToken {
    pub(crate) token: String,
    addresses: PathBuf,
    /// Locked while the server lives, so that others can tell.
    _file: File,
}

impl AdminToken {
    /// Makes a token, or takes that of another server of the project.
    pub(crate) fn issue(project: &Path) -> Result<AdminToken> {
        coordinator::make_folder(&project.join(".slipform"))?;
        let mut file = open_private(&project.join(TOKEN_FILE))?;
        let addresses = project.join(ADDRESSES_FILE);
        let is_first = flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok();
        if is_first && !is_token(read_all(&mut file)?.trim()) {
            let mut bytes = [0_u8; 32];
            getrandom::fill(&mut bytes)
                .map_err(|error| anyhow::anyhow!("no random numbers for a token: {error}"))?;
            file.set_len(0)?;
            file.seek(SeekFrom::Start(0))?;
            writeln!(file, "{}", with_hex(PREFIX, &bytes))?;
            file.sync_all()?;
        }
        if is_first {
            open_private(&addresses)?.set_len(0)?;
        }
        // Waits for another server that writes its token just now.
        flock(&file, FlockOperation::LockShared)?;
        let token = read_all(&mut file)?.trim().to_owned();
        Ok(AdminToken { token, addresses, _file: file })
    }

    /// Notes an address that commands may send the token to.
    pub(crate) fn announce(&self, address: SocketAddr) -> Result<()> {
        let mut file = open_private(&self.addresses)?;
        file.seek(SeekFrom::End(0))?;
        Ok(writeln!(file, "{address}")?)
    }
}

/// The token for a server of this project, where one is alive and has this address.
pub(crate) fn find(project: &Path, host: &str, port: u16) -> Option<String> {
    let is_loopback = |host: &str| {
        host == "localhost"
            || host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
    };
    if !is_loopback(host) {
        return None;
    }
    let mut file = read_private(&project.join(TOKEN_FILE))?;
    let is_alive = flock(&file, FlockOperation::NonBlockingLockExclusive).is_err();
    let addresses = read_all(&mut read_private(&project.join(ADDRESSES_FILE))?).ok()?;
    let listens = addresses.lines().any(|line| {
        line.parse::<SocketAddr>().is_ok_and(|address| {
            address.port() == port && (address.ip().is_loopback() || address.ip().is_unspecified())
        })
    });
    if !is_alive || !listens {
        return None;
    }
    read_all(&mut file).ok().map(|token| token.trim().to_owned()).filter(|token| is_token(token))
}

fn is_token(text: &str) -> bool {
    text.strip_prefix(PREFIX)
        .is_some_and(|digits| digits.len() == 64 && digits.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// Opens a file of the state folder for writing, for nobody else to read.
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
        .with_context(|| format!("opening {}", path.display()))?;
    file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
    Ok(file)
}

/// Opens a file of this user that no one else can read or write.
fn read_private(path: &Path) -> Option<File> {
    let file = OpenOptions::new().read(true).open(path).ok()?;
    let metadata = file.metadata().ok()?;
    let is_own = metadata.uid() == rustix::process::geteuid().as_raw();
    (is_own && metadata.mode() & 0o077 == 0).then_some(file)
}

fn read_all(file: &mut File) -> Result<String> {
    let mut text = String::new();
    file.seek(SeekFrom::Start(0))?;
    file.take(FILE_BYTES_MAX).read_to_string(&mut text)?;
    Ok(text)
}
