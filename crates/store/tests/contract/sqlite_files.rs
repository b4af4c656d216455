//! Behaviour specific to SQLite files: sharing, locking, and files that are refused.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use slipform_store::{
    ClaimRequest, Error, NewRun, Options, RegistryKind, SessionTarget, Store, SweepLimits, Swept,
};
use slipform_testkit::TestFolder;
use slipform_types::{RunId, RunStatus, SessionId};

use crate::support;

const EXCLUSIVE: Options = Options { is_exclusive: true, connections: 1 };

/// A temporary folder.
struct Folder(TestFolder);

impl Folder {
    fn new() -> Folder {
        Folder(TestFolder::new("sqlite"))
    }

    /// Returns the path of the database.
    fn file(&self) -> PathBuf {
        self.0.join("slipform.db")
    }
}

async fn open(path: &Path, options: &Options) -> Result<Store, Error> {
    Store::open(&format!("sqlite:{}", path.display()), options).await
}

/// A run whose ids consist of this byte.
fn task(byte: u8) -> NewRun {
    let session_id = SessionId::from_random([byte; 6]);
    NewRun {
        run_id: RunId::from_random([byte; 6]),
        session: SessionTarget::New { session_id, project_dir: None },
        ..support::task("writer")
    }
}

#[tokio::test]
async fn stores_sharing_a_file_notify_each_other() {
    let folder = Folder::new();
    let one = open(&folder.file(), &EXCLUSIVE).await.unwrap();
    let other = open(&folder.file(), &Options::default()).await.unwrap();
    let mut notifications = other.notifications();
    notifications.mark_unchanged();
    let submitted = one.submit(task(1)).await.unwrap().unwrap();
    tokio::time::timeout(Duration::from_secs(20), notifications.changed())
        .await
        .expect("a notification")
        .unwrap();
    let request = ClaimRequest {
        runner_id: "runner".to_owned(),
        slots: 1,
        lease_ms: 60_000,
        only_pinned: false,
        token: support::fresh_token(),
    };
    let claimed = other.claim(request).await.unwrap();
    assert_eq!(claimed[0].fence.run_id, submitted.run_id);
    // Both stores write concurrently, and neither write fails as busy.
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
    assert_eq!(one.entries(RegistryKind::Agents).await.unwrap().len(), 100);
}

#[tokio::test]
async fn second_exclusive_open_is_refused() {
    let folder = Folder::new();
    let first = open(&folder.file(), &EXCLUSIVE).await.unwrap();
    let Err(Error::Locked(message)) = open(&folder.file(), &EXCLUSIVE).await else { panic!("not refused") };
    assert!(message.contains("slipform.db.lock") && message.contains("slipform serve"), "{message}");
    drop(first);
    open(&folder.file(), &EXCLUSIVE).await.expect("the lock is released");
}

#[tokio::test]
async fn queued_writes_are_committed_when_store_is_dropped() {
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
    assert_eq!(again.entries(RegistryKind::Agents).await.unwrap().len(), 100);
}

#[tokio::test]
async fn damaged_run_does_not_stop_the_sweep() {
    let folder = Folder::new();
    let store = open(&folder.file(), &Options::default()).await.unwrap();
    let (damaged, sound) = (task(1), task(2));
    for new in [damaged.clone(), sound.clone()] {
        store.submit(new).await.unwrap().unwrap();
        let request = ClaimRequest {
            runner_id: "runner".to_owned(),
            slots: 1,
            lease_ms: -1,
            only_pinned: false,
            token: support::fresh_token(),
        };
        assert_eq!(store.claim(request).await.unwrap().len(), 1);
    }
    let connection = rusqlite::Connection::open(folder.file()).unwrap();
    let damage = "INSERT INTO events (session_id, seq, run_id, at, kind, body)
        SELECT session_id, 2, run_id, 0, 'message', '{\"event_type\":\"message\"' FROM runs WHERE run_id = ?1";
    assert_eq!(connection.execute(damage, [damaged.run_id.as_str()]).unwrap(), 1);
    let limits = SweepLimits { losses_max: 1, stop_wait_ms: 60_000, batch: 10 };
    assert_eq!(store.sweep(limits).await.unwrap(), Swept { lost: 1, ..Swept::default() });
    assert_eq!(store.run(&sound.run_id).await.unwrap().unwrap().status, RunStatus::Failed);
}

#[tokio::test]
async fn database_of_newer_version_is_refused() {
    let folder = Folder::new();
    drop(open(&folder.file(), &Options::default()).await.unwrap());
    let connection = rusqlite::Connection::open(folder.file()).unwrap();
    connection.execute("UPDATE schema_version SET version = 999", []).unwrap();
    let Err(Error::Unsuitable(message)) = open(&folder.file(), &Options::default()).await else {
        panic!("not refused")
    };
    assert!(message.contains("version 999") && message.contains("use a newer Slipform"), "{message}");
}

#[tokio::test]
async fn files_that_are_not_slipform_databases_are_refused() {
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
    assert!(message.contains("tables of another application"), "{message}");
    // A folder cannot be created below a file.
    let Err(Error::Unsuitable(message)) = open(&text.join("deep/slipform.db"), &EXCLUSIVE).await else {
        panic!("not refused")
    };
    assert!(message.contains("cannot create the database folder"), "{message}");
    let Err(Error::Unsuitable(message)) = open(folder.0.path(), &Options::default()).await else {
        panic!("not refused")
    };
    assert!(message.contains("cannot open the database"), "{message}");
}

#[tokio::test]
async fn check_reports_missing_events() {
    let folder = Folder::new();
    let store = open(&folder.file(), &Options::default()).await.unwrap();
    store.submit(task(1)).await.unwrap().unwrap();
    assert!(store.check().await.unwrap().is_empty());
    let connection = rusqlite::Connection::open(folder.file()).unwrap();
    connection.execute("DELETE FROM events", []).unwrap();
    let findings = store.check().await.unwrap();
    assert_eq!(findings, ["the journal of ses_010101010101 has 0 events, expected 1"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_opens_create_one_database() {
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

/// Set in the child process: the database to write to until it is killed.
const WRITES_TO: &str = "SLIPFORM_TEST_WRITES_TO";

#[tokio::test]
async fn acknowledged_writes_survive_a_kill() {
    if let Ok(path) = std::env::var(WRITES_TO) {
        return write_until_killed(Path::new(&path)).await;
    }
    let folder = Folder::new();
    let mut writer = Command::new(std::env::current_exe().unwrap())
        .args(["sqlite_files::acknowledged_writes_survive_a_kill", "--exact", "--nocapture"])
        .env(WRITES_TO, folder.file())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(writer.stdout.take().unwrap()).lines().map_while(Result::ok);
    let answered: Vec<String> =
        lines.filter_map(|line| line.strip_prefix("stored ").map(str::to_owned)).take(50).collect();
    writer.kill().unwrap();
    writer.wait().unwrap();
    assert_eq!(answered.len(), 50);
    // The system releases the lock of a killed process.
    let store = open(&folder.file(), &EXCLUSIVE).await.unwrap();
    for name in &answered {
        assert!(store.entry(RegistryKind::Agents, name).await.unwrap().is_some(), "{name} was lost");
    }
    assert!(store.check().await.unwrap().is_empty());
}

async fn write_until_killed(path: &Path) {
    let store = open(path, &EXCLUSIVE).await.unwrap();
    // Far more entries than the parent waits for; it kills this process.
    for name in 0..100_000 {
        store.add(RegistryKind::Agents, &name.to_string(), "{}").await.unwrap();
        println!("\nstored {name}");
    }
}
