//! The number of files and connections that this process may have open.

use rustix::process::{Resource, getrlimit, setrlimit};

/// The open files that a server with all its connections needs.
const FILES: u64 = 65_536;

/// Raises the limit to what a server needs, as far as the system allows it. Many systems start programs with 1,024.
pub(crate) fn raise() {
    let mut limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.map_or(FILES, |maximum| maximum.min(FILES));
    if limit.current.is_some_and(|current| current < wanted) {
        limit.current = Some(wanted);
        // With the old limit the server refuses connections beyond it, as it does beyond its own.
        let _ = setrlimit(Resource::Nofile, limit);
    }
}
