//! Whether everything is as it should be after faults.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::load::Job;
use crate::model::{Asked, signed};
use crate::records::{Records, types};

/// Lost attempts after which a run may have failed.
const LOSSES_MAX: usize = 3;

/// How many problems are shown: the first ones tell most, and journals are long.
const SHOWN_MAX: usize = 5;

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Verdict {
    pub(crate) problems: Vec<String>,
    pub(crate) runs: usize,
    pub(crate) expired: usize,
    pub(crate) lost: usize,
}

impl Verdict {
    /// Panics with everything that was found.
    pub(crate) fn check(&self, context: &str) {
        let problems = self.problems.iter().take(SHOWN_MAX).cloned().collect::<Vec<_>>().join("\n\n");
        assert!(self.problems.is_empty(), "{} problems, {context}\n\n{problems}", self.problems.len());
    }
}

/// Judges what is kept by what was acknowledged and what the model was asked.
pub(crate) fn judge(records: &Records, jobs: &[Job], asked: &[Asked]) -> Verdict {
    let mut verdict = Verdict { runs: records.runs.len(), ..Verdict::default() };
    let mut answered = BTreeSet::new();
    let mut tasks: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (session, journal) in &records.journals {
        let task = task_of(journal);
        let mut found: Vec<String> = numbering(journal).into_iter().collect();
        found.extend(replies(&task, journal, asked, &mut answered));
        verdict.expired += types(journal).iter().filter(|kind| **kind == "lease_expired").count();
        verdict.problems.extend(found.iter().map(|problem| told(problem, &task, journal)));
        tasks.entry(task).or_default().push(session);
    }
    let mut lost = BTreeSet::new();
    for run in &records.runs {
        let journal = &records.journals[run["session_id"].as_str().unwrap()];
        match end_of(run, journal) {
            Ok(true) => {}
            Ok(false) => drop(lost.insert(root(&task_of(journal)).to_owned())),
            Err(problem) => verdict.problems.push(told(&problem, &task_of(journal), journal)),
        }
    }
    verdict.lost = lost.len();
    verdict.problems.extend(jobs.iter().filter_map(|job| {
        let run = records.runs.iter().find(|run| run["run_id"] == job.run_id.as_str());
        run.is_none().then(|| format!("{} was acknowledged as {} and is gone", job.task, job.run_id))
    }));
    for (task, sessions) in &tasks {
        if sessions.len() != 1 {
            verdict.problems.push(format!("{task} was begun {} times: {sessions:?}", sessions.len()));
        }
    }
    let expected: BTreeSet<String> = jobs.iter().flat_map(|job| family(&job.task)).collect();
    let is_whole = |task: &&String| !lost.contains(root(task));
    let missing: Vec<_> =
        expected.iter().filter(is_whole).filter(|task| !tasks.contains_key(*task)).collect();
    let surplus: Vec<_> = tasks.keys().filter(|task| !expected.contains(*task)).collect();
    if !missing.is_empty() || !surplus.is_empty() {
        verdict.problems.push(format!("missing are {missing:?}, and nobody asked for {surplus:?}"));
    }
    for journal in records.journals.values().filter(|journal| !lost.contains(root(&task_of(journal)))) {
        verdict.problems.extend(children(journal).map(|problem| told(&problem, &task_of(journal), journal)));
    }
    verdict
}

/// The task with those that work for it.
fn family(task: &str) -> Vec<String> {
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

/// Which task a journal is of.
fn task_of(journal: &[Value]) -> String {
    let input = journal.first().map_or("", |event| event["input"].as_str().unwrap_or_default());
    let task = input.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    task.map_or("nobody", |(task, _)| task).to_owned()
}

fn told(problem: &str, task: &str, journal: &[Value]) -> String {
    let lines = journal.iter().map(|event| {
        let mut event = event.clone();
        // Long, and the same in all of them.
        event
            .as_object_mut()
            .unwrap()
            .retain(|name, _| !matches!(name.as_str(), "blueprint" | "ladder" | "tools"));
        format!("    {event}")
    });
    format!("{task}: {problem}\n{}", lines.collect::<Vec<_>>().join("\n"))
}

fn numbering(journal: &[Value]) -> Option<String> {
    let numbers: Vec<i64> = journal.iter().map(|event| event["seq"].as_i64().unwrap()).collect();
    let is_gapless = numbers.iter().copied().eq(1..=journal.len() as i64);
    (!is_gapless).then(|| format!("its events are numbered {numbers:?}"))
}

/// Replies in a journal: each is what the model said, there once, and was not asked for again.
fn replies(task: &str, journal: &[Value], asked: &[Asked], answered: &mut BTreeSet<usize>) -> Vec<String> {
    let mut problems = Vec::new();
    let mut kept = Vec::new();
    for event in journal.iter().filter(|event| event["event_type"] == "message") {
        let number = event["reply"]["model"].as_str().and_then(signed);
        let Some((number, answer)) = number.and_then(|number| Some((number, asked.get(number)?))) else {
            problems.push(format!("nobody gave the reply of event {}", event["seq"]));
            continue;
        };
        let calls = event["reply"]["tool_calls"].as_array().map_or(0, Vec::len);
        if answer.task != task || event["content"] != answer.text.as_str() || calls != answer.calls.len() {
            problems.push(format!("event {} is not what was answered: {answer:?}", event["seq"]));
        }
        if !answered.insert(number) {
            problems.push(format!("the reply of event {} is in a journal twice", event["seq"]));
        }
        if kept.last().is_some_and(|last| *last >= number) {
            problems.push(format!("the reply of event {} is older than the one before", event["seq"]));
        }
        kept.push(number);
    }
    for (number, request) in asked.iter().enumerate().filter(|(_, request)| request.task == task) {
        // Whatever was asked before the next reply was kept has to have asked for that one.
        match kept.iter().find(|kept| **kept >= number) {
            Some(next) if asked[*next].messages == request.messages => {}
            // Nobody waits for the answers of a run that was lost.
            _ if is_lost(journal) => {}
            Some(next) => problems.push(format!(
                "request {number} asks for something else than request {next}, whose answer was kept next: {}",
                request.messages
            )),
            None => problems.push(format!("request {number} came though nothing was to be asked any more")),
        }
    }
    problems
}

fn is_lost(journal: &[Value]) -> bool {
    journal.iter().any(|event| event["error"]["type"] == "lost")
}

/// Whether a run has completed: true, or false where its runners died too often.
fn end_of(run: &Value, journal: &[Value]) -> Result<bool, String> {
    let own: Vec<Value> = journal.iter().filter(|event| event["run_id"] == run["run_id"]).cloned().collect();
    let (id, kinds) = (&run["run_id"], types(&own));
    let count = |kind: &str| kinds.iter().filter(|other| **other == kind).count();
    if count("run_completed") != 1 || kinds.last() != Some(&"run_completed") || count("run_start") != 1 {
        return Err(format!("the run {id} did not begin and end once: {kinds:?}"));
    }
    if own.last().unwrap()["status"] != run["status"] {
        return Err(format!("the run {id} is {} and its journal says otherwise", run["status"]));
    }
    let is_lost = run["error"]["type"] == "lost" && count("lease_expired") >= LOSSES_MAX;
    match (run["status"].as_str(), count("result")) {
        (Some("completed"), 1) => Ok(true),
        (Some("failed"), 0) if is_lost => Ok(false),
        _ => Err(format!("the run {id} is {} with {}", run["status"], run["error"])),
    }
}

/// What a journal says of those who worked for its agent: each call started one, and each was heard of once.
fn children(journal: &[Value]) -> impl Iterator<Item = String> {
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
        let (heard, expected) = (completed.count(), usize::from(child["execution_mode"] == "sync"));
        if (same, heard, callbacks) != (1, expected, 1 - expected) {
            problems.push(format!(
                "the child {id} was started {same} times, ended {heard} times and called back {callbacks} times"
            ));
        }
    }
    problems.into_iter()
}
