//! A store with its own database.

use std::path::Path;

use slipform_store::{Options, Store};
use tokio_postgres::NoTls;

use crate::folder::{TestFolder, unique_number};

/// The variable with the address of a PostgreSQL server that allows creating databases, such as
/// `postgres://postgres@127.0.0.1:5432/postgres`.
const SERVER_VARIABLE: &str = "SLIPFORM_TEST_POSTGRES";

/// An open store on a database that no other test uses. Dropping it deletes the database.
#[derive(Debug)]
pub struct TestStore {
    /// The open store.
    pub store: Store,
    /// The address of the database, to open it again.
    pub address: String,
    _database: Database,
}

/// What to delete after the test.
#[derive(Debug)]
enum Database {
    Memory,
    Folder { _folder: TestFolder },
    Postgres { server: String, name: String },
}

impl TestStore {
    /// Opens a database in memory.
    pub async fn memory() -> TestStore {
        TestStore::open("sqlite::memory:".to_owned(), Database::Memory).await
    }

    /// Opens a database in a SQLite file whose folder does not exist yet.
    pub async fn sqlite() -> TestStore {
        TestStore::sqlite_after(|_| {}).await
    }

    /// Opens a SQLite file after `prepare` has had the chance to create it.
    pub async fn sqlite_after(prepare: impl FnOnce(&Path)) -> TestStore {
        let folder = TestFolder::new("store");
        let file = folder.join("deep/slipform.db");
        prepare(&file);
        TestStore::open(format!("sqlite:{}", file.display()), Database::Folder { _folder: folder }).await
    }

    /// Opens a database on the PostgreSQL server in `SLIPFORM_TEST_POSTGRES`; `None`, with a printed notice, if the
    /// variable is not set.
    pub async fn postgres() -> Option<TestStore> {
        TestStore::postgres_after(|_| async {}).await
    }

    /// Opens a PostgreSQL database after `prepare` has filled it.
    #[expect(clippy::print_stdout, reason = "reports skipped tests")]
    pub async fn postgres_after<F: Future<Output = ()>>(
        prepare: impl FnOnce(String) -> F,
    ) -> Option<TestStore> {
        let Ok(server) = std::env::var(SERVER_VARIABLE) else {
            println!("SKIPPED: {SERVER_VARIABLE} is not set");
            return None;
        };
        let name = format!("slipform_{:x}", unique_number());
        execute(&server, &format!("CREATE DATABASE {name}")).await;
        let (host, _) = server.rsplit_once('/').expect("the address names a database");
        let (address, database) = (format!("{host}/{name}"), Database::Postgres { server, name });
        prepare(address.clone()).await;
        Some(TestStore::open(address, database).await)
    }

    async fn open(address: String, database: Database) -> TestStore {
        let store = Store::open(&address, &Options::default()).await.expect("a store");
        TestStore { store, address, _database: database }
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let Database::Postgres { server, name } = self else { return };
        let (server, sql) = (server.clone(), format!("DROP DATABASE {name} WITH (FORCE)"));
        // The runtime of the test cannot wait here, and may already have stopped.
        let dropping = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(execute(&server, &sql));
        });
        // The panic was already reported; a second one here would abort the test process.
        let _ = dropping.join();
    }
}

/// Executes statements on a PostgreSQL database, over a connection of their own.
pub async fn execute(address: &str, sql: &str) {
    let (client, connection) = tokio_postgres::connect(address, NoTls).await.expect("a PostgreSQL server");
    let connection = tokio::spawn(async move { drop(connection.await) });
    client.batch_execute(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    drop(client);
    let _ = connection.await;
}

/// Defines a test for each case and each database: `MODULE::CASE(&FIXTURE)`, where the fixture is made from a
/// [`TestStore`]. The databases are `memory`, `sqlite` and `postgres`.
///
/// ```text
/// on_each_database!(TestStore, [sqlite, postgres], {
///     submit:
///         new_run_has_session_and_run_start
///         busy_session_refuses_or_queues_run;
/// });
/// ```
#[macro_export]
macro_rules! on_each_database {
    ($fixture:ty, [$($database:ident),+], $cases:tt) => {
        $($crate::on_database!($fixture, $database, $cases);)+
    };
}

/// Defines the tests of [`on_each_database!`] for one database.
#[doc(hidden)]
#[macro_export]
macro_rules! on_database {
    ($fixture:ty, $database:ident, { $($file:ident: $($case:ident)+;)+ }) => {
        mod $database {
            $($(#[tokio::test(flavor = "multi_thread")]
            async fn $case() {
                // PostgreSQL may be missing.
                let store = Option::<$crate::TestStore>::from($crate::TestStore::$database().await);
                if let Some(store) = store {
                    super::$file::$case(&<$fixture>::from(store)).await;
                }
            })+)+
        }
    };
}
