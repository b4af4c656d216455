//! Starts a worker with fake resources.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};
use slipform_agents::contract::{ContractRequest, EnvironmentDefaults, resolve};
use slipform_api::Assignment;
use slipform_model::{Backend, Call, CallFuture};
use slipform_runner::{Error, LadderRung, Prepared, ResourceProvider, Resources, Worker, WorkerOptions};
use slipform_types::Contract;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::support::contexts::resources;
use crate::support::fake_api::FakeApi;
use crate::support::fakes::{scripted_rung, silent_rung};

type Prepare = Box<dyn Fn(&Assignment) -> Result<Resources, String> + Send + Sync>;

/// A resource provider that runs a closure.
pub(crate) struct FakeResources(Prepare);

impl FakeResources {
    pub(crate) fn with(
        prepare: impl Fn(&Assignment) -> Result<Resources, String> + Send + Sync + 'static,
    ) -> Arc<dyn ResourceProvider> {
        Arc::new(FakeResources(Box::new(prepare)))
    }

    /// Returns a provider that gives every run these rungs.
    pub(crate) fn ladder(
        rungs: impl Fn(&Assignment) -> Vec<LadderRung> + Send + Sync + 'static,
    ) -> Arc<dyn ResourceProvider> {
        FakeResources::with(move |assignment| {
            Ok(Resources { ladder: rungs(assignment), ..resources(assignment) })
        })
    }

    /// Returns a provider whose backend answers every run with its own input.
    pub(crate) fn echoing() -> Arc<dyn ResourceProvider> {
        FakeResources::ladder(|assignment| {
            vec![scripted_rung(vec![json!({"text": format!("{} Done.", assignment.journal.start.input)})])]
        })
    }

    /// Returns a provider whose backend never answers.
    pub(crate) fn silent() -> Arc<dyn ResourceProvider> {
        FakeResources::ladder(|_| vec![silent_rung()])
    }
}

impl ResourceProvider for FakeResources {
    fn prepare<'a>(&'a self, assignment: &'a Assignment) -> Prepared<'a> {
        Box::pin(std::future::ready((self.0)(assignment)))
    }
}

/// Returns a rung whose backend panics when it is called, while `panics` is not empty.
pub(crate) fn panicking_rung(panics: &Arc<Mutex<VecDeque<()>>>) -> LadderRung {
    #[derive(Debug)]
    struct PanickingBackend(Arc<Mutex<VecDeque<()>>>, LadderRung);
    impl Backend for PanickingBackend {
        fn call<'a>(&'a self, call: Call<'a>) -> CallFuture<'a> {
            let panics = self.0.lock().unwrap().pop_front();
            assert!(panics.is_none(), "the backend panics");
            self.1.backend.call(call)
        }
    }
    let working = scripted_rung(vec![json!({"text": "Whole."})]);
    LadderRung { tier: working.tier.clone(), backend: Arc::new(PanickingBackend(panics.clone(), working)) }
}

pub(crate) fn agent() -> Value {
    json!({"name": "worker", "system_prompt": "You work."})
}

/// Returns an agent that has to return an age, and its contract.
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

/// A worker that runs until it is shut down.
pub(crate) struct RunningWorker {
    shutdown: oneshot::Sender<()>,
    task: JoinHandle<Result<(), Error>>,
}

pub(crate) fn start(api: &Arc<FakeApi>, resources: Arc<dyn ResourceProvider>, slots: usize) -> RunningWorker {
    let worker = Worker::new(api.clone(), resources, Arc::new(()), options(slots));
    let (shutdown, requested) = oneshot::channel();
    let task = tokio::spawn(worker.run(async move { requested.await.unwrap_or_default() }));
    RunningWorker { shutdown, task }
}

impl RunningWorker {
    pub(crate) async fn shut_down(self) {
        self.shutdown.send(()).unwrap();
        self.task.await.unwrap().unwrap();
    }

    /// Returns the result of a worker that ends by itself.
    pub(crate) async fn end(self) -> Result<(), Error> {
        self.task.await.unwrap()
    }
}
