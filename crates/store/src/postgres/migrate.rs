//! Migrates a PostgreSQL database.

use super::connection::PostgresConnection;
use super::pool::Pool;
use crate::error::Error;
use crate::schema::{self, MIGRATIONS_POSTGRES};

/// PostgreSQL 13 introduced 64-bit transaction ids (`xid8`).
const SERVER_VERSION_MIN: i64 = 130_000;

/// Applies the missing migrations. Other coordinators may start concurrently.
pub(crate) async fn migrate(pool: &Pool) -> Result<(), Error> {
    let (mut connection, permit) = pool.acquire().await?;
    let version = number(&mut connection, "SELECT current_setting('server_version_num')::bigint").await?;
    if version < SERVER_VERSION_MIN {
        return Err(Error::Unsuitable(format!(
            "PostgreSQL 13 or newer is required, the server has version {}",
            version / 10_000
        )));
    }
    connection.run("BEGIN").await?;
    bring_up(&mut connection).await?;
    connection.run("COMMIT").await?;
    pool.release(connection, permit);
    Ok(())
}

async fn bring_up(connection: &mut PostgresConnection) -> Result<(), Error> {
    // The advisory lock serializes concurrent migrations. Its number is arbitrary and specific to Slipform.
    connection.query("SELECT 1::bigint FROM pg_advisory_xact_lock(6010927317)", &[]).await?;
    if number(connection, "SELECT count(to_regclass('schema_version'))").await? == 0 {
        let taken = "SELECT count(*) FROM pg_tables WHERE schemaname = current_schema()
                        AND tablename IN ('sessions', 'runs', 'events', 'callbacks', 'tokens', 'runners')";
        if number(connection, taken).await? > 0 {
            return Err(schema::foreign_tables());
        }
        connection.run(schema::VERSION_TABLE).await?;
    }
    let version = number(connection, "SELECT version FROM schema_version").await?;
    schema::check(version, MIGRATIONS_POSTGRES)?;
    for (number, sql) in schema::pending(version, MIGRATIONS_POSTGRES) {
        connection.run(sql).await?;
        connection.execute("UPDATE schema_version SET version = $1", &[number.into()]).await?;
    }
    // A database restored from a dump restarts its transaction ids, so stored events can carry ids from the
    // future. Set those to 0, which sorts them first.
    connection
        .execute(
            "UPDATE events SET transaction_id = 0
         WHERE transaction_id >= pg_snapshot_xmax(pg_current_snapshot())::text::bigint",
            &[],
        )
        .await?;
    Ok(())
}

async fn number(connection: &mut PostgresConnection, sql: &'static str) -> Result<i64, Error> {
    connection.query(sql, &[]).await?.into_iter().next().map_or(Ok(0), |mut row| row.integer())
}
