//! Health and consistency checks.

use crate::error::Error;
use crate::tx::{Connection, Tx};

/// Runs an update without effect, because a read-only database is not usable.
pub(crate) async fn ping(tx: &mut Tx) -> Result<(), Error> {
    tx.execute("UPDATE schema_version SET version = version", &[]).await?;
    Ok(())
}

/// The registry's kind of [`write_probe`]. No list shows it.
const PROBE_KIND: &str = "probe";

/// Stores a text, to find out whether the database has space.
pub(crate) async fn write_probe(tx: &mut Tx, text: &String) -> Result<(), Error> {
    delete_probe(tx).await?;
    tx.execute(
        "INSERT INTO registry (kind, name, text, created_at, updated_at) VALUES ($1, $1, $2, {now}, {now})",
        &[PROBE_KIND.into(), text.into()],
    )
    .await?;
    Ok(())
}

/// Deletes the text of [`write_probe`].
pub(crate) async fn delete_probe(tx: &mut Tx) -> Result<(), Error> {
    tx.execute("DELETE FROM registry WHERE kind = $1", &[PROBE_KIND.into()]).await?;
    Ok(())
}

/// Returns one message per problem: SQLite's integrity check, and journals with missing events.
pub(crate) async fn check(tx: &mut Tx) -> Result<Vec<String>, Error> {
    let mut found = Vec::new();
    if matches!(tx.connection, Connection::Sqlite(_)) {
        for mut row in tx.query("PRAGMA integrity_check", &[]).await? {
            found.push(row.text()?);
        }
        found.retain(|finding| finding != "ok");
    }
    let rows = tx
        .query(
            "SELECT s.session_id, s.last_seq, count(e.seq) FROM sessions s
                LEFT JOIN events e ON e.session_id = s.session_id
             GROUP BY s.session_id, s.last_seq
             HAVING count(e.seq) <> s.last_seq OR COALESCE(max(e.seq), 0) <> s.last_seq",
            &[],
        )
        .await?;
    for mut row in rows {
        let (session, last_seq, count) = (row.text()?, row.integer()?, row.integer()?);
        found.push(format!("the journal of {session} has {count} events, expected {last_seq}"));
    }
    Ok(found)
}
