//! Interruptions lose no line and duplicate none.

use std::fs;
use std::io::Write as _;

use slipform_coordinator::Analytics;
use slipform_store::{Options, Store};
use slipform_testkit::wait_until_async;

use crate::support::{Fixture, reply, success};

pub(crate) async fn crash_before_cursor_is_stored_duplicates_nothing(test: &Fixture) {
    test.completed("writer").await;
    test.write_until(1).await;
    let position = fs::read(test.position_file()).unwrap();
    test.run_with_failures().await;
    test.write_until(4).await;
    let written = fs::read(test.file()).unwrap();
    fs::write(test.position_file(), &position).unwrap();
    test.analytics().catch_up().await;
    assert_eq!(fs::read(test.file()).unwrap(), written);
    assert_ne!(fs::read(test.position_file()).unwrap(), position);
    test.completed("writer").await;
    test.write_until(5).await;
}

pub(crate) async fn lost_cursor_duplicates_nothing(test: &Fixture) {
    // More events than one batch, so existing lines must be recognized across batches.
    for _ in 0..2 {
        test.completed("writer").await;
        test.run("writer", vec![reply(); 3_000], success(0)).await;
    }
    test.write_until(4).await;
    let written = fs::read(test.file()).unwrap();
    for lost in ["", "{\"transaction\":0,"] {
        fs::write(test.position_file(), lost).unwrap();
        test.analytics().catch_up().await;
        assert_eq!(fs::read(test.file()).unwrap(), written);
    }
}

pub(crate) async fn incomplete_line_is_rewritten(test: &Fixture) {
    test.completed("writer").await;
    test.write_until(1).await;
    let position = fs::read(test.position_file()).unwrap();
    test.run_with_failures().await;
    test.write_until(4).await;
    let written = fs::read(test.file()).unwrap();
    for torn in [written.len() - 1, written.len() - 40] {
        fs::OpenOptions::new().write(true).open(test.file()).unwrap().set_len(torn as u64).unwrap();
        fs::write(test.position_file(), &position).unwrap();
        test.analytics().catch_up().await;
        assert_eq!(fs::read(test.file()).unwrap(), written, "cut at {torn}");
    }
}

pub(crate) async fn deleted_folder_is_rebuilt(test: &Fixture) {
    test.run_with_failures().await;
    test.write_until(3).await;
    let written = fs::read(test.file()).unwrap();
    fs::remove_dir_all(test.folder()).unwrap();
    test.write_until(3).await;
    assert_eq!(fs::read(test.file()).unwrap(), written);
}

pub(crate) async fn deleted_sessions_do_not_break_the_cursor(test: &Fixture) {
    let first = test.completed("writer").await;
    let last = test.completed("writer").await;
    test.write_until(2).await;
    for session in [last, first] {
        test.store.delete_session(&session).await.unwrap().unwrap().unwrap();
        test.analytics().catch_up().await;
        assert_eq!(test.ended_runs(), 2);
    }
    test.completed("writer").await;
    test.write_until(3).await;
}

pub(crate) async fn concurrent_writers_write_each_line_once(test: &Fixture) {
    let mut writers = Vec::new();
    for _ in 0..4 {
        let store = Store::open(&test.address, &Options::default()).await.unwrap();
        writers.push(Analytics::new(store, &test.folder(), &test.address));
    }
    for _ in 0..10 {
        for _ in 0..3 {
            test.completed("writer").await;
        }
        let mut writing = tokio::task::JoinSet::new();
        for writer in writers.clone() {
            writing.spawn(async move { writer.catch_up().await });
        }
        writing.join_all().await;
    }
    test.write_until(30).await;
}

pub(crate) async fn unwritable_folder_is_retried(test: &Fixture) {
    let folder = test.folder();
    fs::create_dir_all(folder.parent().unwrap()).unwrap();
    fs::File::create(&folder).unwrap().write_all(b"in the way").unwrap();
    test.completed("writer").await;
    let analytics = test.analytics();
    analytics.catch_up().await;
    assert_eq!(fs::read(&folder).unwrap(), b"in the way");
    fs::remove_file(&folder).unwrap();
    test.write_until(1).await;
}

pub(crate) async fn new_database_at_same_address_is_written(test: &Fixture) {
    test.run_with_failures().await;
    test.write_until(3).await;
    let (store, address) =
        (Store::open("sqlite::memory:", &Options::default()).await.unwrap(), &test.address);
    let other = Fixture::replacing(store, address, &test.folder());
    other.completed("writer").await;
    other.write_until(4).await;
}

pub(crate) async fn run_writes_lines_in_background(test: &Fixture) {
    let analytics = test.analytics();
    let writing = tokio::spawn(async move { analytics.run().await });
    for runs in 1..=2 {
        test.completed("writer").await;
        wait_until_async("the line is written", || async { test.ended_runs() == runs }).await;
    }
    writing.abort();
}
