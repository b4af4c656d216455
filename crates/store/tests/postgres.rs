//! Behaviour specific to a PostgreSQL server: restarts, and several stores on one database.
//!
//! The tests start and stop their own server. They need `initdb` and `pg_ctl` (in
//! `SLIPFORM_TEST_POSTGRES_BIN` or at Debian's path) and a user other than root to run them.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]
#![allow(clippy::print_stdout, reason = "reports skipped tests")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use slipform_store::{Error, Options, RegistryKind, Store};

/// A PostgreSQL server for one test.
struct Server {
    programs: PathBuf,
    folder: PathBuf,
    port: u16,
}

impl Server {
    /// Returns `None` if PostgreSQL is not installed.
    fn new() -> Option<Server> {
        let skip = |why: &str| println!("SKIPPED: {why}");
        if std::env::var_os("SLIPFORM_TEST_POSTGRES").is_none() {
            skip("SLIPFORM_TEST_POSTGRES is not set");
            return None;
        }
        let Some(programs) = programs() else {
            skip("`initdb` not found; set SLIPFORM_TEST_POSTGRES_BIN to its folder");
            return None;
        };
        let folder = std::env::temp_dir().join(format!("slipform-postgres-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let server = Server { programs, folder, port: free };
        if is_root() {
            assert!(Command::new("chown").arg("postgres").arg(&server.folder).status().unwrap().success());
        }
        server.run("initdb", &format!("-A trust -U postgres -D {}", server.data()));
        server.start();
        Some(server)
    }

    fn address(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    fn data(&self) -> String {
        self.folder.join("data").display().to_string()
    }

    fn start(&self) {
        let options = format!(
            "-p {} -c listen_addresses=127.0.0.1 -c unix_socket_directories={}",
            self.port,
            self.folder.display()
        );
        let log = self.folder.join("log");
        self.run("pg_ctl", &format!("-D {} -l {} -w -o '{options}' start", self.data(), log.display()));
    }

    /// Stops the server without a clean shutdown, like a power failure.
    fn kill(&self) {
        self.run("pg_ctl", &format!("-D {} -m immediate -w stop", self.data()));
    }

    fn run(&self, program: &str, arguments: &str) {
        let line = format!("{} {arguments} >/dev/null 2>&1", self.programs.join(program).display());
        let status = if is_root() {
            Command::new("su").args(["postgres", "-s", "/bin/sh", "-c", &line]).status()
        } else {
            Command::new("sh").args(["-c", &line]).status()
        };
        assert!(status.unwrap().success(), "{line}");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.folder.join("data/postmaster.pid").exists() {
            self.kill();
        }
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn is_root() -> bool {
    Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout.starts_with(b"0\n"))
}

fn programs() -> Option<PathBuf> {
    let named = std::env::var_os("SLIPFORM_TEST_POSTGRES_BIN").map(PathBuf::from);
    let debian = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = debian.map(|entry| entry.path().join("bin")).collect();
    found.sort();
    named.into_iter().chain(found.into_iter().rev()).find(|folder| Path::new(folder).join("initdb").exists())
}

#[tokio::test(flavor = "multi_thread")]
async fn store_survives_server_restart() {
    let Some(server) = Server::new() else { return };
    let (address, options) = (server.address(), Options::default());
    // Concurrent opens create the tables once.
    let (store, other) = tokio::join!(Store::open(&address, &options), Store::open(&address, &options));
    let (store, other) = (store.unwrap(), other.unwrap());
    assert!(store.add(RegistryKind::Agents, "before", "{}").await.unwrap());

    server.kill();
    let asked = tokio::time::timeout(Duration::from_secs(30), store.ping()).await.expect("a response");
    assert!(matches!(asked, Err(Error::Unavailable(_))), "{asked:?}");
    assert!(matches!(other.entries(RegistryKind::Agents).await, Err(Error::Unavailable(_))));

    server.start();
    assert!(store.add(RegistryKind::Agents, "after", "{}").await.unwrap());
    assert_eq!(other.entries(RegistryKind::Agents).await.unwrap().len(), 2);

    // Connections that died unnoticed are replaced within the same call.
    server.kill();
    server.start();
    assert_eq!(store.entries(RegistryKind::Agents).await.unwrap().len(), 2);

    let unknown_database = address.replace("/postgres", "/x").replace("//x@", "//postgres@");
    assert!(matches!(Store::open(&unknown_database, &options).await, Err(Error::Unsuitable(_))));
    assert_newer_is_refused(&address).await;
}

async fn assert_newer_is_refused(address: &str) {
    let (client, connection) = tokio_postgres::connect(address, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute("UPDATE schema_version SET version = 999").await.unwrap();
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
