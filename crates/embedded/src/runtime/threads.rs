//! The thread pool for the computations of a model.

use rayon::ThreadPool;
use rayon::iter::{IntoParallelIterator, ParallelIterator};

use crate::Error;

/// The fewest multiplications for which distributing the work is faster.
const WORK_MIN: usize = 1 << 17;

/// The thread pool of a model; no pool with one thread.
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

    /// Returns the number of pieces to split work into. Several per thread, so that a slow thread does not delay
    /// the others.
    pub(super) fn pieces(&self) -> usize {
        if self.pool.is_some() { self.count * 4 } else { 1 }
    }

    /// Maps items in parallel and returns the results in order. `work` is the number of multiplications.
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

/// Returns one less than the number of processors, so that the rest of the machine stays responsive.
pub(super) fn default_threads() -> usize {
    std::thread::available_parallelism().map_or(1, |count| count.get().saturating_sub(1).max(1))
}
