//! The embedded model as a backend: one thread owns it and answers one request after the other.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use slipform_model::{Backend, BackendConfig, Call, CallFuture};
use slipform_types::{Reply, Request};
use tokio::sync::mpsc as channel;

use crate::error::Error;
use crate::interrupt::Interrupt;
use crate::model::{Model, Settings};

/// How long a model that nobody asks stays in memory.
const IDLE: Duration = Duration::from_secs(600);

/// The embedded model as a backend. It is loaded when it is first asked, and its memory is given back when
/// it has not been asked for a while or when the backend is dropped.
#[derive(Debug)]
pub struct Embedded {
    path: PathBuf,
    settings: Settings,
    timeout: Duration,
    worker: Mutex<Option<Worker>>,
}

/// The model's thread.
#[derive(Debug)]
struct Worker {
    jobs: mpsc::Sender<Job>,
    thread: JoinHandle<()>,
}

/// A request on its way to the model's thread.
struct Job {
    request: Request,
    interrupt: Interrupt,
    news: channel::UnboundedSender<News>,
}

enum News {
    Tokens(u64),
    End(Box<Result<Reply, Error>>),
}

impl Embedded {
    /// A backend over the weights at `path`. Nothing is loaded yet.
    pub fn new(path: PathBuf, config: &BackendConfig) -> Embedded {
        let settings = Settings {
            temperature: config.temperature,
            seed: config.seed,
            max_tokens: config.max_tokens,
            threads: config.threads,
        };
        let timeout = Duration::from_secs_f64(config.timeout_seconds);
        Embedded { path, settings, timeout, worker: Mutex::new(None) }
    }

    /// Hands a job to the model's thread, starting it where there is none.
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
        // The thread just started waits for it.
        sender.send(job).map_err(|_| Error::Broken)?;
        *worker = Some(Worker { jobs: sender, thread });
        Ok(())
    }

    /// Gives the memory back, after whatever is being answered. The next call loads the model again.
    pub fn unload(&self) {
        let worker = self.worker.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Worker { jobs, thread }) = worker {
            drop(jobs);
            // A panic there has been answered already.
            let _ = thread.join();
        }
    }
}

impl Backend for Embedded {
    fn call<'a>(&'a self, call: Call<'a>) -> CallFuture<'a> {
        Box::pin(async move {
            let (news, mut heard) = channel::unbounded_channel();
            // Dropping the future, as a stopped run does, ends the computation.
            let wanted = CancelOnDrop(Interrupt::default());
            let job = Job { request: call.request.clone(), interrupt: wanted.0.clone(), news };
            self.submit(job).map_err(|error| error.into_call(self.timeout))?;
            while let Some(news) = heard.recv().await {
                match news {
                    News::Tokens(total) => call.watch.tokens(total),
                    News::End(end) => return end.map_err(|error| error.into_call(self.timeout)),
                }
            }
            Err(Error::Broken.into_call(self.timeout))
        })
    }
}

/// Cancels when nobody waits any more.
struct CancelOnDrop(Interrupt);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// The life of the model's thread: load when asked, answer, forget when not asked for long.
fn work(path: &Path, settings: &Settings, timeout: Duration, jobs: &mpsc::Receiver<Job>) {
    let mut model: Option<Model> = None;
    loop {
        let job = match jobs.recv_timeout(IDLE) {
            Ok(job) => job,
            Err(mpsc::RecvTimeoutError::Timeout) => {
                give_back(model.take());
                continue;
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => return give_back(model),
        };
        if job.interrupt.is_cancelled() {
            continue;
        }
        let outcome = catch_unwind(AssertUnwindSafe(|| answer(&mut model, path, settings, timeout, &job)));
        let end = outcome.unwrap_or_else(|_| {
            // Whatever state it is in, it is not asked again.
            model = None;
            Err(Error::Broken)
        });
        let _ = job.news.send(News::End(Box::new(end)));
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
    let mut progress = |tokens: usize| {
        let _ = job.news.send(News::Tokens(tokens as u64));
    };
    Ok(model.answer(&job.request, &job.interrupt, &mut progress)?.reply)
}

/// Drops a model and hands its memory back to the system.
#[allow(unsafe_code, reason = "the allocator keeps what is freed, and has no safe way to be told otherwise")]
fn give_back(model: Option<Model>) {
    if model.is_none() {
        return;
    }
    drop(model);
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: it takes no pointers, may be called from any thread, and only releases pages that nobody uses.
    unsafe {
        libc::malloc_trim(0);
    }
}
