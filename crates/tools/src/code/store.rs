//! The index on disk. Whatever is wrong with it, the files are there to make it anew.

use std::collections::BTreeMap;

use sha2::{Digest as _, Sha256};

use super::chunks::Chunk;
use super::index::{Indexed, Stamp};
use crate::Error;
use crate::project::{Cancel, Inside, Project};

const PATH: &str = ".slipform/index/code";

/// Keeps the index out of the project's history, whatever the project's own ignore files say.
const IGNORE_PATH: &str = ".slipform/index/.gitignore";

/// Begins the file. The number goes up whenever words are numbered, cut or stored in another way.
const MAGIC: &[u8] = b"slipform code index 2\n";

const CHECKSUM_BYTES: usize = 32;

/// The largest index that is loaded and saved. A larger one would cost more to load than the files to read.
const INDEX_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// The index as it was saved, if it is there and whole.
pub(super) fn load(project: &Project) -> Option<BTreeMap<String, Indexed>> {
    let bytes = project.read_up_to(&Inside::found(PATH.to_owned()), INDEX_BYTES_MAX).ok()?;
    decode(&bytes)
}

/// Saves the index.
pub(super) fn save(
    project: &Project,
    files: &BTreeMap<String, Indexed>,
    cancel: &Cancel,
) -> Result<(), Error> {
    let bytes = encode(files);
    if bytes.len() as u64 > INDEX_BYTES_MAX {
        return Ok(());
    }
    let ignore = Inside::found(IGNORE_PATH.to_owned());
    let target = project.own_target(&ignore, true, cancel)?;
    if target.existing()?.is_none() {
        target.put(b"*\n", None, None, cancel)?;
    }
    drop(target);
    let index = Inside::found(PATH.to_owned());
    project.own_target(&index, true, cancel)?.put(&bytes, None, None, cancel).map(drop)
}

fn encode(files: &BTreeMap<String, Indexed>) -> Vec<u8> {
    let mut body = Vec::new();
    let mut put = |bytes: &[u8]| body.extend_from_slice(bytes);
    let count = |length: usize| u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes();
    put(&count(files.len()));
    for (path, Indexed { stamp, chunks, .. }) in files {
        put(&count(path.len()));
        put(path.as_bytes());
        for number in [stamp.size, stamp.modified_ns, stamp.inode] {
            put(&number.to_le_bytes());
        }
        put(&count(chunks.len()));
        for chunk in chunks {
            for number in [chunk.first_line, chunk.last_line, chunk.length] {
                put(&number.to_le_bytes());
            }
            put(&count(chunk.terms.len()));
            for (term, weight) in &chunk.terms {
                put(&term.to_le_bytes());
                put(&[*weight]);
            }
        }
    }
    [MAGIC, Sha256::digest(&body).as_slice(), &body].concat()
}

fn decode(bytes: &[u8]) -> Option<BTreeMap<String, Indexed>> {
    let (checksum, body) = bytes.strip_prefix(MAGIC)?.split_at_checked(CHECKSUM_BYTES)?;
    if Sha256::digest(body).as_slice() != checksum {
        return None;
    }
    let mut left = Left(body);
    let mut files = BTreeMap::new();
    for _ in 0..left.small()? {
        let length = left.small()?;
        let path = String::from_utf8(left.take(length as usize)?.to_vec()).ok()?;
        let stamp = Stamp { size: left.large()?, modified_ns: left.large()?, inode: left.large()? };
        let mut chunks = Vec::new();
        for _ in 0..left.small()? {
            chunks.push(chunk(&mut left)?);
        }
        let indexed = Indexed::new(&path, stamp, chunks);
        files.insert(path, indexed);
    }
    left.0.is_empty().then_some(files)
}

fn chunk(left: &mut Left<'_>) -> Option<Chunk> {
    let (first_line, last_line, length) = (left.small()?, left.small()?, left.small()?);
    let terms = left.small()? as usize;
    let terms = left.take(terms.checked_mul(5)?)?.chunks_exact(5);
    let terms =
        terms.map(|term| (u32::from_le_bytes([term[0], term[1], term[2], term[3]]), term[4])).collect();
    Some(Chunk { first_line, last_line, length, terms })
}

/// What is left to read.
struct Left<'a>(&'a [u8]);

impl<'a> Left<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, left) = self.0.split_at_checked(length)?;
        self.0 = left;
        Some(taken)
    }

    fn small(&mut self) -> Option<u32> {
        self.take(4)?.try_into().ok().map(u32::from_le_bytes)
    }

    fn large(&mut self) -> Option<u64> {
        self.take(8)?.try_into().ok().map(u64::from_le_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::super::chunks::chunks;
    use super::*;

    #[test]
    fn what_is_saved_is_loaded_and_what_is_broken_is_not() {
        let stamp = Stamp { size: 1, modified_ns: u64::MAX, inode: 3 };
        let indexed = |path: &str, text: &str| (path.to_owned(), Indexed::new(path, stamp, chunks(text)));
        let files = BTreeMap::from([indexed("a/ä.rs", "fn count() {}\n"), indexed("empty", "")]);
        let bytes = encode(&files);
        assert_eq!(decode(&bytes), Some(files));
        for length in 0..bytes.len() {
            assert_eq!(decode(&bytes[..length]), None, "cut after {length}");
        }
        for index in 0..bytes.len() {
            let mut broken = bytes.clone();
            broken[index] ^= 1;
            assert_eq!(decode(&broken), None, "changed at {index}");
        }
    }
}
