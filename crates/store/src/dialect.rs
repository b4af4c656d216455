//! Renders one SQL text for two databases.
//!
//! Statements use `$1` parameters and placeholders in braces, which [`Dialect::render`] replaces. Both
//! databases accept the rest of each statement.

/// The SQL dialect of a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    Sqlite,
    Postgres,
}

/// Placeholder, SQLite text, PostgreSQL text.
const PLACEHOLDERS: [(&str, &str, &str); 17] = [
    // The database's clock in milliseconds. Clocks of the clients may be wrong. `sqlite/time.rs` defines SQLite's.
    ("{now}", "slipform_now()", "(extract(epoch from clock_timestamp()) * 1000)::bigint"),
    // SQLite has a single writer, so its transaction needs no row locks. On PostgreSQL, `NO KEY` is enough
    // because keys never change, and a stronger lock would block foreign-key checks.
    ("{lock}", "", "FOR NO KEY UPDATE"),
    ("{skip}", "", "FOR NO KEY UPDATE SKIP LOCKED"),
    // Facts that SQLite can read in the same statement because it has no concurrent writers. On PostgreSQL
    // they must be queried after the lock: a statement sees the data from before it waited.
    (
        "{has_children}",
        "EXISTS (SELECT 1 FROM runs c WHERE c.parent_run_id = runs.run_id AND c.finished_at IS NULL)",
        "CAST(1 AS BIGINT)",
    ),
    (
        "{has_waiting}",
        "(EXISTS (SELECT 1 FROM runs q WHERE q.session_id = sessions.session_id AND q.start IS NOT NULL)
            OR EXISTS (SELECT 1 FROM callbacks b WHERE b.parent_session_id = sessions.session_id))",
        "CAST(1 AS BIGINT)",
    ),
    (
        "{last_seq}",
        "(SELECT s.last_seq FROM sessions s WHERE s.session_id = runs.session_id)",
        "CAST(NULL AS BIGINT)",
    ),
    // The elements of the first parameter, a JSON array of strings.
    ("{each}", "SELECT value FROM json_each($1)", "SELECT json_array_elements_text($1::text::json)"),
    // The violations of a `validation_failed` or `escalated` event, without the texts beside them, and its cause.
    ("{errors}", "(e.body -> 'errors')", "(e.body::json -> 'errors')::text"),
    ("{cause}", "(e.body ->> 'cause')", "(e.body::json ->> 'cause')"),
    // The highest position that an event was ever given.
    (
        "{last_event}",
        "(SELECT seq FROM sqlite_sequence WHERE name = 'events')",
        "(SELECT last_value FROM events_position_seq)",
    ),
    ("{transaction}", "0", "transaction_id"),
    ("{after}", "position > $2", "(transaction_id, position) > ($1, $2)"),
    ("{order}", "position", "transaction_id, position"),
    ("{backwards}", "position DESC", "transaction_id DESC, position DESC"),
    // A transaction can write to another session first, wait for this session, and commit after a transaction
    // with a higher id. Its events here take that higher id, so a session's events stay in order among all
    // events.
    ("{and_transaction}", "", ", transaction_id"),
    (
        "{and_its_transaction}",
        "",
        ", GREATEST(pg_current_xact_id()::text::bigint,
            (SELECT b.transaction_id FROM events b WHERE b.session_id = $1 AND b.seq = $2::bigint - 1))",
    ),
    // Hides an event until no older transaction can add events before it.
    ("{settled}", "1 = 1", "transaction_id < pg_snapshot_xmin(pg_current_snapshot())::text::bigint"),
];

impl Dialect {
    /// Returns the statement in this dialect.
    pub(crate) fn render(self, sql: &str) -> String {
        let text = PLACEHOLDERS.iter().fold(sql.to_owned(), |text, (placeholder, sqlite, postgres)| {
            text.replace(placeholder, if self == Dialect::Sqlite { sqlite } else { postgres })
        });
        match self {
            // SQLite reads `$1` as a named parameter, not as the first one.
            Dialect::Sqlite => text.replace('$', "?"),
            Dialect::Postgres => text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statement_is_rendered_for_each_dialect() {
        let sql = "SELECT {now} FROM runs WHERE run_id = $1 {lock}";
        assert_eq!(Dialect::Sqlite.render(sql), "SELECT slipform_now() FROM runs WHERE run_id = ?1 ");
        assert!(Dialect::Postgres.render(sql).ends_with("run_id = $1 FOR NO KEY UPDATE"));
    }
}
