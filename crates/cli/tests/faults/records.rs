//! Everything that is kept: as the API tells it, and as the database holds it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use rusqlite::{Connection, OpenFlags};
use serde_json::Value;

use crate::cluster::{Cluster, StoreKind};
use crate::wait::until;

/// What is kept.
pub(crate) struct Records {
    pub(crate) runs: Vec<Value>,
    /// Journals by session.
    pub(crate) journals: BTreeMap<String, Vec<Value>>,
}

impl Records {
    /// Waits until nothing goes on any more, and reads everything over HTTP.
    pub(crate) fn read(cluster: &Cluster) -> Records {
        let runs = until("all runs end", || {
            let runs = pages(cluster, "/runs?", "runs");
            runs.iter().all(|run| !run["finished_at"].is_null()).then_some(runs)
        });
        let sessions = pages(cluster, "/sessions?", "sessions");
        let journals = sessions.iter().map(|session| {
            let id = session["session_id"].as_str().unwrap().to_owned();
            let journal = journal(cluster, &id);
            (id, journal)
        });
        Records { journals: journals.collect(), runs }
    }

    /// The same from the database, which nobody has open; what is wrong with it.
    pub(crate) fn compare(&self, place: StoreKind<'_>, database: &str) -> Vec<String> {
        let mut problems = Vec::new();
        if let StoreKind::Sqlite = place {
            let found = query(place, database, "PRAGMA integrity_check");
            if found != [["ok"]] {
                problems.push(format!("the database is damaged: {found:?}"));
            }
        }
        let sql =
            "SELECT session_id, CAST(seq AS TEXT), run_id, body FROM events ORDER BY session_id, events.seq";
        let mut kept: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        for row in query(place, database, sql) {
            let [session, seq, run, body] = &row[..] else { panic!("{row:?}") };
            let mut event: Value = serde_json::from_str(body).unwrap();
            event["seq"] = seq.parse::<i64>().unwrap().into();
            event["session_id"] = session.as_str().into();
            event["run_id"] = run.as_str().into();
            kept.entry(session.clone()).or_default().push(event);
        }
        let without_time = |journal: &Vec<Value>| {
            let mut journal = journal.clone();
            journal.iter_mut().for_each(|event| drop(event.as_object_mut().unwrap().remove("timestamp")));
            journal
        };
        let told: BTreeMap<String, Vec<Value>> =
            self.journals.iter().map(|(session, journal)| (session.clone(), without_time(journal))).collect();
        let (none, sessions) = (Vec::new(), kept.keys().chain(told.keys()).collect::<BTreeSet<_>>());
        for session in sessions {
            let (kept, told) = (kept.get(session).unwrap_or(&none), told.get(session).unwrap_or(&none));
            let same = kept.iter().zip(told).take_while(|(kept, told)| kept == told).count();
            if same < kept.len().max(told.len()) {
                let (kept, told) = (kept.get(same), told.get(same));
                problems
                    .push(format!("after event {same} of {session}, {told:?} is told and {kept:?} is kept"));
            }
        }
        problems
    }
}

/// The journal of a session.
pub(crate) fn journal(cluster: &Cluster, session: &str) -> Vec<Value> {
    let (mut journal, mut after) = (Vec::new(), 0);
    loop {
        let page = cluster.get(&format!("/sessions/{session}/events?limit=1000&after={after}"));
        let events = page["events"].as_array().unwrap();
        journal.extend(events.iter().cloned());
        match events.last() {
            Some(last) => after = last["seq"].as_i64().unwrap(),
            None => return journal,
        }
    }
}

/// The types of a journal's events, in order.
pub(crate) fn types(journal: &[Value]) -> Vec<&str> {
    journal.iter().map(|event| event["event_type"].as_str().unwrap()).collect()
}

fn pages(cluster: &Cluster, path: &str, name: &str) -> Vec<Value> {
    let (mut all, mut after) = (Vec::new(), String::new());
    loop {
        let page = cluster.get(&format!("{path}limit=1000{after}"));
        all.extend(page[name].as_array().unwrap().iter().cloned());
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => return all,
        }
    }
}

/// Rows of a database, as text.
pub(crate) fn query(place: StoreKind<'_>, database: &str, sql: &str) -> Vec<Vec<String>> {
    let path = match place {
        StoreKind::Postgres(server) => return server.query(database, sql),
        StoreKind::Sqlite => Path::new(database.strip_prefix("sqlite:").unwrap()),
    };
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE).unwrap();
    let mut statement = connection.prepare(sql).unwrap();
    let columns = statement.column_count();
    let rows = statement.query_map([], |row| (0..columns).map(|column| row.get(column)).collect());
    rows.unwrap().map(Result::unwrap).collect()
}
