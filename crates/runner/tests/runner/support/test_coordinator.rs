//! Performs trees of runs with a real coordinator, an in-memory store and a worker.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde_json::{Value, json};
use slipform_coordinator::{App, AppOptions, Registry, Sweeper, SweeperOptions};
use slipform_runner::{Progress, Worker, WorkerOptions};
use slipform_store::{Counts, Position, StoredEvent};
use slipform_types::{Event, EventBody, Failure, Outcome, RunId, RunStatus, SessionId, Success};
use tokio::task::JoinSet;

use crate::support::contexts::clock;
use crate::support::fixture::Fixture;

/// Time limit of a tree of runs that ends by itself; beyond it the test fails.
const TIME_MAX: Duration = Duration::from_secs(60);

/// Number of concurrent runs, as for `slipform run`.
const SLOTS: usize = 4;

/// Interval of heartbeats and of the sweeper, which deliver stops and deadlines.
const INTERVAL: Duration = Duration::from_millis(50);

/// Length of an id: `ses_` or `run_` and twelve digits.
const ID_BYTES: usize = 16;

/// A coordinator over an in-memory store, and the fixture's agents.
pub(crate) struct TestCoordinator {
    app: App,
    fixture: Arc<Fixture>,
    root: OnceLock<SessionId>,
}

/// A tree of runs that has ended.
pub(crate) struct Ended {
    pub(crate) outcome: Outcome,
    /// The events of all sessions, with ids and times normalized by [`Names`].
    pub(crate) events: Vec<Event>,
    names: Names,
}

/// Maps ids to stable ones: sessions are numbered from 1 and runs from 129, in the order in which they
/// started.
struct Names(HashMap<String, String>);

/// Returns the normalized id of the session with this number.
pub(crate) fn session(number: u8) -> SessionId {
    SessionId::from_random([number; 6])
}

/// Performs a run of an agent and all runs that it causes.
pub(crate) async fn run_tree(fixture: &Arc<Fixture>, name: &str, prompt: &str) -> Ended {
    TestCoordinator::open(fixture).await.run_tree((name, prompt), Arc::new(())).await
}

impl TestCoordinator {
    /// Opens an empty coordinator that knows the fixture's agents.
    pub(crate) async fn open(fixture: &Arc<Fixture>) -> TestCoordinator {
        // The registry reads no files; all agents are given in memory.
        let registry = Registry::read(&PathBuf::from("/nowhere"));
        for (blueprint, _) in &fixture.agents {
            registry.insert_agent(format!("agents/{}.yaml", blueprint.name).into(), blueprint.clone());
        }
        let options = AppOptions { heartbeat: INTERVAL, ..AppOptions::default() };
        let app = App::open("sqlite::memory:", false, Arc::new(registry), options).await.unwrap();
        TestCoordinator { app, fixture: fixture.clone(), root: OnceLock::new() }
    }

    /// Performs a run of an agent and all runs that it causes.
    pub(crate) async fn run_tree(&self, (name, prompt): (&str, &str), progress: Arc<dyn Progress>) -> Ended {
        let mut tasks = self.start_worker(progress);
        let request = json!({
            "type": "start_session", "agent_name": name, "prompt": prompt, "project_dir": self.fixture.project_dir,
        });
        let created = self.app.submit(serde_json::from_value(request).unwrap(), None).await.unwrap();
        self.root.set(created.session_id).unwrap();
        // One transaction ends a run and queues its successors, so no open run means that the tree has ended.
        let settled = self.until(|counts| counts.by_status.iter().all(|(status, _)| status.is_ended()));
        tokio::select! {
            settled = tokio::time::timeout(TIME_MAX, settled) => settled.expect("everything ends"),
            ended = tasks.join_next() => panic!("a background task ended: {ended:?}"),
        }
        self.ended().await
    }

    /// Waits until at least this many runs have a matching status.
    pub(crate) async fn until_runs(&self, runs: i64, matches_status: impl Fn(RunStatus) -> bool) {
        let is_met = |counts: &Counts| {
            let matching = counts.by_status.iter().filter(|(status, _)| matches_status(*status));
            matching.map(|(_, count)| count).sum::<i64>() >= runs
        };
        self.until(is_met).await;
    }

    /// Stops the first session and its children.
    pub(crate) async fn stop(&self) {
        self.app.stop_session(self.root.get().expect("a run was begun")).await.unwrap();
    }

    /// Starts a worker, the event tail and the sweeper. Dropping the set aborts them.
    fn start_worker(&self, progress: Arc<dyn Progress>) -> JoinSet<()> {
        let options = WorkerOptions {
            name: "a test".to_owned(),
            slots: SLOTS,
            details: Value::Null,
            runner_id: None,
            claim_wait: Duration::from_secs(4),
        };
        let worker = Worker::new(Arc::new(self.app.clone()), self.fixture.clone(), progress, options);
        let (app, interval) = (self.app.clone(), INTERVAL);
        let sweeper = Sweeper::new(app.clone(), SweeperOptions { interval, ..SweeperOptions::default() });
        let mut tasks = JoinSet::new();
        tasks.spawn(async { worker.run(std::future::pending()).await.unwrap() });
        tasks.spawn(async move { app.tail().run().await });
        tasks.spawn(sweeper.run());
        tasks
    }

    async fn until(&self, is_met: impl Fn(&Counts) -> bool) {
        let mut changes = self.app.store().notifications();
        while !is_met(&self.app.store().counts().await.unwrap()) {
            changes.changed().await.unwrap();
        }
    }

    async fn ended(&self) -> Ended {
        let (mut stored, mut after): (Vec<StoredEvent>, _) = (Vec::new(), Position::default());
        loop {
            let more = self.app.store().all_events(after, 1_000).await.unwrap();
            let Some(last) = more.last() else { break };
            after = last.position;
            stored.extend(more);
        }
        let names = Names::of(&stored);
        let events: Vec<Event> = stored.iter().map(|event| names.event(event)).collect();
        Ended { outcome: outcome(&events), events, names }
    }
}

impl Ended {
    /// Returns the final statuses of a session's runs.
    pub(crate) fn statuses(&self, session: &SessionId) -> Vec<String> {
        let ends = self.events.iter().filter(|event| event.session_id == *session);
        ends.filter_map(|event| match &event.body {
            EventBody::RunCompleted { status, .. } => Some(format!("{status:?}").to_lowercase()),
            _ => None,
        })
        .collect()
    }

    /// Returns a text with ids normalized as in the events.
    pub(crate) fn normalized(&self, text: &str) -> String {
        self.names.normalized(text)
    }
}

impl Names {
    fn of(events: &[StoredEvent]) -> Names {
        let (mut sessions, mut runs): (Vec<&SessionId>, Vec<&RunId>) = (Vec::new(), Vec::new());
        for event in events {
            if !sessions.contains(&&event.session_id) {
                sessions.push(&event.session_id);
            }
            if !runs.contains(&&event.run_id) {
                runs.push(&event.run_id);
            }
        }
        let sessions =
            sessions.iter().zip(1..).map(|(id, number)| (id.to_string(), session(number).to_string()));
        // Trees with more runs than a byte can count reuse numbers; no test asks for matching.
        let numbers = (129..=255).chain(0..=128);
        let run = |number| RunId::from_random([number; 6]).to_string();
        let runs = runs.iter().zip(numbers).map(|(id, number)| (id.to_string(), run(number)));
        Names(sessions.chain(runs).collect())
    }

    fn normalized(&self, text: &str) -> String {
        let (mut normalized, mut rest) = (String::with_capacity(text.len()), text);
        while let Some(at) = rest.find("ses_").into_iter().chain(rest.find("run_")).min() {
            let (before, from) = rest.split_at(at);
            let (id, after) = from.split_at(from.floor_char_boundary(ID_BYTES));
            normalized.push_str(before);
            match self.0.get(id) {
                Some(name) => {
                    normalized.push_str(name);
                    rest = after;
                }
                None => {
                    normalized.push_str(&from[..1]);
                    rest = &from[1..];
                }
            }
        }
        normalized + rest
    }

    fn event(&self, stored: &StoredEvent) -> Event {
        Event {
            seq: stored.seq.try_into().unwrap(),
            session_id: self.normalized(stored.session_id.as_str()).parse().unwrap(),
            run_id: self.normalized(stored.run_id.as_str()).parse().unwrap(),
            timestamp: clock().now(),
            body: serde_json::from_str(&self.normalized(&stored.body)).unwrap(),
        }
    }
}

/// Returns the outcome of the last run of the first session.
fn outcome(events: &[Event]) -> Outcome {
    let in_first_session = |event: &&Event| event.session_id == session(1);
    let last: Vec<&Event> = events.iter().filter(in_first_session).rev().take(2).collect();
    match (&last[1].body, &last[0].body) {
        (EventBody::Result { result_text, result_data, receipt }, EventBody::RunCompleted { .. }) => {
            let (result_text, result_data) = (result_text.clone(), result_data.clone());
            Outcome::Completed(Success { result_text, result_data, receipt: (**receipt).clone() }.into())
        }
        (
            _,
            EventBody::RunCompleted {
                error: Some(error),
                salvage: Some(salvage),
                receipt: Some(receipt),
                ..
            },
        ) => {
            let (error, salvage) = ((**error).clone(), (**salvage).clone());
            Outcome::Failed(Failure { error, salvage, receipt: (**receipt).clone() }.into())
        }
        end => panic!("the run has not ended: {end:?}"),
    }
}
