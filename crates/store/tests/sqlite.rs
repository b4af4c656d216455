//! What only SQLite files have to do: share, lock, and be refused.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]
#![allow(clippy::print_stdout, reason = "one process tells another what it has written")]

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde_json::json;
use slipform_store::{
    ClaimRequest, Error, NewRun, Options, RegistryKind, SessionTarget, Store, SweepLimits, Swept,
};
use slipform_types::{Blueprint, EventBody, ExecutionMode, RunId, RunStatus, RunType, SessionId};

const EXCLUSIVE: Options = Options { is_exclusive: true };

/// A folder of one's own.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        static COUNTER: AtomicU32 = AtomicU32::new(0);
        let number = COUNTER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("slipform-sqlite-{}-{number}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    fn file(&self) -> PathBuf {
        self.0.join("slipform.db")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

async fn open(path: &Path, options: &Options) -> Result<Store, Error> {
    Store::open(&format!("sqlite:{}", path.display()), options).await
}

fn task(byte: u8) -> NewRun {
    let blueprint = Arc::new(Blueprint { name: "writer".to_owned(), ..Blueprint::default() });
    NewRun {
        run_id: RunId::from_random([byte; 6]),
        session: SessionTarget::New { session_id: SessionId::from_random([byte; 6]), project_dir: None },
        agent_name: "writer".to_owned(),
        start: EventBody::RunStart {
            run_type: RunType::StartSession,
            blueprint,
            contract: None,
            parameters: json!({}),
            input: String::new(),
        },
        timeout_ms: None,
        mode: ExecutionMode::AsyncPoll,
        parent: None,
        idempotency: None,
        pinned_to: None,
        continues: None,
    }
}

#[tokio::test]
async fn two_stores_share_a_file_and_hear_of_each_other() {
    let folder = Folder::new();
    let one = open(&folder.file(), &EXCLUSIVE).await.unwrap();
    let other = open(&folder.file(), &Options::default()).await.unwrap();
    let mut news = other.news();
    news.mark_unchanged();
    let submitted = one.submit(task(1)).await.unwrap().unwrap();
    tokio::time::timeout(Duration::from_secs(20), news.changed()).await.expect("news").unwrap();
    let request =
        ClaimRequest { runner_id: "runner".to_owned(), slots: 1, lease_ms: 60_000, only_pinned: false };
    let claimed = other.claim(request).await.unwrap();
    assert_eq!(claimed[0].fence.run_id, submitted.run_id);
    // Both write at once, and neither is told to come back later.
    let adding = |store: &Store, name: &'static str| {
        let store = store.clone();
        tokio::spawn(async move {
            for index in 0..50 {
                assert!(store.add(RegistryKind::Agents, &format!("{name}{index}"), "{}").await.unwrap());
            }
        })
    };
    let (first, second) = (adding(&one, "a"), adding(&other, "b"));
    first.await.unwrap();
    second.await.unwrap();
    assert_eq!(one.named(RegistryKind::Agents).await.unwrap().len(), 100);
}

#[tokio::test]
async fn a_database_has_one_coordinator() {
    let folder = Folder::new();
    let first = open(&folder.file(), &EXCLUSIVE).await.unwrap();
    let Err(Error::Locked(message)) = open(&folder.file(), &EXCLUSIVE).await else { panic!("not refused") };
    assert!(message.contains("slipform.db.lock") && message.contains("slipform serve"), "{message}");
    drop(first);
    open(&folder.file(), &EXCLUSIVE).await.expect("the lock is given back");
}

#[tokio::test]
async fn what_was_asked_for_is_kept_when_the_store_is_dropped() {
    let folder = Folder::new();
    let store = open(&folder.file(), &Options::default()).await.unwrap();
    let mut asked = tokio::task::JoinSet::new();
    for index in 0..100 {
        let store = store.clone();
        asked.spawn(async move { store.add(RegistryKind::Agents, &format!("{index}"), "{}").await });
    }
    drop(store);
    while let Some(added) = asked.join_next().await {
        assert!(added.unwrap().unwrap());
    }
    let again = open(&folder.file(), &Options::default()).await.unwrap();
    assert_eq!(again.named(RegistryKind::Agents).await.unwrap().len(), 100);
}

#[tokio::test]
async fn a_damaged_run_keeps_no_other_from_being_swept() {
    let folder = Folder::new();
    let store = open(&folder.file(), &Options::default()).await.unwrap();
    let (damaged, sound) = (task(1), task(2));
    for new in [damaged.clone(), sound.clone()] {
        store.submit(new).await.unwrap().unwrap();
        let request =
            ClaimRequest { runner_id: "runner".to_owned(), slots: 1, lease_ms: -1, only_pinned: false };
        assert_eq!(store.claim(request).await.unwrap().len(), 1);
    }
    let connection = rusqlite::Connection::open(folder.file()).unwrap();
    let damage = "INSERT INTO events (session_id, seq, run_id, at, body)
        SELECT session_id, 2, run_id, 0, '{\"event_type\":\"message\"' FROM runs WHERE run_id = ?1";
    assert_eq!(connection.execute(damage, [damaged.run_id.as_str()]).unwrap(), 1);
    let limits = SweepLimits { losses_max: 1, stop_wait_ms: 60_000, batch: 10 };
    assert_eq!(store.sweep(limits).await.unwrap(), Swept { lost: 1, ..Swept::default() });
    assert_eq!(store.run(&sound.run_id).await.unwrap().unwrap().status, RunStatus::Failed);
}

#[tokio::test]
async fn a_newer_database_is_refused() {
    let folder = Folder::new();
    drop(open(&folder.file(), &Options::default()).await.unwrap());
    let connection = rusqlite::Connection::open(folder.file()).unwrap();
    connection.execute("UPDATE schema_version SET version = 999", []).unwrap();
    let Err(Error::Unsuitable(message)) = open(&folder.file(), &Options::default()).await else {
        panic!("not refused")
    };
    assert!(message.contains("version 999") && message.contains("newer Slipform"), "{message}");
}

#[tokio::test]
async fn what_is_not_ours_is_refused() {
    let folder = Folder::new();
    let text = folder.0.join("notes.txt");
    std::fs::write(&text, "These are notes and no database. ".repeat(100)).unwrap();
    let Err(Error::Unsuitable(message)) = open(&text, &Options::default()).await else {
        panic!("not refused")
    };
    assert!(message.contains("notes.txt is not a SQLite database"), "{message}");
    let other = folder.0.join("other.db");
    rusqlite::Connection::open(&other).unwrap().execute_batch("CREATE TABLE songs (name TEXT)").unwrap();
    let Err(Error::Unsuitable(message)) = open(&other, &Options::default()).await else {
        panic!("not refused")
    };
    assert!(message.contains("something else"), "{message}");
    // A folder inside a file cannot be made, whoever asks.
    let Err(Error::Unsuitable(message)) = open(&text.join("deep/slipform.db"), &EXCLUSIVE).await else {
        panic!("not refused")
    };
    assert!(message.contains("cannot be made"), "{message}");
    let Err(Error::Unsuitable(message)) = open(&folder.0, &Options::default()).await else {
        panic!("not refused")
    };
    assert!(message.contains("cannot be opened for writing"), "{message}");
}

#[tokio::test]
async fn damage_is_found() {
    let folder = Folder::new();
    let store = open(&folder.file(), &Options::default()).await.unwrap();
    store.submit(task(1)).await.unwrap().unwrap();
    assert!(store.check().await.unwrap().is_empty());
    let connection = rusqlite::Connection::open(folder.file()).unwrap();
    connection.execute("DELETE FROM events", []).unwrap();
    let findings = store.check().await.unwrap();
    assert_eq!(findings, ["the journal of ses_010101010101 should have 1 events and has 0"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn several_may_make_the_same_database_at_once() {
    let folder = Folder::new();
    let mut opening = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let path = folder.file();
        opening.spawn(async move { open(&path, &Options::default()).await });
    }
    while let Some(opened) = opening.join_next().await {
        opened.unwrap().unwrap().ping().await.unwrap();
    }
}

/// Says that a process is to write to a database until it is killed, and to which.
const WRITES_TO: &str = "SLIPFORM_TEST_WRITES_TO";

#[tokio::test]
async fn what_was_answered_survives_a_kill() {
    if let Ok(path) = std::env::var(WRITES_TO) {
        return write_until_killed(Path::new(&path)).await;
    }
    let folder = Folder::new();
    let mut writer = Command::new(std::env::current_exe().unwrap())
        .args(["what_was_answered_survives_a_kill", "--exact", "--nocapture"])
        .env(WRITES_TO, folder.file())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(writer.stdout.take().unwrap()).lines().map_while(Result::ok);
    let answered: Vec<String> =
        lines.filter_map(|line| line.strip_prefix("kept ").map(str::to_owned)).take(50).collect();
    writer.kill().unwrap();
    writer.wait().unwrap();
    assert_eq!(answered.len(), 50);
    // A process that was killed holds no lock.
    let store = open(&folder.file(), &EXCLUSIVE).await.unwrap();
    for name in &answered {
        assert!(store.named_one(RegistryKind::Agents, name).await.unwrap().is_some(), "{name} was lost");
    }
    assert!(store.check().await.unwrap().is_empty());
}

async fn write_until_killed(path: &Path) {
    let store = open(path, &EXCLUSIVE).await.unwrap();
    // Far more than are waited for: whoever started this ends it.
    for name in 0..100_000 {
        store.add(RegistryKind::Agents, &name.to_string(), "{}").await.unwrap();
        println!("\nkept {name}");
    }
}
