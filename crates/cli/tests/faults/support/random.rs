//! Reproducible random numbers.

use std::time::Duration;

/// A splitmix64 generator.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// Returns an independent generator for another thread.
    pub(crate) fn fork(&mut self) -> Random {
        Random(self.next())
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below `end`.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// Returns a duration from `from` to below `to`, in milliseconds.
    pub(crate) fn millis(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_millis(from + self.next() % (to - from))
    }
}

/// Returns the seed in `SLIPFORM_TORTURE_SEED`, or one from the current time.
pub(crate) fn seed() -> u64 {
    let variable = std::env::var("SLIPFORM_TORTURE_SEED").ok();
    let now =
        || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_micros() as u64;
    variable.map_or_else(now, |seed| seed.parse().expect("SLIPFORM_TORTURE_SEED is a number"))
}
