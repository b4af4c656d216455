//! SQLite files that are deleted, moved, replaced or linked while they are in use, and what a closed store leaves.

use std::path::{Path, PathBuf};

use slipform_store::{Error, Options, RegistryKind, Store};
use slipform_testkit::TestFolder;

const EXCLUSIVE: Options = Options { is_exclusive: true, connections: 1 };

async fn open(path: &Path, options: &Options) -> Result<Store, Error> {
    Store::open(&format!("sqlite:{}", path.display()), options).await
}

async fn add(store: &Store, name: &str) -> Result<bool, Error> {
    store.add(RegistryKind::Agents, name, "{}").await
}

/// Returns the paths of the database, its WAL and the WAL's index.
fn files(folder: &TestFolder) -> [PathBuf; 3] {
    ["", "-wal", "-shm"].map(|ending| folder.join(format!("slipform.db{ending}")))
}

fn expect_refused(written: Result<bool, Error>, path: &Path, reason: &str) {
    let Err(Error::Unavailable(message)) = written else { panic!("{}: {written:?}", path.display()) };
    assert!(message.contains(&format!("{} was {reason}", path.display())), "{message}");
}

#[tokio::test]
async fn write_is_refused_while_a_file_is_moved_away() {
    for index in 0..3 {
        let folder = TestFolder::new("moved");
        let path = &files(&folder)[index];
        let store = open(&files(&folder)[0], &EXCLUSIVE).await.unwrap();
        assert!(add(&store, "before").await.unwrap());
        std::fs::rename(path, folder.join("aside")).unwrap();
        expect_refused(add(&store, "during").await, path, "deleted or moved");
        assert!(store.ping().await.is_err());
        std::fs::rename(folder.join("aside"), path).unwrap();
        store.ping().await.unwrap();
        assert!(add(&store, "after").await.unwrap());
        drop(store);
        let again = open(&files(&folder)[0], &EXCLUSIVE).await.unwrap();
        let names: Vec<String> =
            again.entries(RegistryKind::Agents).await.unwrap().into_iter().map(|entry| entry.name).collect();
        assert_eq!(names, ["after", "before"], "{}", path.display());
    }
}

#[tokio::test]
async fn write_is_refused_after_a_file_was_deleted_or_replaced() {
    for index in 0..3 {
        for is_replaced in [false, true] {
            let folder = TestFolder::new("replaced");
            let path = &files(&folder)[index];
            let store = open(&files(&folder)[0], &EXCLUSIVE).await.unwrap();
            assert!(add(&store, "before").await.unwrap());
            if is_replaced {
                std::fs::copy(path, folder.join("other")).unwrap();
                std::fs::rename(folder.join("other"), path).unwrap();
            } else {
                std::fs::remove_file(path).unwrap();
            }
            let reason = if is_replaced { "replaced by another file" } else { "deleted or moved" };
            for name in ["first", "second"] {
                expect_refused(add(&store, name).await, path, reason);
                assert!(store.ping().await.is_err(), "{}", path.display());
            }
        }
    }
}

#[cfg(unix)]
#[tokio::test]
async fn locked_database_is_refused_through_links() {
    let folder = TestFolder::new("linked");
    let path = folder.join("slipform.db");
    let store = open(&path, &EXCLUSIVE).await.unwrap();
    let (symbolic, hard) = (folder.join("symbolic.db"), folder.join("hard.db"));
    std::os::unix::fs::symlink(&path, &symbolic).unwrap();
    std::fs::hard_link(&path, &hard).unwrap();
    for (link, options) in [(&symbolic, EXCLUSIVE), (&hard, EXCLUSIVE), (&hard, Options::default())] {
        let refused = open(link, &options).await;
        assert!(matches!(refused, Err(Error::Locked(_))), "{}: {refused:?}", link.display());
    }
    std::fs::remove_file(&hard).unwrap();
    let shared = open(&symbolic, &Options::default()).await.unwrap();
    assert!(add(&shared, "shared").await.unwrap() && !add(&store, "shared").await.unwrap());
    drop((shared, store));
    open(&symbolic, &EXCLUSIVE).await.expect("the lock is released");
}

#[cfg(unix)]
#[tokio::test]
async fn database_is_created_through_a_symbolic_link() {
    let folder = TestFolder::new("dangling");
    let (link, path) = (folder.join("link.db"), folder.join("slipform.db"));
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let store = open(&link, &EXCLUSIVE).await.unwrap();
    assert!(add(&store, "agent").await.unwrap());
    drop(store);
    assert!(
        open(&path, &EXCLUSIVE).await.unwrap().entry(RegistryKind::Agents, "agent").await.unwrap().is_some()
    );
}

#[cfg(unix)]
#[tokio::test]
async fn database_files_are_accessible_to_their_owner_only() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = TestFolder::new("modes");
    let path = folder.join("slipform.db");
    for is_tightened in [false, true] {
        let store = open(&path, &EXCLUSIVE).await.unwrap();
        assert!(add(&store, &is_tightened.to_string()).await.unwrap());
        for ending in ["", "-wal", "-shm", ".lock"] {
            let file = folder.join(format!("slipform.db{ending}"));
            assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600, "{}", file.display());
            std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o644)).unwrap();
        }
    }
}

#[tokio::test]
async fn closed_store_leaves_no_write_ahead_log() {
    let folder = TestFolder::new("closed");
    let path = folder.join("slipform.db");
    for name in ["first", "second"] {
        let store = open(&path, &EXCLUSIVE).await.unwrap();
        let clone = store.clone();
        assert!(add(&store, name).await.unwrap());
        store.close().await;
        let (_, wal, shm) = files(&folder).into();
        assert!(!wal.exists() && !shm.exists(), "the log and its index are deleted");
        assert!(matches!(add(&clone, "late").await, Err(Error::Unavailable(_))), "the store is closed");
    }
    let store = open(&path, &EXCLUSIVE).await.unwrap();
    assert_eq!(store.entries(RegistryKind::Agents).await.unwrap().len(), 2);
}
