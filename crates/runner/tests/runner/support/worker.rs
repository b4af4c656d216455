//! A worker at work, and what it works with.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use slipform_agents::contract::{ContractRequest, EnvironmentDefaults, resolve};
use slipform_model::{Backend, Call, CallFuture};
use slipform_runner::{
    Error, Job, LadderRung, Prepared, ResourceProvider, RunContext, Worker, WorkerOptions,
};
use slipform_types::Contract;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::support::fake_api::FakeApi;
use crate::support::parts::{silent, spoken};

type Make = Box<dyn Fn(&Job) -> Result<RunContext, String> + Send + Sync>;

/// An resources that does what a test says.
pub(crate) struct FakeResources(Make);

impl FakeResources {
    pub(crate) fn making(
        make: impl Fn(&Job) -> Result<RunContext, String> + Send + Sync + 'static,
    ) -> Arc<dyn ResourceProvider> {
        Arc::new(FakeResources(Box::new(make)))
    }

    /// Every run gets these rungs.
    pub(crate) fn ladder(
        rungs: impl Fn(&Job) -> Vec<LadderRung> + Send + Sync + 'static,
    ) -> Arc<dyn ResourceProvider> {
        FakeResources::making(move |job| Ok(RunContext { ladder: rungs(job), ..job.context() }))
    }

    /// Every run is answered with its own input.
    pub(crate) fn answering() -> Arc<dyn ResourceProvider> {
        FakeResources::ladder(|job| vec![spoken(vec![json!({"text": format!("{} Done.", job.input)})])])
    }

    /// No run is ever answered.
    pub(crate) fn silent() -> Arc<dyn ResourceProvider> {
        FakeResources::ladder(|_| vec![silent()])
    }
}

impl ResourceProvider for FakeResources {
    fn prepare<'a>(&'a self, job: &'a Job) -> Prepared<'a> {
        Box::pin(std::future::ready((self.0)(job)))
    }
}

/// A rung whose backend breaks when it is asked, for as long as there are breaks left.
pub(crate) fn breaking(breaks: &Arc<Mutex<VecDeque<()>>>) -> LadderRung {
    #[derive(Debug)]
    struct Breaking(Arc<Mutex<VecDeque<()>>>, LadderRung);
    impl Backend for Breaking {
        fn call<'a>(&'a self, call: Call<'a>) -> CallFuture<'a> {
            let breaks = self.0.lock().unwrap().pop_front();
            assert!(breaks.is_none(), "the backend breaks");
            self.1.backend.call(call)
        }
    }
    let whole = spoken(vec![json!({"text": "Whole."})]);
    LadderRung { tier: whole.tier.clone(), backend: Arc::new(Breaking(breaks.clone(), whole)) }
}

pub(crate) fn agent() -> Value {
    json!({"name": "worker", "system_prompt": "You work."})
}

/// An agent that has to say its age, and its contract.
pub(crate) fn ager() -> (Value, Contract) {
    let agent = json!({
        "name": "ager",
        "output_schema": {"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]},
    });
    let blueprint = serde_json::from_value(agent.clone()).unwrap();
    let contract = resolve(&blueprint, &ContractRequest::default(), &EnvironmentDefaults::default());
    (agent, contract.unwrap().unwrap())
}

pub(crate) fn options(slots: usize) -> WorkerOptions {
    WorkerOptions {
        name: "test".to_owned(),
        slots,
        details: json!({"version": "0"}),
        runner_id: None,
        claim_wait: Duration::from_secs(2),
    }
}

/// A worker that works until it is told to go home.
pub(crate) struct Working {
    home: oneshot::Sender<()>,
    task: JoinHandle<Result<(), Error>>,
}

pub(crate) fn start(door: &Arc<FakeApi>, resources: Arc<dyn ResourceProvider>, slots: usize) -> Working {
    let worker = Worker::new(door.clone(), resources, Arc::new(()), options(slots));
    let (home, told) = oneshot::channel();
    let task = tokio::spawn(worker.run(async move { told.await.unwrap_or_default() }));
    Working { home, task }
}

impl Working {
    pub(crate) async fn go_home(self) {
        self.home.send(()).unwrap();
        self.task.await.unwrap().unwrap();
    }

    /// How it ended by itself.
    pub(crate) async fn end(self) -> Result<(), Error> {
        self.task.await.unwrap()
    }
}
