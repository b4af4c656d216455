//! Whatever comes in between, nothing is lost and nothing is said twice.

use std::fs;
use std::io::Write as _;

use slipform_coordinator::Analytics;
use slipform_store::{Options, Store};

use crate::test_store::{TestStore, said, success, until};

pub(crate) async fn a_crash_before_the_position_is_kept_doubles_nothing(store_under_test: &TestStore) {
    store_under_test.completed("writer").await;
    store_under_test.written(1).await;
    let position = fs::read(store_under_test.position_file()).unwrap();
    store_under_test.troubles().await;
    store_under_test.written(4).await;
    let written = fs::read(store_under_test.file()).unwrap();
    fs::write(store_under_test.position_file(), &position).unwrap();
    store_under_test.analytics().catch_up().await;
    assert_eq!(fs::read(store_under_test.file()).unwrap(), written);
    assert_ne!(fs::read(store_under_test.position_file()).unwrap(), position);
    store_under_test.completed("writer").await;
    store_under_test.written(5).await;
}

pub(crate) async fn a_position_that_is_lost_doubles_nothing(store_under_test: &TestStore) {
    // More events than are read at once: what is known has to be known to the end.
    for _ in 0..2 {
        store_under_test.completed("writer").await;
        store_under_test.run("writer", vec![said(); 3_000], success(0)).await;
    }
    store_under_test.written(4).await;
    let written = fs::read(store_under_test.file()).unwrap();
    for lost in ["", "{\"transaction\":0,"] {
        fs::write(store_under_test.position_file(), lost).unwrap();
        store_under_test.analytics().catch_up().await;
        assert_eq!(fs::read(store_under_test.file()).unwrap(), written);
    }
}

pub(crate) async fn a_torn_line_is_written_again(store_under_test: &TestStore) {
    store_under_test.completed("writer").await;
    store_under_test.written(1).await;
    let position = fs::read(store_under_test.position_file()).unwrap();
    store_under_test.troubles().await;
    store_under_test.written(4).await;
    let written = fs::read(store_under_test.file()).unwrap();
    for torn in [written.len() - 1, written.len() - 40] {
        fs::OpenOptions::new()
            .write(true)
            .open(store_under_test.file())
            .unwrap()
            .set_len(torn as u64)
            .unwrap();
        fs::write(store_under_test.position_file(), &position).unwrap();
        store_under_test.analytics().catch_up().await;
        assert_eq!(fs::read(store_under_test.file()).unwrap(), written, "cut at {torn}");
    }
}

pub(crate) async fn a_folder_that_was_deleted_is_written_anew(store_under_test: &TestStore) {
    store_under_test.troubles().await;
    store_under_test.written(3).await;
    let written = fs::read(store_under_test.file()).unwrap();
    fs::remove_dir_all(store_under_test.folder()).unwrap();
    store_under_test.written(3).await;
    assert_eq!(fs::read(store_under_test.file()).unwrap(), written);
}

pub(crate) async fn sessions_that_were_deleted_are_no_trouble(store_under_test: &TestStore) {
    let first = store_under_test.completed("writer").await;
    let last = store_under_test.completed("writer").await;
    store_under_test.written(2).await;
    for session in [last, first] {
        store_under_test.store.delete_session(&session).await.unwrap().unwrap().unwrap();
        store_under_test.analytics().catch_up().await;
        assert_eq!(store_under_test.ends(), 2);
    }
    store_under_test.completed("writer").await;
    store_under_test.written(3).await;
}

pub(crate) async fn two_that_write_at_once_write_once(store_under_test: &TestStore) {
    let mut writers = Vec::new();
    for _ in 0..4 {
        let store = Store::open(&store_under_test.address, &Options::default()).await.unwrap();
        writers.push(Analytics::new(store, &store_under_test.folder(), &store_under_test.address));
    }
    for _ in 0..10 {
        for _ in 0..3 {
            store_under_test.completed("writer").await;
        }
        let mut writing = tokio::task::JoinSet::new();
        for writer in writers.clone() {
            writing.spawn(async move { writer.catch_up().await });
        }
        writing.join_all().await;
    }
    store_under_test.written(30).await;
}

pub(crate) async fn a_folder_that_cannot_be_written_hurts_nobody(store_under_test: &TestStore) {
    let folder = store_under_test.folder();
    fs::create_dir_all(folder.parent().unwrap()).unwrap();
    fs::File::create(&folder).unwrap().write_all(b"in the way").unwrap();
    store_under_test.completed("writer").await;
    let analytics = store_under_test.analytics();
    analytics.catch_up().await;
    assert_eq!(fs::read(&folder).unwrap(), b"in the way");
    fs::remove_file(&folder).unwrap();
    store_under_test.written(1).await;
}

pub(crate) async fn another_database_of_the_same_address_is_told_of(store_under_test: &TestStore) {
    store_under_test.troubles().await;
    store_under_test.written(3).await;
    let (store, address) =
        (Store::open("sqlite::memory:", &Options::default()).await.unwrap(), &store_under_test.address);
    let other = TestStore::over(store, address, &store_under_test.folder());
    other.completed("writer").await;
    other.written(4).await;
}

pub(crate) async fn what_happens_is_written_in_the_background(store_under_test: &TestStore) {
    let analytics = store_under_test.analytics();
    let writing = tokio::spawn(async move { analytics.run().await });
    for runs in 1..=2 {
        store_under_test.completed("writer").await;
        until("it is written", || async { store_under_test.ends() == runs }).await;
    }
    writing.abort();
}
