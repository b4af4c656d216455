//! Operations on a test's store, and the runs and events that they write.

use std::ops::Deref;
use std::sync::Arc;

use serde_json::{Value, json};
use slipform_store::{
    Append, Appended, ClaimRequest, Claimed, DelegationLimits, Fence, NewRun, Parent, ParentCall, Refusal,
    RunRecord, RunnerRecord, SessionTarget, Stale, StoredEvent, Submitted,
};
use slipform_testkit::{TestStore, unique_number};
use slipform_types::{
    Blueprint, Contract, ContractOptions, ContractSource, EventBody, ExecutionMode, Receipt, Reply, Role,
    RunId, RunOverrides, RunStatus, RunType, SessionId,
};
use tokio::task::JoinHandle;
use tokio_postgres::NoTls;

/// A lease in milliseconds that outlasts any test.
pub(crate) const LONG: i64 = 600_000;

/// Default limits for tests that are not about delegation limits.
pub(crate) const LIMITS: DelegationLimits =
    DelegationLimits { depth_max: 5, children_max: 16, runs_max: 200 };

fn bytes() -> [u8; 6] {
    let bytes = unique_number().to_be_bytes();
    [bytes[2], bytes[3], bytes[4], bytes[5], bytes[6], bytes[7]]
}

pub(crate) fn new_session_id() -> SessionId {
    SessionId::from_random(bytes())
}

pub(crate) fn new_run_id() -> RunId {
    RunId::from_random(bytes())
}

/// A store with shorthands for its operations.
pub(crate) struct Fixture(TestStore);

impl From<TestStore> for Fixture {
    fn from(store: TestStore) -> Fixture {
        Fixture(store)
    }
}

impl Deref for Fixture {
    type Target = TestStore;

    fn deref(&self) -> &TestStore {
        &self.0
    }
}

impl Fixture {
    /// Submits a run in a new session.
    pub(crate) async fn submit(&self, agent: &str) -> Submitted {
        self.store.submit(task(agent)).await.unwrap().unwrap()
    }

    /// Submits a child of a claimed run.
    pub(crate) async fn delegate(&self, parent: &Claimed, agent: &str, mode: ExecutionMode) -> Submitted {
        self.store.submit(child(parent, agent, agent, mode)).await.unwrap().unwrap()
    }

    pub(crate) async fn claim_as(&self, runner: &str, slots: usize, lease_ms: i64) -> Vec<Claimed> {
        let request = ClaimRequest {
            runner_id: runner.to_owned(),
            slots,
            lease_ms,
            only_pinned: false,
            token: fresh_token(),
        };
        self.store.claim(request).await.unwrap()
    }

    /// Claims the next run; panics if the queue is empty.
    pub(crate) async fn claim(&self) -> Claimed {
        self.claim_as("runner", 1, LONG).await.pop().expect("a run that may be claimed")
    }

    pub(crate) async fn append(
        &self,
        fence: &Fence,
        number: i64,
        bodies: Vec<EventBody>,
    ) -> Result<Appended, Stale> {
        self.store.append(append_of(fence, number, bodies)).await.unwrap()
    }

    pub(crate) async fn finish(
        &self,
        fence: &Fence,
        number: i64,
        bodies: Vec<EventBody>,
    ) -> Result<Appended, Stale> {
        self.store.finish(append_of(fence, number, bodies)).await.unwrap()
    }

    /// Claims the next run and completes it.
    pub(crate) async fn complete_next(&self, text: &str) -> Claimed {
        let claimed = self.claim().await;
        self.finish(&claimed.fence, 1, success(text)).await.unwrap();
        claimed
    }

    pub(crate) async fn run(&self, run: &RunId) -> RunRecord {
        self.store.run(run).await.unwrap().expect("a run")
    }

    pub(crate) async fn status(&self, run: &RunId) -> RunStatus {
        self.run(run).await.status
    }

    pub(crate) async fn journal(&self, session: &SessionId) -> Vec<StoredEvent> {
        let journal = self.store.events(session, 0, 10_000).await.unwrap().events;
        let numbers: Vec<i64> = journal.iter().map(|event| event.seq).collect();
        assert_eq!(numbers, (1..=journal.len() as i64).collect::<Vec<_>>());
        journal
    }

    /// The event types of a session's journal.
    pub(crate) async fn event_types(&self, session: &SessionId) -> Vec<String> {
        self.journal(session).await.iter().map(event_type).collect()
    }
}

fn append_of(fence: &Fence, number: i64, bodies: Vec<EventBody>) -> Append {
    Append { fence: fence.clone(), number, bodies, progress: None, lease_ms: LONG }
}

/// Opens a separate connection to a PostgreSQL server.
pub(crate) async fn connect(address: &str) -> (tokio_postgres::Client, JoinHandle<()>) {
    let (client, connection) = tokio_postgres::connect(address, NoTls).await.expect("a server");
    (client, tokio::spawn(async move { drop(connection.await) }))
}

/// A fencing token that no other claim of this process has.
pub(crate) fn fresh_token() -> i64 {
    i64::try_from(unique_number()).unwrap()
}

/// A run in a new session.
pub(crate) fn task(agent: &str) -> NewRun {
    NewRun {
        run_id: new_run_id(),
        session: SessionTarget::New {
            session_id: new_session_id(),
            project_dir: Some("/project".to_owned()),
        },
        agent_name: agent.to_owned(),
        start: start(agent, RunType::StartSession),
        timeout_ms: None,
        mode: ExecutionMode::AsyncPoll,
        parent: None,
        idempotency: None,
        pinned_to: None,
        continues: None,
        created_by: None,
    }
}

/// A run that resumes a session.
pub(crate) fn follow_up(agent: &str, session: &SessionId, queues: bool) -> NewRun {
    NewRun {
        session: SessionTarget::Resume { session_id: session.clone(), queues },
        start: start(agent, RunType::ResumeSession),
        ..task(agent)
    }
}

/// A child run that a claimed run starts.
pub(crate) fn child(parent: &Claimed, agent: &str, call_id: &str, mode: ExecutionMode) -> NewRun {
    let call = ParentCall { fence: parent.fence.clone(), call_id: call_id.to_owned() };
    let parent = Parent { session_id: parent.session_id.clone(), call: Some(call), limits: LIMITS };
    NewRun { parent: Some(parent), mode, ..task(agent) }
}

pub(crate) fn start(agent: &str, run_type: RunType) -> EventBody {
    let contract = Contract {
        source: ContractSource::Inline,
        schema_name: None,
        schema: json!({"type": "object"}).into(),
        hash: "sha256:0".to_owned(),
        options: ContractOptions::default(),
        example: None,
    };
    EventBody::RunStart {
        run_type,
        blueprint: Arc::new(Blueprint { name: agent.to_owned(), ..Blueprint::default() }),
        contract: Some(Arc::new(contract)),
        parameters: json!({"prompt": "Do it."}),
        input: "Do it.".to_owned(),
        overrides: RunOverrides::default(),
        conversation: None,
    }
}

pub(crate) fn runner(id: &str) -> RunnerRecord {
    RunnerRecord {
        runner_id: id.to_owned(),
        name: "machine".to_owned(),
        slots: 1,
        details: Value::Null,
        created_by: None,
        registered_at: 0,
        seen_at: 0,
        working_on: 0,
    }
}

pub(crate) fn message(text: &str) -> EventBody {
    let reply = Reply { text: text.to_owned(), ..Reply::default() };
    EventBody::Message {
        role: Role::Assistant,
        content: text.to_owned(),
        reply: Box::new(reply),
        asked: None,
    }
}

/// The final events of a completed run.
pub(crate) fn success(text: &str) -> Vec<EventBody> {
    let receipt = Receipt { calls: 3, retries: 2, ..Receipt::default() };
    let result = EventBody::Result {
        result_text: Some(text.to_owned()),
        result_data: None,
        receipt: Box::new(receipt),
    };
    vec![
        result,
        EventBody::RunCompleted { status: RunStatus::Completed, error: None, salvage: None, receipt: None },
    ]
}

pub(crate) fn event_type(event: &StoredEvent) -> String {
    body(event)["event_type"].as_str().expect("an event type").to_owned()
}

pub(crate) fn body(event: &StoredEvent) -> Value {
    serde_json::from_str(&event.body).expect("JSON")
}

pub(crate) fn delegation_refusal(answer: Result<Submitted, Refusal>) -> String {
    match answer {
        Err(Refusal::Delegation(reason)) => reason,
        other => panic!("{other:?}"),
    }
}
