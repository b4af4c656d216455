//! Consistency checks after faults: every acknowledged run has ended once, and every journal is gapless and matches the
//! exchanges of the model.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::support::load::Job;
use crate::support::model::{Exchange, request_number};
use crate::support::records::{Records, types};

/// The number of expired leases after which a run may fail as `lost`.
const LOSSES_MAX: usize = 3;

/// The most problems in the panic message. Each one contains a whole journal.
const SHOWN_MAX: usize = 5;

/// The problems found, and totals for the test's output.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) problems: Vec<String>,
    pub(crate) runs: usize,
    /// Leases that expired.
    pub(crate) expired: usize,
    /// Submitted tasks of which a run failed as `lost`.
    pub(crate) lost: usize,
    /// Acknowledged runs that are missing. A problem each, like the next two.
    pub(crate) missing: usize,
    /// Runs, replies and children that exist more than once.
    pub(crate) doubled: usize,
    /// Model calls that repeat a stored one.
    pub(crate) repeated: usize,
}

impl Report {
    /// Panics with the first problems, if any.
    pub(crate) fn assert_ok(&self, context: &str) {
        let problems = self.problems.iter().take(SHOWN_MAX).cloned().collect::<Vec<_>>().join("\n\n");
        assert!(self.problems.is_empty(), "{} problems, {context}\n\n{problems}", self.problems.len());
    }
}

/// Checks the records against the acknowledged jobs and the model's exchanges.
pub(crate) fn verify(records: &Records, jobs: &[Job], exchanges: &[Exchange]) -> Report {
    let mut report = Report { runs: records.runs.len(), ..Report::default() };
    let mut answered = BTreeSet::new();
    let mut tasks: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (session, journal) in &records.journals {
        let task = task_of(journal);
        let mut found: Vec<String> = numbering_problem(journal).into_iter().collect();
        found.extend(reply_problems(&task, journal, exchanges, &mut answered, &mut report));
        report.expired += types(journal).iter().filter(|kind| **kind == "lease_expired").count();
        report.problems.extend(found.iter().map(|problem| describe(problem, &task, journal)));
        tasks.entry(task).or_default().push(session);
    }
    let mut lost = BTreeSet::new();
    for run in &records.runs {
        let journal = &records.journals[run["session_id"].as_str().unwrap()];
        match has_completed(run, journal) {
            Ok(true) => {}
            Ok(false) => drop(lost.insert(root(&task_of(journal)).to_owned())),
            Err(problem) => report.problems.push(describe(&problem, &task_of(journal), journal)),
        }
    }
    report.lost = lost.len();
    for job in jobs {
        if !records.runs.iter().any(|run| run["run_id"] == job.run_id.as_str()) {
            report.missing += 1;
            report.problems.push(format!("{} was acknowledged as {} and is missing", job.task, job.run_id));
        }
    }
    for (task, sessions) in &tasks {
        if sessions.len() != 1 {
            report.doubled += 1;
            report.problems.push(format!("{task} was started {} times: {sessions:?}", sessions.len()));
        }
    }
    let expected: BTreeSet<String> = jobs.iter().flat_map(|job| expected_tasks(&job.task)).collect();
    let is_not_lost = |task: &&String| !lost.contains(root(task));
    let missing: Vec<_> =
        expected.iter().filter(is_not_lost).filter(|task| !tasks.contains_key(*task)).collect();
    let unexpected: Vec<_> = tasks.keys().filter(|task| !expected.contains(*task)).collect();
    if !missing.is_empty() || !unexpected.is_empty() {
        report.problems.push(format!("missing tasks {missing:?}, unexpected tasks {unexpected:?}"));
    }
    for journal in records.journals.values().filter(|journal| !lost.contains(root(&task_of(journal)))) {
        for problem in child_problems(journal) {
            report.doubled += 1;
            report.problems.push(describe(&problem, &task_of(journal), journal));
        }
    }
    report
}

/// Returns the task and the tasks of its children.
fn expected_tasks(task: &str) -> Vec<String> {
    let children = match task.split('-').next() {
        Some("leader") => 1,
        Some("caller") => 2,
        Some("team") => 3,
        _ => 0,
    };
    let children = (1..=children).map(|number| format!("{task}/{number}"));
    std::iter::once(task.to_owned()).chain(children).collect()
}

fn root(task: &str) -> &str {
    task.split('/').next().unwrap_or_default()
}

/// Returns the task of a journal, from the brackets in its first input.
fn task_of(journal: &[Value]) -> String {
    let input = journal.first().map_or("", |event| event["input"].as_str().unwrap_or_default());
    let task = input.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    task.map_or("unknown", |(task, _)| task).to_owned()
}

/// Formats a problem with the journal that it occurs in.
fn describe(problem: &str, task: &str, journal: &[Value]) -> String {
    let lines = journal.iter().map(|event| {
        let mut event = event.clone();
        // These members are long and the same in every journal.
        event
            .as_object_mut()
            .unwrap()
            .retain(|name, _| !matches!(name.as_str(), "blueprint" | "ladder" | "tools"));
        format!("    {event}")
    });
    format!("{task}: {problem}\n{}", lines.collect::<Vec<_>>().join("\n"))
}

fn numbering_problem(journal: &[Value]) -> Option<String> {
    let numbers: Vec<i64> = journal.iter().map(|event| event["seq"].as_i64().unwrap()).collect();
    let is_gapless = numbers.iter().copied().eq(1..=journal.len() as i64);
    (!is_gapless).then(|| format!("event numbers have gaps: {numbers:?}"))
}

/// Checks that each reply in a journal is the model's reply to this task, is stored once and in order, and that no
/// request repeats a stored reply's request.
fn reply_problems(
    task: &str,
    journal: &[Value],
    exchanges: &[Exchange],
    answered: &mut BTreeSet<usize>,
    report: &mut Report,
) -> Vec<String> {
    let mut problems = Vec::new();
    let mut stored = Vec::new();
    for event in journal.iter().filter(|event| event["event_type"] == "message") {
        let number = event["reply"]["model"].as_str().and_then(request_number);
        let Some((number, answer)) = number.and_then(|number| Some((number, exchanges.get(number)?))) else {
            problems.push(format!("the model did not send the reply of event {}", event["seq"]));
            continue;
        };
        let calls = event["reply"]["tool_calls"].as_array().map_or(0, Vec::len);
        if answer.task != task || event["content"] != answer.text.as_str() || calls != answer.calls.len() {
            problems.push(format!("event {} differs from the model's reply: {answer:?}", event["seq"]));
        }
        if !answered.insert(number) {
            report.doubled += 1;
            problems.push(format!("the reply of event {} is stored twice", event["seq"]));
        }
        if stored.last().is_some_and(|last| *last >= number) {
            problems.push(format!("the reply of event {} is older than its predecessor", event["seq"]));
        }
        stored.push(number);
    }
    let before = problems.len();
    for (number, request) in exchanges.iter().enumerate().filter(|(_, request)| request.task == task) {
        // A request without a stored reply must have the same messages as the next one with a stored reply.
        match stored.iter().find(|stored| **stored >= number) {
            Some(next) if exchanges[*next].messages == request.messages => {}
            // The last requests of a lost run have no stored reply.
            _ if is_lost(journal) => {}
            Some(next) => problems.push(format!(
                "request {number} differs from request {next}, whose reply was stored next: {}",
                request.messages
            )),
            None => problems.push(format!("request {number} came after the last stored reply")),
        }
    }
    report.repeated += problems.len() - before;
    problems
}

fn is_lost(journal: &[Value]) -> bool {
    journal.iter().any(|event| event["error"]["type"] == "lost")
}

/// Returns whether a run has completed; `false` if it failed as `lost`. Any other end is an error.
fn has_completed(run: &Value, journal: &[Value]) -> Result<bool, String> {
    let own: Vec<Value> = journal.iter().filter(|event| event["run_id"] == run["run_id"]).cloned().collect();
    let (id, kinds) = (&run["run_id"], types(&own));
    let count = |kind: &str| kinds.iter().filter(|other| **other == kind).count();
    if count("run_completed") != 1 || kinds.last() != Some(&"run_completed") || count("run_start") != 1 {
        return Err(format!("run {id} did not start and end exactly once: {kinds:?}"));
    }
    if own.last().unwrap()["status"] != run["status"] {
        return Err(format!("run {id} is {}, but its journal has another status", run["status"]));
    }
    let is_lost = run["error"]["type"] == "lost" && count("lease_expired") >= LOSSES_MAX;
    match (run["status"].as_str(), count("result")) {
        (Some("completed"), 1) => Ok(true),
        (Some("failed"), 0) if is_lost => Ok(false),
        _ => Err(format!("run {id} is {} with error {}", run["status"], run["error"])),
    }
}

/// Checks that each delegation started one child and that each child's end was recorded once.
fn child_problems(journal: &[Value]) -> impl Iterator<Item = String> {
    let started: Vec<&Value> =
        journal.iter().filter(|event| event["event_type"] == "child_started").collect();
    let mut problems = Vec::new();
    for child in &started {
        let (id, call) = (child["child_session_id"].as_str().unwrap(), &child["call_id"]);
        let same = started.iter().filter(|other| other["call_id"] == *call).count();
        let completed = journal
            .iter()
            .filter(|event| event["event_type"] == "child_completed" && event["child_session_id"] == id);
        let callbacks = journal.iter().filter(|event| event["event_type"] == "run_start");
        let callbacks: usize =
            callbacks.map(|event| event["input"].as_str().map_or(0, |text| text.matches(id).count())).sum();
        let (ended, expected) = (completed.count(), usize::from(child["execution_mode"] == "sync"));
        if (same, ended, callbacks) != (1, expected, 1 - expected) {
            problems.push(format!(
                "child {id} was started {same} times, ended {ended} times and called back {callbacks} times"
            ));
        }
    }
    problems.into_iter()
}
