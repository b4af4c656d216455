//! Copies of SQLite databases, and the space of deleted rows.

use std::path::Path;

use slipform_store::{Error, Options, RegistryKind, Store, backup};
use slipform_testkit::TestFolder;

/// Size of an entry of the registry.
const ENTRY_BYTES: usize = 64 * 1024;

/// Number of entries, so that they exceed the space that a database keeps for itself.
const ENTRIES: usize = 200;

fn address(path: &Path) -> String {
    format!("sqlite:{}", path.display())
}

async fn open(path: &Path) -> Store {
    Store::open(&address(path), &Options { is_exclusive: true, ..Options::default() }).await.unwrap()
}

async fn fill(store: &Store) {
    for number in 0..ENTRIES {
        store.add(RegistryKind::Agents, &number.to_string(), &"x".repeat(ENTRY_BYTES)).await.unwrap();
    }
}

async fn empty(store: &Store) {
    for number in 0..ENTRIES {
        assert!(store.remove(RegistryKind::Agents, &number.to_string()).await.unwrap());
    }
}

fn size(path: &Path) -> u64 {
    path.metadata().unwrap().len()
}

#[tokio::test]
async fn space_of_deleted_rows_is_returned() {
    let folder = TestFolder::new("space");
    let path = folder.join("slipform.db");
    let store = open(&path).await;
    fill(&store).await;
    store.close().await;
    let full = size(&path);
    assert!(full > (ENTRIES * ENTRY_BYTES) as u64);
    let store = open(&path).await;
    empty(&store).await;
    store.release_space().await.unwrap();
    assert!(size(&path) < full / 2, "{} of {full} bytes", size(&path));
    assert!(store.check().await.unwrap().is_empty());
}

#[tokio::test]
async fn copy_of_old_database_can_return_space() {
    let folder = TestFolder::new("old");
    let (path, copy) = (folder.join("slipform.db"), folder.join("copy.db"));
    // Earlier versions did not set `auto_vacuum`.
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection.execute_batch("CREATE TABLE t (x); DROP TABLE t").unwrap();
    drop(connection);
    let store = open(&path).await;
    fill(&store).await;
    backup(&address(&path), &copy).await.unwrap();
    let store = open(&copy).await;
    let full = size(&copy);
    empty(&store).await;
    store.release_space().await.unwrap();
    assert!(size(&copy) < full / 2, "{} of {full} bytes", size(&copy));
}

#[tokio::test]
async fn backup_is_a_private_copy_under_a_new_name() {
    let folder = TestFolder::new("backup");
    let (path, copy) = (folder.join("slipform.db"), folder.join("copy.db"));
    let store = open(&path).await;
    assert!(store.add(RegistryKind::Agents, "before", "{}").await.unwrap());
    backup(&address(&path), &copy).await.unwrap();
    assert!(store.add(RegistryKind::Agents, "after", "{}").await.unwrap());
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        assert_eq!(copy.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
    let Err(Error::Unsuitable(message)) = backup(&address(&path), &copy).await else { panic!("not refused") };
    assert!(message.contains("already exists"), "{message}");
    let restored = open(&copy).await;
    let names: Vec<String> =
        restored.entries(RegistryKind::Agents).await.unwrap().into_iter().map(|entry| entry.name).collect();
    assert_eq!(names, ["before"]);
    assert!(restored.check().await.unwrap().is_empty());
    drop((store, restored));
    let mut files: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
    files.sort();
    assert_eq!(files, ["copy.db", "copy.db.lock", "slipform.db", "slipform.db.lock"], "no file is left over");
}

#[tokio::test]
async fn databases_that_cannot_be_copied_are_refused() {
    let folder = TestFolder::new("refused");
    let other = folder.join("other.db");
    rusqlite::Connection::open(&other).unwrap().execute_batch("CREATE TABLE songs (name TEXT)").unwrap();
    for (address, expected) in [
        (address(&folder.join("missing.db")), "no database at"),
        (address(&other), "tables of another application"),
        ("sqlite::memory:".to_owned(), "in memory"),
        (
            "postgres://me:secret@host/runs".to_owned(),
            "pg_dump --format=custom --file=copy.db postgres://me@host:5432/runs",
        ),
    ] {
        let Err(Error::Unsuitable(message)) = backup(&address, Path::new("copy.db")).await else {
            panic!("{address} is not refused")
        };
        assert!(message.contains(expected) && !message.contains("secret"), "{message}");
    }
    assert!(!folder.join("missing.db").exists() && !Path::new("copy.db").exists());
}
