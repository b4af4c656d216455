//! The embedded model as a backend. One thread owns the model and answers one request after the other.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use slipform_model::{Backend, BackendConfig, Call, CallFuture, CallSlots, refused_images};
use slipform_types::{Reply, Request};
use tokio::sync::mpsc as channel;

use crate::error::Error;
use crate::interrupt::Interrupt;
use crate::model::{Model, Settings};
use crate::settled::Progress;

/// The time after which an idle model is unloaded.
const IDLE: Duration = Duration::from_secs(600);

/// The embedded model as a backend.
///
/// The first call loads the model. It is unloaded after ten idle minutes, by [`Embedded::unload`], or on drop.
#[derive(Debug)]
pub struct Embedded {
    path: PathBuf,
    settings: Settings,
    timeout: Duration,
    /// The model answers one call after the other.
    slots: CallSlots,
    worker: Mutex<Option<Worker>>,
}

/// The model's thread.
#[derive(Debug)]
struct Worker {
    jobs: mpsc::Sender<Job>,
    thread: JoinHandle<()>,
}

/// A request for the model's thread.
struct Job {
    request: Request,
    interrupt: Interrupt,
    updates: channel::UnboundedSender<Update>,
}

/// A message from the model's thread to the caller.
enum Update {
    Tokens(u64),
    Text(String),
    End(Box<Result<Reply, Error>>),
}

impl Embedded {
    /// Creates a backend for the weights at `path`, which the first call loads.
    pub fn new(path: PathBuf, config: &BackendConfig) -> Embedded {
        let settings = Settings {
            temperature: config.temperature,
            seed: config.seed,
            max_tokens: config.max_tokens,
            threads: config.threads,
        };
        let timeout = Duration::from_secs_f64(config.timeout_seconds);
        Embedded { path, settings, timeout, slots: CallSlots::new(1), worker: Mutex::new(None) }
    }

    /// Sends a job to the model's thread and starts the thread if it is not running.
    fn submit(&self, job: Job) -> Result<(), Error> {
        let mut worker = self.worker.lock().unwrap_or_else(PoisonError::into_inner);
        let job = match &*worker {
            None => job,
            Some(running) => match running.jobs.send(job) {
                Ok(()) => return Ok(()),
                Err(mpsc::SendError(job)) => job,
            },
        };
        let (sender, jobs) = mpsc::channel();
        let (path, settings, timeout) = (self.path.clone(), self.settings.clone(), self.timeout);
        let thread = std::thread::Builder::new()
            .name("embedded model".to_owned())
            .spawn(move || work(&path, &settings, timeout, &jobs))
            .map_err(|error| Error::Thread(error.to_string()))?;
        // Cannot fail: the new thread is waiting for the job.
        sender.send(job).map_err(|_| Error::Broken)?;
        *worker = Some(Worker { jobs: sender, thread });
        Ok(())
    }

    /// Unloads the model after the current call. The next call loads it again.
    pub fn unload(&self) {
        let worker = self.worker.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Worker { jobs, thread }) = worker {
            drop(jobs);
            // A panic was already reported to the caller.
            let _ = thread.join();
        }
    }
}

impl Backend for Embedded {
    fn sampling(&self) -> &'static [&'static str] {
        &["temperature", "seed"]
    }

    fn call<'a>(&'a self, call: Call<'a>) -> CallFuture<'a> {
        if let Some(error) = refused_images(call.request, "kind `embedded`") {
            return Box::pin(std::future::ready(Err(error)));
        }
        Box::pin(async move {
            let _slot = self.slots.acquire(call.patience).await?;
            let (updates, mut receiver) = channel::unbounded_channel();
            // Dropping the future, as a stopped run does, cancels the computation.
            let guard = CancelOnDrop(Interrupt::default());
            let job = Job {
                request: call.request.with_names_in_text().into_owned(),
                interrupt: guard.0.clone(),
                updates,
            };
            self.submit(job).map_err(|error| error.into_call(self.timeout))?;
            while let Some(update) = receiver.recv().await {
                match update {
                    Update::Tokens(total) => call.watch.tokens(total),
                    Update::Text(piece) => call.watch.text(&piece),
                    Update::End(end) => return end.map_err(|error| error.into_call(self.timeout)),
                }
            }
            Err(Error::Broken.into_call(self.timeout))
        })
    }
}

/// Sends progress to the caller, who may be gone.
struct Updates<'u>(&'u channel::UnboundedSender<Update>);

impl Progress for Updates<'_> {
    fn tokens(&mut self, total: usize) {
        let _ = self.0.send(Update::Tokens(total as u64));
    }

    fn text(&mut self, piece: &str) {
        let _ = self.0.send(Update::Text(piece.to_owned()));
    }
}

/// Cancels the computation when the caller drops the future.
struct CancelOnDrop(Interrupt);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// The main loop of the model's thread: loads the model on demand, answers jobs, and unloads it when idle.
fn work(path: &Path, settings: &Settings, timeout: Duration, jobs: &mpsc::Receiver<Job>) {
    let mut model: Option<Model> = None;
    loop {
        let job = match jobs.recv_timeout(IDLE) {
            Ok(job) => job,
            Err(mpsc::RecvTimeoutError::Timeout) => {
                release(model.take());
                continue;
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => return release(model),
        };
        if job.interrupt.is_cancelled() {
            continue;
        }
        let outcome = catch_unwind(AssertUnwindSafe(|| answer(&mut model, path, settings, timeout, &job)));
        let end = outcome.unwrap_or_else(|_| {
            // A model that panicked may be in an inconsistent state.
            model = None;
            Err(Error::Broken)
        });
        let _ = job.updates.send(Update::End(Box::new(end)));
    }
}

fn answer(
    model: &mut Option<Model>,
    path: &Path,
    settings: &Settings,
    timeout: Duration,
    job: &Job,
) -> Result<Reply, Error> {
    let model = match model {
        Some(model) => model,
        None => model.insert(Model::load(path, settings)?),
    };
    job.interrupt.set_deadline(Instant::now().checked_add(timeout));
    Ok(model.answer(&job.request, &job.interrupt, &mut Updates(&job.updates))?.reply)
}

/// Drops a model and returns its memory to the system.
#[allow(unsafe_code, reason = "the allocator keeps freed memory, and malloc_trim has no safe binding")]
fn release(model: Option<Model>) {
    if model.is_none() {
        return;
    }
    drop(model);
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: malloc_trim takes no pointers, is thread-safe, and releases only unused pages.
    unsafe {
        libc::malloc_trim(0);
    }
}
