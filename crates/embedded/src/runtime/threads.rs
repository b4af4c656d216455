//! The threads that share the arithmetic.

use rayon::ThreadPool;
use rayon::iter::{IntoParallelIterator, ParallelIterator};

use crate::Error;

/// Below so many multiplications, handing work to other threads takes longer than doing it.
const WORK_MIN: usize = 1 << 17;

/// Threads that share the arithmetic of a model.
#[derive(Debug)]
pub(super) struct Threads {
    pool: Option<ThreadPool>,
    count: usize,
}

impl Threads {
    pub(super) fn new(count: usize) -> Result<Threads, Error> {
        let pool = match count {
            0 | 1 => None,
            count => {
                let pool = rayon::ThreadPoolBuilder::new().num_threads(count);
                let pool = pool.thread_name(|number| format!("slipform-model-{number}")).build();
                Some(pool.map_err(|error| Error::Unsupported(format!("{count} threads: {error}")))?)
            }
        };
        Ok(Threads { pool, count: count.max(1) })
    }

    /// How many pieces to cut work into, so that a thread that is held up does not hold up the others.
    pub(super) fn pieces(&self) -> usize {
        if self.pool.is_some() { self.count * 4 } else { 1 }
    }

    /// What `each` makes of the items, in their order; `work` is how many multiplications that takes.
    pub(super) fn map<T: Send, R: Send>(
        &self,
        work: usize,
        items: Vec<T>,
        each: impl Fn(T) -> R + Sync + Send,
    ) -> Vec<R> {
        match &self.pool {
            Some(pool) if work >= WORK_MIN && items.len() > 1 => {
                pool.install(|| items.into_par_iter().map(each).collect())
            }
            _ => items.into_iter().map(each).collect(),
        }
    }
}

/// One less than the processor has, so that the rest of the machine is not held up.
pub(super) fn usual() -> usize {
    std::thread::available_parallelism().map_or(1, |count| count.get().saturating_sub(1).max(1))
}
