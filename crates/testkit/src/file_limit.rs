//! Raises the limit of open files.

use rustix::process::{Resource, getrlimit, setrlimit};

/// Raises the limit of open files of this process to `wanted`. Returns `false` and prints a note if the system does not
/// allow that many.
#[expect(clippy::print_stdout, reason = "reports skipped tests")]
pub fn raise_file_limit(wanted: u64) -> bool {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= wanted) {
        return true;
    }
    limit.current = Some(limit.maximum.map_or(wanted, |maximum| maximum.min(wanted)));
    let is_enough = limit.current == Some(wanted);
    if setrlimit(Resource::Nofile, limit).is_err() || !is_enough {
        println!("SKIPPED: needs {wanted} open files");
        return false;
    }
    true
}
