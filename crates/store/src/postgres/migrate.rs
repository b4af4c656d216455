//! Bringing a PostgreSQL database up to date.

use super::link::Link;
use super::pool::Pool;
use crate::error::Error;
use crate::schema::{self, MIGRATIONS_POSTGRES};

/// The oldest version that knows transactions by 64-bit numbers.
const SERVER_VERSION_MIN: i64 = 130_000;

/// Brings the tables up to date. Other coordinators may start at the same time.
pub(crate) async fn migrate(pool: &Pool) -> Result<(), Error> {
    let (mut link, place) = pool.take().await?;
    let version = number(&mut link, "SELECT current_setting('server_version_num')::bigint").await?;
    if version < SERVER_VERSION_MIN {
        return Err(Error::Unsuitable(format!(
            "PostgreSQL 13 or newer is needed, and the server is of version {}",
            version / 10_000
        )));
    }
    link.run("BEGIN").await?;
    bring_up(&mut link).await?;
    link.run("COMMIT").await?;
    pool.give_back(link, place);
    Ok(())
}

async fn bring_up(link: &mut Link) -> Result<(), Error> {
    // One at a time: whoever comes second finds everything done. The number is that of Slipform alone.
    link.query("SELECT 1::bigint FROM pg_advisory_xact_lock(6010927317)", &[]).await?;
    if number(link, "SELECT count(to_regclass('schema_version'))").await? == 0 {
        let taken = "SELECT count(*) FROM pg_tables WHERE schemaname = current_schema()
                        AND tablename IN ('sessions', 'runs', 'events', 'callbacks', 'tokens', 'runners')";
        if number(link, taken).await? > 0 {
            return Err(schema::foreign());
        }
        link.run(schema::VERSION_TABLE).await?;
    }
    let version = number(link, "SELECT version FROM schema_version").await?;
    schema::check(version, MIGRATIONS_POSTGRES)?;
    for (number, sql) in schema::missing(version, MIGRATIONS_POSTGRES) {
        link.run(sql).await?;
        link.execute("UPDATE schema_version SET version = $1", &[number.into()]).await?;
    }
    // A database that was restored from a copy counts its transactions anew: what stands in it is older than them all.
    link.execute(
        "UPDATE events SET transaction_id = 0
         WHERE transaction_id >= pg_snapshot_xmax(pg_current_snapshot())::text::bigint",
        &[],
    )
    .await?;
    Ok(())
}

async fn number(link: &mut Link, sql: &'static str) -> Result<i64, Error> {
    link.query(sql, &[]).await?.into_iter().next().map_or(Ok(0), |mut row| row.integer())
}
