//! Reads all runs and journals, over HTTP and from the database.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use rusqlite::{Connection, OpenFlags};
use serde_json::Value;
use slipform_testkit::wait_for;

use crate::support::cluster::{Cluster, StoreKind};

/// All runs and journals of a cluster.
pub(crate) struct Records {
    pub(crate) runs: Vec<Value>,
    /// Journals by session id.
    pub(crate) journals: BTreeMap<String, Vec<Value>>,
}

impl Records {
    /// Waits until all runs have ended, and reads all runs and journals over HTTP.
    pub(crate) fn read(cluster: &Cluster) -> Records {
        let runs = wait_for("all runs end", || {
            let runs = read_pages(cluster, "/runs?", "runs");
            runs.iter().all(|run| !run["finished_at"].is_null()).then_some(runs)
        });
        let sessions = read_pages(cluster, "/sessions?", "sessions");
        let journals = sessions.iter().map(|session| {
            let id = session["session_id"].as_str().unwrap().to_owned();
            let journal = journal(cluster, &id);
            (id, journal)
        });
        Records { journals: journals.collect(), runs }
    }

    /// Compares the journals with the database and returns the differences. No process may have the database open.
    pub(crate) fn compare(&self, store: StoreKind<'_>, database: &str) -> Vec<String> {
        let mut problems = Vec::new();
        if let StoreKind::Sqlite = store {
            let found = query(store, database, "PRAGMA integrity_check");
            if found != [["ok"]] {
                problems.push(format!("the database is damaged: {found:?}"));
            }
        }
        let sql =
            "SELECT session_id, CAST(seq AS TEXT), run_id, body FROM events ORDER BY session_id, events.seq";
        let mut stored: BTreeMap<String, Vec<Value>> = BTreeMap::new();
        for row in query(store, database, sql) {
            let [session, seq, run, body] = &row[..] else { panic!("{row:?}") };
            let mut event: Value = serde_json::from_str(body).unwrap();
            event["seq"] = seq.parse::<i64>().unwrap().into();
            event["session_id"] = session.as_str().into();
            event["run_id"] = run.as_str().into();
            stored.entry(session.clone()).or_default().push(event);
        }
        let without_time = |journal: &Vec<Value>| {
            let mut journal = journal.clone();
            journal.iter_mut().for_each(|event| drop(event.as_object_mut().unwrap().remove("timestamp")));
            journal
        };
        let served: BTreeMap<String, Vec<Value>> =
            self.journals.iter().map(|(session, journal)| (session.clone(), without_time(journal))).collect();
        let (none, sessions) = (Vec::new(), stored.keys().chain(served.keys()).collect::<BTreeSet<_>>());
        for session in sessions {
            let (stored, served) =
                (stored.get(session).unwrap_or(&none), served.get(session).unwrap_or(&none));
            let same = stored.iter().zip(served).take_while(|(stored, served)| stored == served).count();
            if same < stored.len().max(served.len()) {
                let (stored, served) = (stored.get(same), served.get(same));
                problems.push(format!("{session} after event {same}: API {served:?}, database {stored:?}"));
            }
        }
        problems
    }
}

/// Reads the journal of a session over HTTP.
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

/// Returns the types of a journal's events, in order.
pub(crate) fn types(journal: &[Value]) -> Vec<&str> {
    journal.iter().map(|event| event["event_type"].as_str().unwrap()).collect()
}

/// Reads all pages of a listing.
fn read_pages(cluster: &Cluster, path: &str, name: &str) -> Vec<Value> {
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

/// Runs a query and returns its rows, each with its columns as text.
pub(crate) fn query(store: StoreKind<'_>, database: &str, sql: &str) -> Vec<Vec<String>> {
    let path = match store {
        StoreKind::Postgres(server) => return server.query(database, sql),
        StoreKind::Sqlite => Path::new(database.strip_prefix("sqlite:").unwrap()),
    };
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_WRITE).unwrap();
    let mut statement = connection.prepare(sql).unwrap();
    let columns = statement.column_count();
    let rows = statement.query_map([], |row| (0..columns).map(|column| row.get(column)).collect());
    rows.unwrap().map(Result::unwrap).collect()
}
