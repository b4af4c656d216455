//! One text of SQL for two databases.
//!
//! Statements are written with `$1` parameters and a few words in braces. Everything else in them means the same to
//! both.

/// A database's way of saying what the two say differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    Sqlite,
    Postgres,
}

/// The word, in SQLite, in PostgreSQL.
const WORDS: [(&str, &str, &str); 14] = [
    // The database's time in milliseconds. The machines that ask may be wrong about theirs.
    (
        "{now}",
        "CAST(unixepoch('subsec') * 1000 AS INTEGER)",
        "(extract(epoch from clock_timestamp()) * 1000)::bigint",
    ),
    // SQLite has one writer: whoever reads in its transaction has locked everything. No key ever changes, and the
    // checks of foreign keys would have to wait for a stronger lock.
    ("{lock}", "", "FOR NO KEY UPDATE"),
    ("{skip}", "", "FOR NO KEY UPDATE SKIP LOCKED"),
    // What can be said of a run or session without asking again, where nobody else changes it meanwhile. Elsewhere it
    // has to be asked after the lock: what a statement sees is what was there before it waited.
    (
        "{has_children}",
        "EXISTS (SELECT 1 FROM runs c WHERE c.parent_run_id = runs.run_id AND c.finished_at IS NULL)",
        "CAST(1 AS BIGINT)",
    ),
    (
        "{has_more}",
        "(EXISTS (SELECT 1 FROM runs q WHERE q.session_id = sessions.session_id AND q.start IS NOT NULL)
            OR EXISTS (SELECT 1 FROM callbacks b WHERE b.parent_session_id = sessions.session_id))",
        "CAST(1 AS BIGINT)",
    ),
    (
        "{last_seq}",
        "(SELECT s.last_seq FROM sessions s WHERE s.session_id = runs.session_id)",
        "CAST(NULL AS BIGINT)",
    ),
    // The texts of the first parameter, which is a JSON array.
    ("{each}", "SELECT value FROM json_each($1)", "SELECT json_array_elements_text($1::text::json)"),
    ("{transaction}", "0", "transaction_id"),
    ("{after}", "position > $2", "(transaction_id, position) > ($1, $2)"),
    ("{order}", "position", "transaction_id, position"),
    ("{backwards}", "position DESC", "transaction_id DESC, position DESC"),
    // A transaction may write something elsewhere, wait for a session and write after one that began later. Its events
    // there count as that one's: in the order of all events, those of a session are in order too.
    ("{and_transaction}", "", ", transaction_id"),
    (
        "{and_its_transaction}",
        "",
        ", GREATEST(pg_current_xact_id()::text::bigint,
            (SELECT b.transaction_id FROM events b WHERE b.session_id = $1 AND b.seq = $2::bigint - 1))",
    ),
    // An event is shown when no transaction before its own can still add any.
    ("{settled}", "1 = 1", "transaction_id < pg_snapshot_xmin(pg_current_snapshot())::text::bigint"),
];

impl Dialect {
    /// The statement as the database reads it.
    pub(crate) fn render(self, sql: &str) -> String {
        let words = WORDS.iter().fold(sql.to_owned(), |text, (word, sqlite, postgres)| {
            text.replace(word, if self == Dialect::Sqlite { sqlite } else { postgres })
        });
        match self {
            // There, `$1` is a name and not the first parameter.
            Dialect::Sqlite => words.replace('$', "?"),
            Dialect::Postgres => words,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_statement_is_written_once_and_read_by_both() {
        let sql = "SELECT {now} FROM runs WHERE run_id = $1 {lock}";
        assert_eq!(
            Dialect::Sqlite.render(sql),
            "SELECT CAST(unixepoch('subsec') * 1000 AS INTEGER) FROM runs WHERE run_id = ?1 "
        );
        assert!(Dialect::Postgres.render(sql).ends_with("run_id = $1 FOR NO KEY UPDATE"));
    }
}
