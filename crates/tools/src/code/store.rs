//! Saves the index on disk. An index that is damaged or missing is rebuilt from the files.

use std::collections::BTreeMap;

use sha2::{Digest as _, Sha256};

use super::chunks::Chunk;
use super::index::{FileStamp, IndexedFile};
use crate::Error;
use crate::project::{Cancellation, Project, ProjectPath};

const PATH: &str = ".slipform/index/code";

/// Keeps the index out of the project's git history.
const IGNORE_PATH: &str = ".slipform/index/.gitignore";

/// The file header. The version increases whenever terms are hashed, split or stored differently.
const MAGIC: &[u8] = b"slipform code index 2\n";

const CHECKSUM_BYTES: usize = 32;

/// Maximum size of a saved index. Loading a larger one would take longer than reading the files.
const INDEX_BYTES_MAX: u64 = 256 * 1024 * 1024;

/// Loads the saved index. Returns `None` if it is missing or damaged.
pub(super) fn load(project: &Project) -> Option<BTreeMap<String, IndexedFile>> {
    let bytes = project.read_up_to(&ProjectPath::trusted(PATH.to_owned()), INDEX_BYTES_MAX).ok()?;
    decode(&bytes)
}

/// Saves the index, unless it is too large.
pub(super) fn save(
    project: &Project,
    files: &BTreeMap<String, IndexedFile>,
    cancel: &Cancellation,
) -> Result<(), Error> {
    let bytes = encode(files);
    if bytes.len() as u64 > INDEX_BYTES_MAX {
        return Ok(());
    }
    let ignore = ProjectPath::trusted(IGNORE_PATH.to_owned());
    let target = project.internal_target(&ignore, true, cancel)?;
    if target.existing()?.is_none() {
        target.replace(b"*\n", None, None, cancel)?;
    }
    // Releases the folder's lock, which the next target of the same folder needs.
    drop(target);
    let index = ProjectPath::trusted(PATH.to_owned());
    project.internal_target(&index, true, cancel)?.replace(&bytes, None, None, cancel).map(drop)
}

fn encode(files: &BTreeMap<String, IndexedFile>) -> Vec<u8> {
    let mut body = Vec::new();
    let mut put = |bytes: &[u8]| body.extend_from_slice(bytes);
    let count = |length: usize| u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes();
    put(&count(files.len()));
    for (path, IndexedFile { stamp, chunks, .. }) in files {
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

fn decode(bytes: &[u8]) -> Option<BTreeMap<String, IndexedFile>> {
    let (checksum, body) = bytes.strip_prefix(MAGIC)?.split_at_checked(CHECKSUM_BYTES)?;
    if Sha256::digest(body).as_slice() != checksum {
        return None;
    }
    let mut reader = Reader(body);
    let mut files = BTreeMap::new();
    for _ in 0..reader.u32()? {
        let length = reader.u32()?;
        let path = String::from_utf8(reader.take(length as usize)?.to_vec()).ok()?;
        let stamp = FileStamp { size: reader.u64()?, modified_ns: reader.u64()?, inode: reader.u64()? };
        let mut chunks = Vec::new();
        for _ in 0..reader.u32()? {
            chunks.push(chunk(&mut reader)?);
        }
        let indexed = IndexedFile::new(&path, stamp, chunks);
        files.insert(path, indexed);
    }
    reader.0.is_empty().then_some(files)
}

fn chunk(reader: &mut Reader<'_>) -> Option<Chunk> {
    let (first_line, last_line, length) = (reader.u32()?, reader.u32()?, reader.u32()?);
    let terms = reader.u32()? as usize;
    let terms = reader.take(terms.checked_mul(5)?)?.chunks_exact(5);
    let terms =
        terms.map(|term| (u32::from_le_bytes([term[0], term[1], term[2], term[3]]), term[4])).collect();
    Some(Chunk { first_line, last_line, length, terms })
}

/// Reads numbers and bytes from the front of a slice.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take(4)?.try_into().ok().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take(8)?.try_into().ok().map(u64::from_le_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::super::chunks::chunks;
    use super::*;

    #[test]
    fn saved_index_is_loaded_and_damaged_index_is_refused() {
        let stamp = FileStamp { size: 1, modified_ns: u64::MAX, inode: 3 };
        let indexed = |path: &str, text: &str| (path.to_owned(), IndexedFile::new(path, stamp, chunks(text)));
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
