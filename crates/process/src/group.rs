//! Kills a program together with every process it started.

use std::sync::atomic::{AtomicI32, Ordering};

use rustix::process::{Pid, Signal, kill_process_group};

/// The process group that a program leads. It is killed at most once: on request or on drop.
///
/// A second kill could hit an unrelated group, because the system reuses group ids. The id is therefore
/// replaced by 0 before the first kill.
#[derive(Debug)]
pub(crate) struct Group(AtomicI32);

impl Group {
    /// Returns the group led by the process with this id. Without an id, `kill` does nothing.
    pub(crate) fn of(leader: Option<u32>) -> Group {
        Group(AtomicI32::new(leader.and_then(|id| i32::try_from(id).ok()).unwrap_or_default()))
    }

    pub(crate) fn kill(&self) {
        if let Some(leader) = Pid::from_raw(self.0.swap(0, Ordering::Relaxed)) {
            // The call fails when all processes of the group have already exited.
            let _ = kill_process_group(leader, Signal::KILL);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}
