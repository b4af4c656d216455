//! A program's whole process group.

use std::sync::atomic::{AtomicI32, Ordering};

use rustix::process::{Pid, Signal, kill_process_group};

/// The process group that a program leads, killed once: on request or when dropped.
///
/// Once and no more, because a group's number belongs to somebody else some time after its end.
#[derive(Debug)]
pub(crate) struct Group(AtomicI32);

impl Group {
    /// The group led by the process of this number.
    pub(crate) fn of(leader: Option<u32>) -> Group {
        Group(AtomicI32::new(leader.and_then(|id| i32::try_from(id).ok()).unwrap_or_default()))
    }

    pub(crate) fn kill(&self) {
        if let Some(leader) = Pid::from_raw(self.0.swap(0, Ordering::Relaxed)) {
            // The group is usually gone by now, which is what is wanted.
            let _ = kill_process_group(leader, Signal::KILL);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}
