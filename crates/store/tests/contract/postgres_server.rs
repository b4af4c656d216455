//! Behaviour specific to a PostgreSQL server: restarts, and several stores on one database.

use std::time::Duration;

use slipform_store::{Error, Options, RegistryKind, Store};
use slipform_testkit::{PostgresServer, execute, wait_until};

use crate::support::connect;

#[tokio::test(flavor = "multi_thread")]
async fn store_survives_server_restart() {
    let Some(server) = PostgresServer::start() else { return };
    let (address, options) = (server.create_database("restarts"), Options::default());
    // Concurrent opens create the tables once.
    let (store, other) = tokio::join!(Store::open(&address, &options), Store::open(&address, &options));
    let (store, other) = (store.unwrap(), other.unwrap());
    assert!(store.add(RegistryKind::Agents, "before", "{}").await.unwrap());

    server.crash();
    let asked = tokio::time::timeout(Duration::from_secs(30), store.ping()).await.expect("a response");
    assert!(matches!(asked, Err(Error::Unavailable(_))), "{asked:?}");
    assert!(matches!(other.entries(RegistryKind::Agents).await, Err(Error::Unavailable(_))));

    server.restart();
    assert!(store.add(RegistryKind::Agents, "after", "{}").await.unwrap());
    assert_eq!(other.entries(RegistryKind::Agents).await.unwrap().len(), 2);

    // Connections that died unnoticed are replaced within the same call.
    server.crash();
    server.restart();
    assert_eq!(store.entries(RegistryKind::Agents).await.unwrap().len(), 2);

    let unknown_database = address.replace("/restarts", "/x");
    assert!(matches!(Store::open(&unknown_database, &options).await, Err(Error::Unsuitable(_))));
    assert_newer_is_refused(&address).await;
}

async fn assert_newer_is_refused(address: &str) {
    execute(address, "UPDATE schema_version SET version = 999").await;
    let refused = Store::open(address, &Options::default()).await;
    assert!(
        matches!(&refused, Err(Error::Unsuitable(message)) if message.contains("version 999")),
        "{refused:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn unreachable_server_fails_quickly() {
    let begun = std::time::Instant::now();
    let refused = Store::open("postgres://postgres@127.0.0.1:1/postgres", &Options::default()).await;
    assert!(matches!(refused, Err(Error::Unavailable(_))), "{refused:?}");
    assert!(begun.elapsed() < Duration::from_secs(10));
    let wrong = Store::open("postgres://host:notaport/x", &Options::default()).await;
    assert!(matches!(wrong, Err(Error::Address(_))), "{wrong:?}");
}

/// Adds this many entries at once, and returns the errors.
async fn add_concurrently(store: &Store, prefix: &str, count: usize) -> Vec<Error> {
    let tasks: Vec<_> = (0..count)
        .map(|number| {
            let (store, name) = (store.clone(), format!("{prefix}-{number}"));
            tokio::spawn(async move { store.add(RegistryKind::Agents, &name, "{}").await })
        })
        .collect();
    let mut errors = Vec::new();
    for task in tasks {
        errors.extend(task.await.unwrap().err());
    }
    errors
}

#[tokio::test(flavor = "multi_thread")]
async fn pool_of_one_connection_serves_concurrent_operations_and_notifies() {
    let Some(server) = PostgresServer::start() else { return };
    let (address, options) =
        (server.create_database("one"), Options { connections: 1, ..Options::default() });
    let store = Store::open(&address, &options).await.unwrap();
    let other = Store::open(&address, &options).await.unwrap();
    let mut notifications = other.notifications();
    assert!(add_concurrently(&store, "one", 60).await.is_empty());
    assert_eq!(other.entries(RegistryKind::Agents).await.unwrap().len(), 60);
    notifications.changed().await.unwrap();
    let count = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'slipform'";
    let connections: u32 = server.query(&address, count)[0][0].parse().unwrap();
    assert!(
        connections <= 6,
        "two pools of one and two connections for notifications each, not {connections}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn connection_limit_of_the_server_delays_operations_instead_of_failing_them() {
    let Some(server) = PostgresServer::start() else { return };
    let address = server.create_database("limited");
    let limited = server.create_user("one", "not-checked", &address).replace("one@", "one:not-checked@");
    server.query(&address, "ALTER ROLE one CONNECTION LIMIT 1");
    let store = Store::open(&limited, &Options::default()).await.unwrap();
    let errors = add_concurrently(&store, "limited", 60).await;
    assert!(errors.is_empty(), "{errors:?}");

    // The listener must not keep the only connection when all of them have to be opened again.
    for round in 0..3 {
        server.crash();
        server.restart();
        let errors = add_concurrently(&store, &format!("round-{round}"), 20).await;
        assert!(errors.is_empty(), "{errors:?}");
    }
    assert_eq!(store.entries(RegistryKind::Agents).await.unwrap().len(), 120);
}

#[tokio::test(flavor = "multi_thread")]
async fn store_opens_when_another_program_frees_a_connection() {
    let Some(server) = PostgresServer::start() else { return };
    let address = server.create_database("taken");
    let limited = server.create_user("one", "not-checked", &address).replace("one@", "one:not-checked@");
    server.query(&address, "ALTER ROLE one CONNECTION LIMIT 1");
    let (other, connection) = connect(&limited).await;
    let opening = tokio::spawn(async move { Store::open(&limited, &Options::default()).await });
    wait_until("the server has refused a connection", || server.log_text().contains("too many connections"));
    drop(other);
    connection.await.unwrap();
    opening.await.unwrap().unwrap().ping().await.unwrap();
}
