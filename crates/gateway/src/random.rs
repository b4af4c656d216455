//! Random bytes for ids.

use std::cell::RefCell;

/// The bytes that one system call fetches. A request takes 24, so most requests need no call.
const POOL_BYTES: usize = 1_024;

/// Random bytes of a thread that no id has used yet.
struct Pool {
    bytes: [u8; POOL_BYTES],
    used: usize,
}

thread_local! {
    static POOL: RefCell<Pool> = const { RefCell::new(Pool { bytes: [0; POOL_BYTES], used: POOL_BYTES }) };
}

/// Returns random bytes for an id; not for secrets. Without a source of randomness they are zero, and ids repeat.
pub(crate) fn random<const BYTES: usize>() -> [u8; BYTES] {
    const { assert!(BYTES <= POOL_BYTES) };
    POOL.with_borrow_mut(|pool| {
        if pool.used + BYTES > POOL_BYTES {
            pool.used = 0;
            if let Err(error) = getrandom::fill(&mut pool.bytes) {
                tracing::error!("no random numbers: {error}");
            }
        }
        let mut bytes = [0; BYTES];
        let next = pool.used + BYTES;
        bytes.copy_from_slice(&pool.bytes[pool.used..next]);
        pool.used = next;
        bytes
    })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn bytes_do_not_repeat_when_the_pool_is_filled_again() {
        let count = POOL_BYTES / 4;
        let all: BTreeSet<[u8; 12]> = (0..count).map(|_| random()).collect();
        assert_eq!(all.len(), count);
    }
}
