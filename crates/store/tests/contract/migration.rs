//! Migration of databases created by older versions.

use std::path::Path;

use slipform_store::{AgentStats, Millis, StatsFilter};
use slipform_testkit::{TestStore, execute};
use slipform_types::EventKind;

use crate::support::Fixture;

const VERSION_1: &str =
    "CREATE TABLE schema_version (version BIGINT NOT NULL); INSERT INTO schema_version VALUES (1);";

/// Twenty ended runs of 1 to 20 ms, of which the last failed, one run that was never claimed, and one active
/// run.
fn data() -> String {
    let session = "INSERT INTO sessions (session_id, agent_name, root_session_id, lineage, last_seq, last_run_id, created_at,
        updated_at) VALUES ('ses_000000000001', 'writer', 'ses_000000000001', '[]', 2, 'run_000000000001', 0, 0);";
    let run = |number: Millis, status: &str, started: &str, finished: &str| {
        format!(
            "INSERT INTO runs (run_id, session_id, agent_name, type, status, retry_count, mode, created_at, started_at,
                finished_at) VALUES ('run_{number:012}', 'ses_000000000001', 'writer', 'start_session', '{status}',
                {}, 'async_poll', 0, {started}, {finished});",
            number % 2
        )
    };
    let event = |seq: u32, body: &str| {
        format!(
            "INSERT INTO events (session_id, seq, run_id, at, body)
                VALUES ('ses_000000000001', {seq}, 'run_000000000001', 0, '{body}');"
        )
    };
    // PostgreSQL refuses to read the text of the escape in the second event.
    let events = [
        event(1, r#"{"event_type":"run_start","type":"start_session"}"#),
        event(2, r#"{"event_type":"stop_requested","partial":"\u0000"}"#),
    ];
    let ended = (1..=20).map(|number| {
        let status = if number == 20 { "failed" } else { "completed" };
        run(number, status, "1000", &(1_000 + number).to_string())
    });
    let others = [run(21, "stopped", "NULL", "5000"), run(22, "running", "1000", "NULL")];
    std::iter::once(session.to_owned()).chain(ended).chain(others).chain(events).collect()
}

async fn assert_migrated(test: &Fixture) {
    let counted = AgentStats {
        agent_name: "writer".to_owned(),
        runs: 21,
        completed: 19,
        first_pass: 9,
        retries: 11,
        p50_ms: Some(10),
        p95_ms: Some(19),
        ..AgentStats::default()
    };
    assert_eq!(test.store.agent_stats(StatsFilter::default()).await.unwrap(), [counted]);
    let since = StatsFilter { since: Some(1_018), ..StatsFilter::default() };
    let late = test.store.agent_stats(since).await.unwrap();
    assert_eq!((late[0].runs, late[0].p50_ms, late[0].p95_ms), (4, Some(19), Some(20)));
    let session = "ses_000000000001".parse().unwrap();
    let kinds: Vec<EventKind> = test.journal(&session).await.iter().map(|event| event.kind).collect();
    assert_eq!(kinds, [EventKind::RunStart, EventKind::StopRequested]);
    test.submit("tester").await;
    test.claim().await;
    assert!(test.store.check().await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn sqlite_database_of_version_1_is_migrated() {
    let make = |path: &Path| {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        let connection = rusqlite::Connection::open(path).unwrap();
        let first = include_str!("../../migrations/sqlite/0001_first.sql");
        connection.execute_batch(&format!("{VERSION_1}{first}{}", data())).unwrap();
    };
    assert_migrated(&TestStore::sqlite_after(make).await.into()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn postgres_database_of_version_1_is_migrated() {
    let make = |address: String| async move {
        let first = include_str!("../../migrations/postgres/0001_first.sql");
        execute(&address, &format!("{VERSION_1}{first}{}", data())).await;
    };
    let Some(test) = TestStore::postgres_after(make).await else { return };
    assert_migrated(&test.into()).await;
}
