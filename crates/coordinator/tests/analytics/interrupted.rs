//! Whatever comes in between, nothing is lost and nothing is said twice.

use std::fs;
use std::io::Write as _;

use slipform_coordinator::Analytics;
use slipform_store::{Options, Store};

use crate::world::{World, said, success, until};

pub(crate) async fn a_crash_before_the_position_is_kept_doubles_nothing(world: &World) {
    world.completed("writer").await;
    world.written(1).await;
    let position = fs::read(world.position_file()).unwrap();
    world.troubles().await;
    world.written(4).await;
    let written = fs::read(world.file()).unwrap();
    fs::write(world.position_file(), &position).unwrap();
    world.analytics().catch_up().await;
    assert_eq!(fs::read(world.file()).unwrap(), written);
    assert_ne!(fs::read(world.position_file()).unwrap(), position);
    world.completed("writer").await;
    world.written(5).await;
}

pub(crate) async fn a_position_that_is_lost_doubles_nothing(world: &World) {
    // More events than are read at once: what is known has to be known to the end.
    for _ in 0..2 {
        world.completed("writer").await;
        world.run("writer", vec![said(); 3_000], success(0)).await;
    }
    world.written(4).await;
    let written = fs::read(world.file()).unwrap();
    for lost in ["", "{\"transaction\":0,"] {
        fs::write(world.position_file(), lost).unwrap();
        world.analytics().catch_up().await;
        assert_eq!(fs::read(world.file()).unwrap(), written);
    }
}

pub(crate) async fn a_torn_line_is_written_again(world: &World) {
    world.completed("writer").await;
    world.written(1).await;
    let position = fs::read(world.position_file()).unwrap();
    world.troubles().await;
    world.written(4).await;
    let written = fs::read(world.file()).unwrap();
    for torn in [written.len() - 1, written.len() - 40] {
        fs::OpenOptions::new().write(true).open(world.file()).unwrap().set_len(torn as u64).unwrap();
        fs::write(world.position_file(), &position).unwrap();
        world.analytics().catch_up().await;
        assert_eq!(fs::read(world.file()).unwrap(), written, "cut at {torn}");
    }
}

pub(crate) async fn a_folder_that_was_deleted_is_written_anew(world: &World) {
    world.troubles().await;
    world.written(3).await;
    let written = fs::read(world.file()).unwrap();
    fs::remove_dir_all(world.folder()).unwrap();
    world.written(3).await;
    assert_eq!(fs::read(world.file()).unwrap(), written);
}

pub(crate) async fn sessions_that_were_deleted_are_no_trouble(world: &World) {
    let first = world.completed("writer").await;
    let last = world.completed("writer").await;
    world.written(2).await;
    for session in [last, first] {
        world.store.delete_session(&session).await.unwrap().unwrap().unwrap();
        world.analytics().catch_up().await;
        assert_eq!(world.ends(), 2);
    }
    world.completed("writer").await;
    world.written(3).await;
}

pub(crate) async fn two_that_write_at_once_write_once(world: &World) {
    let mut writers = Vec::new();
    for _ in 0..4 {
        let store = Store::open(&world.address, &Options::default()).await.unwrap();
        writers.push(Analytics::new(store, &world.folder(), &world.address));
    }
    for _ in 0..10 {
        for _ in 0..3 {
            world.completed("writer").await;
        }
        let mut writing = tokio::task::JoinSet::new();
        for writer in writers.clone() {
            writing.spawn(async move { writer.catch_up().await });
        }
        writing.join_all().await;
    }
    world.written(30).await;
}

pub(crate) async fn a_folder_that_cannot_be_written_hurts_nobody(world: &World) {
    let folder = world.folder();
    fs::create_dir_all(folder.parent().unwrap()).unwrap();
    fs::File::create(&folder).unwrap().write_all(b"in the way").unwrap();
    world.completed("writer").await;
    let analytics = world.analytics();
    analytics.catch_up().await;
    assert_eq!(fs::read(&folder).unwrap(), b"in the way");
    fs::remove_file(&folder).unwrap();
    world.written(1).await;
}

pub(crate) async fn another_database_of_the_same_address_is_told_of(world: &World) {
    world.troubles().await;
    world.written(3).await;
    let (store, address) =
        (Store::open("sqlite::memory:", &Options::default()).await.unwrap(), &world.address);
    let other = World::over(store, address, &world.folder());
    other.completed("writer").await;
    other.written(4).await;
}

pub(crate) async fn what_happens_is_written_in_the_background(world: &World) {
    let analytics = world.analytics();
    let writing = tokio::spawn(async move { analytics.run().await });
    for runs in 1..=2 {
        world.completed("writer").await;
        until("it is written", || async { world.ends() == runs }).await;
    }
    writing.abort();
}
