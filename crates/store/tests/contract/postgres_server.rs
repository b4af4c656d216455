//! Behaviour specific to a PostgreSQL server: restarts, and several stores on one database.

use std::time::Duration;

use slipform_store::{Error, Options, RegistryKind, Store};
use slipform_testkit::{PostgresServer, execute};

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
