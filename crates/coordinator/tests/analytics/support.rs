//! A store with an analytics folder, and runs that end in different ways.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use slipform_coordinator::Analytics;
use slipform_store::{Append, ClaimRequest, Fence, NewRun, SessionTarget, Store};
use slipform_testkit::{TestFolder, TestStore, unique_number, wait_until_async};
use slipform_types::{
    Blueprint, EventBody, ExecutionMode, NOT_SUBMITTED, Receipt, Reply, Role, RunError, RunErrorType, RunId,
    RunOverrides, RunStatus, RunType, Rung, Salvage, SessionId, Tokens,
};

/// A text that must not appear in the analytics file.
pub(crate) const CONFIDENTIAL: &str = "the launch code is 0000";

fn bytes() -> [u8; 6] {
    let bytes = unique_number().to_be_bytes();
    [bytes[2], bytes[3], bytes[4], bytes[5], bytes[6], bytes[7]]
}

/// A store and the folder of its analytics files.
pub(crate) struct Fixture {
    pub(crate) store: Store,
    pub(crate) address: String,
    folder: PathBuf,
    /// Deleted with the fixture.
    _owned: Option<(TestStore, TestFolder)>,
}

impl From<TestStore> for Fixture {
    fn from(test: TestStore) -> Fixture {
        let home = TestFolder::new("analytics");
        Fixture {
            store: test.store.clone(),
            address: test.address.clone(),
            folder: home.join("deep/analytics"),
            _owned: Some((test, home)),
        }
    }
}

impl Fixture {
    /// A store that reuses the address and folder of another.
    pub(crate) fn replacing(store: Store, address: &str, folder: &Path) -> Fixture {
        Fixture { store, address: address.to_owned(), folder: folder.to_owned(), _owned: None }
    }

    pub(crate) fn folder(&self) -> PathBuf {
        self.folder.clone()
    }

    pub(crate) fn analytics(&self) -> Analytics {
        Analytics::new(self.store.clone(), &self.folder(), &self.address)
    }

    /// Path of the only lines file.
    pub(crate) fn file(&self) -> PathBuf {
        files(&self.folder(), "jsonl").pop().expect("a file")
    }

    pub(crate) fn position_file(&self) -> PathBuf {
        files(&self.folder(), "json").pop().expect("a position")
    }

    /// All written lines.
    pub(crate) fn lines(&self) -> Vec<Value> {
        let texts =
            files(&self.folder(), "jsonl").into_iter().map(|path| std::fs::read_to_string(path).unwrap());
        let texts: Vec<String> = texts.collect();
        texts
            .iter()
            .flat_map(|text| text.lines())
            .map(|line| serde_json::from_str(line).expect(line))
            .collect()
    }

    /// Number of lines per type.
    pub(crate) fn counts(&self) -> BTreeMap<String, usize> {
        let mut counts = BTreeMap::new();
        for line in self.lines() {
            *counts.entry(line["type"].as_str().unwrap().to_owned()).or_default() += 1;
        }
        counts
    }

    /// Writes until `runs` runs have a line. PostgreSQL shows events after older transactions have ended.
    pub(crate) async fn write_until(&self, runs: usize) {
        let analytics = self.analytics();
        wait_until_async("every run has a line", || async {
            analytics.catch_up().await;
            self.ended_runs() >= runs
        })
        .await;
        assert_eq!(self.ended_runs(), runs, "{:?}", self.counts());
    }

    pub(crate) fn ended_runs(&self) -> usize {
        self.counts().get("orchestrator.specialist.completed").copied().unwrap_or_default()
    }

    /// Submits a run and executes it to its end.
    pub(crate) async fn run(&self, agent: &str, events: Vec<EventBody>, end: Vec<EventBody>) -> SessionId {
        let submitted = self.store.submit(task(agent)).await.unwrap().unwrap();
        let runner_id = "runner".to_owned();
        let request = ClaimRequest { runner_id, slots: 1, lease_ms: 600_000, only_pinned: false, token: 1 };
        let fence = self.store.claim(request).await.unwrap().pop().expect("a run").fence;
        self.store.append(append(&fence, 1, events)).await.unwrap().unwrap();
        self.store.finish(append(&fence, 2, end)).await.unwrap().unwrap();
        submitted.session_id
    }

    /// A run that completes without retries.
    pub(crate) async fn completed(&self, agent: &str) -> SessionId {
        self.run(agent, vec![reply()], success(0)).await
    }

    /// Three runs: one with a retry, one that escalates after a missing submit, and one that never submits.
    pub(crate) async fn run_with_failures(&self) {
        self.run(
            "writer",
            vec![reply(), failed_validation("$.summary: \"summary\" is required")],
            success(1),
        )
        .await;
        let escalated = EventBody::Escalated {
            from: "small".to_owned(),
            to: "large".to_owned(),
            reason: NOT_SUBMITTED.to_owned(),
            errors: vec![NOT_SUBMITTED.to_owned()],
            cause: Some(RunErrorType::ResultNotSubmitted),
        };
        self.run("writer", vec![reply(), escalated], success(0)).await;
        self.run("tester", vec![reply(), failed_validation(NOT_SUBMITTED)], never_submitted()).await;
    }
}

fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path());
    let mut paths: Vec<PathBuf> =
        entries.filter(|path| path.extension() == Some(extension.as_ref())).collect();
    paths.sort();
    paths
}

fn task(agent: &str) -> NewRun {
    NewRun {
        run_id: RunId::from_random(bytes()),
        session: SessionTarget::New { session_id: SessionId::from_random(bytes()), project_dir: None },
        agent_name: agent.to_owned(),
        start: EventBody::RunStart {
            run_type: RunType::StartSession,
            blueprint: Arc::new(Blueprint { name: agent.to_owned(), ..Blueprint::default() }),
            contract: None,
            parameters: json!({"prompt": CONFIDENTIAL}),
            input: CONFIDENTIAL.to_owned(),
            overrides: RunOverrides::default(),
            conversation: None,
        },
        timeout_ms: None,
        mode: ExecutionMode::AsyncPoll,
        parent: None,
        idempotency: None,
        pinned_to: None,
        continues: None,
        created_by: None,
    }
}

fn append(fence: &Fence, number: i64, bodies: Vec<EventBody>) -> Append {
    Append { fence: fence.clone(), number, bodies, progress: None, lease_ms: 600_000 }
}

pub(crate) fn reply() -> EventBody {
    let reply = Reply { text: CONFIDENTIAL.to_owned(), ..Reply::default() };
    let (role, content) = (Role::Assistant, CONFIDENTIAL.to_owned());
    EventBody::Message { role, content, reply: Box::new(reply), asked: None }
}

fn failed_validation(error: &str) -> EventBody {
    let cause = if error == NOT_SUBMITTED {
        RunErrorType::ResultNotSubmitted
    } else {
        RunErrorType::OutputSchemaValidationFailed
    };
    let (errors, consequence) = (vec![error.to_owned()], "retry 1 of 3".to_owned());
    EventBody::ValidationFailed { errors, consequence, cause: Some(cause), correction: None }
}

fn receipt(retries: u32) -> Box<Receipt> {
    let rungs = vec![Rung {
        tier: "small".to_owned(),
        backend: "lmstudio".to_owned(),
        model: "m".to_owned(),
        calls: 1,
    }];
    Box::new(Receipt { retries, rungs, tokens: Tokens { input: 30, output: 10 }, ..Receipt::default() })
}

pub(crate) fn success(retries: u32) -> Vec<EventBody> {
    let result_text = Some(CONFIDENTIAL.to_owned());
    vec![
        EventBody::Result { result_text, result_data: None, receipt: receipt(retries) },
        EventBody::RunCompleted { status: RunStatus::Completed, error: None, salvage: None, receipt: None },
    ]
}

fn never_submitted() -> Vec<EventBody> {
    let error = RunError {
        kind: RunErrorType::ResultNotSubmitted,
        message: "Agent did not call submit_result after 1 retry".to_owned(),
        validation_errors: vec![NOT_SUBMITTED.to_owned()],
        last_output: Some(CONFIDENTIAL.to_owned()),
        calls: 2,
        retry_count: 1,
        call_error: None,
        response: None,
    };
    let salvage = Salvage { replies: vec![CONFIDENTIAL.to_owned()], ..Salvage::default() };
    vec![EventBody::RunCompleted {
        status: RunStatus::Failed,
        error: Some(Box::new(error)),
        salvage: Some(Box::new(salvage)),
        receipt: Some(receipt(1)),
    }]
}
