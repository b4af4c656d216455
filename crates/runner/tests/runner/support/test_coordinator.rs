//! Whole trees of runs: a store of their own, the coordinator over it, and a worker beside it.

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

/// How long a tree of runs may take that ends by itself; beyond it something waits for what never comes.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs that are worked on at the same time, as by `slipform run`.
const SLOTS: usize = 4;

/// How often things are looked at that nobody is told of: stops, and times that are up.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// How long an id is: `ses_` or `run_`, and twelve digits.
const ID_BYTES: usize = 16;

/// Where agents work for each other.
pub(crate) struct TestCoordinator {
    app: App,
    agency: Arc<Fixture>,
    root: OnceLock<SessionId>,
}

/// A tree of runs that has ended.
pub(crate) struct Ended {
    pub(crate) outcome: Outcome,
    /// Everything that happened, in all sessions, with ids and times as [`Names`] has them.
    pub(crate) events: Vec<Event>,
    names: Names,
}

/// Ids as they would be if sessions were numbered from 1 and runs from 129, in the order in which they were begun.
struct Names(HashMap<String, String>);

/// The session that was begun as this one.
pub(crate) fn session(number: u8) -> SessionId {
    SessionId::from_random([number; 6])
}

/// Performs a run of an agent and all that comes of it.
pub(crate) async fn perform(agency: &Arc<Fixture>, name: &str, prompt: &str) -> Ended {
    TestCoordinator::open(agency).await.perform((name, prompt), Arc::new(())).await
}

impl TestCoordinator {
    /// An empty one, in which these agents are known.
    pub(crate) async fn open(agency: &Arc<Fixture>) -> TestCoordinator {
        // There are no files: all agents are given.
        let registry = Registry::read(&PathBuf::from("/nowhere"));
        for (blueprint, _) in &agency.agents {
            registry.give(format!("agents/{}.yaml", blueprint.name).into(), blueprint.clone());
        }
        let options = AppOptions { heartbeat: LOOK_EVERY, ..AppOptions::default() };
        let app = App::open("sqlite::memory:", false, Arc::new(registry), options).await.unwrap();
        TestCoordinator { app, agency: agency.clone(), root: OnceLock::new() }
    }

    /// Performs a run of an agent and all that comes of it.
    pub(crate) async fn perform(&self, (name, prompt): (&str, &str), progress: Arc<dyn Progress>) -> Ended {
        let mut working = self.work(progress);
        let request = json!({
            "type": "start_session", "agent_name": name, "prompt": prompt, "project_dir": self.agency.project_dir,
        });
        let created = self.app.submit(serde_json::from_value(request).unwrap(), None).await.unwrap();
        self.root.set(created.session_id).unwrap();
        // The end of a run and what it leads to are one transaction: whenever nothing goes on, nothing will.
        let settled = self.until(|counts| counts.by_status.iter().all(|(status, _)| status.is_ended()));
        tokio::select! {
            settled = tokio::time::timeout(PATIENCE, settled) => settled.expect("everything ends"),
            broken = working.join_next() => panic!("nobody works any more: {broken:?}"),
        }
        self.ended().await
    }

    /// Waits until as many runs stand like this, for everyone to see.
    pub(crate) async fn until_runs(&self, runs: i64, stand: impl Fn(RunStatus) -> bool) {
        let is_so = |counts: &Counts| {
            let those = counts.by_status.iter().filter(|(status, _)| stand(*status));
            those.map(|(_, count)| count).sum::<i64>() >= runs
        };
        self.until(is_so).await;
    }

    /// Stops whatever goes on in the first session, and what it waits for.
    pub(crate) async fn stop(&self) {
        self.app.stop_session(self.root.get().expect("a run was begun")).await.unwrap();
    }

    /// A worker, and all who have to be there besides. They are gone when the set is.
    fn work(&self, progress: Arc<dyn Progress>) -> JoinSet<()> {
        let options = WorkerOptions {
            name: "a test".to_owned(),
            slots: SLOTS,
            details: Value::Null,
            runner_id: None,
            claim_wait: Duration::from_secs(4),
        };
        let worker = Worker::new(Arc::new(self.app.clone()), self.agency.clone(), progress, options);
        let (app, every) = (self.app.clone(), LOOK_EVERY);
        let sweeper =
            Sweeper::new(app.clone(), SweeperOptions { interval: every, ..SweeperOptions::default() });
        let mut working = JoinSet::new();
        working.spawn(async { worker.run(std::future::pending()).await.unwrap() });
        working.spawn(async move { app.tail().run().await });
        working.spawn(sweeper.run());
        working
    }

    async fn until(&self, is_so: impl Fn(&Counts) -> bool) {
        let mut news = self.app.store().news();
        while !is_so(&self.app.store().counts().await.unwrap()) {
            news.changed().await.unwrap();
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
    /// How the runs of a session ended.
    pub(crate) fn statuses(&self, session: &SessionId) -> Vec<String> {
        let ends = self.events.iter().filter(|event| event.session_id == *session);
        ends.filter_map(|event| match &event.body {
            EventBody::RunCompleted { status, .. } => Some(format!("{status:?}").to_lowercase()),
            _ => None,
        })
        .collect()
    }

    /// What was said to somebody, with ids as in the events.
    pub(crate) fn told(&self, text: &str) -> String {
        self.names.told(text)
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
        // There are trees with more runs than a byte counts; nobody asks for those by number.
        let numbers = (129..=255).chain(0..=128);
        let run = |number| RunId::from_random([number; 6]).to_string();
        let runs = runs.iter().zip(numbers).map(|(id, number)| (id.to_string(), run(number)));
        Names(sessions.chain(runs).collect())
    }

    fn told(&self, text: &str) -> String {
        let (mut told, mut rest) = (String::with_capacity(text.len()), text);
        while let Some(at) = rest.find("ses_").into_iter().chain(rest.find("run_")).min() {
            let (before, from) = rest.split_at(at);
            let (id, after) = from.split_at(from.floor_char_boundary(ID_BYTES));
            told.push_str(before);
            match self.0.get(id) {
                Some(name) => {
                    told.push_str(name);
                    rest = after;
                }
                None => {
                    told.push_str(&from[..1]);
                    rest = &from[1..];
                }
            }
        }
        told + rest
    }

    fn event(&self, stored: &StoredEvent) -> Event {
        Event {
            seq: stored.seq.try_into().unwrap(),
            session_id: self.told(stored.session_id.as_str()).parse().unwrap(),
            run_id: self.told(stored.run_id.as_str()).parse().unwrap(),
            timestamp: clock().now(),
            body: serde_json::from_str(&self.told(&stored.body)).unwrap(),
        }
    }
}

/// How the last run of the first session ended.
fn outcome(events: &[Event]) -> Outcome {
    let of_first = |event: &&Event| event.session_id == session(1);
    let last: Vec<&Event> = events.iter().filter(of_first).rev().take(2).collect();
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
