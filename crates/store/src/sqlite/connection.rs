//! A connection to SQLite.

use std::collections::HashMap;

use rusqlite::types::{ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, ErrorCode, ParamsFromIter, Statement, params_from_iter};

use crate::dialect::Dialect;
use crate::error::Error;
use crate::tx::{Param, Row, Value};

/// Capacity of the prepared-statement cache; larger than the number of distinct statements.
const STATEMENTS_MAX: usize = 256;

/// A connection with its rendered statements.
pub(crate) struct SqliteConnection {
    pub(crate) connection: Connection,
    /// Keyed by the address and length of the `'static` text, because hashing the text costs as much as a
    /// small statement.
    rendered: HashMap<(usize, usize), String>,
}

impl SqliteConnection {
    pub(crate) fn new(connection: Connection) -> SqliteConnection {
        connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
        SqliteConnection { connection, rendered: HashMap::new() }
    }

    pub(crate) fn execute(&mut self, sql: &'static str, params: &[Param<'_>]) -> Result<u64, Error> {
        self.with(sql, |statement| statement.execute(used(statement, params)).map(|rows| rows as u64))
    }

    pub(crate) fn query(&mut self, sql: &'static str, params: &[Param<'_>]) -> Result<Vec<Row>, Error> {
        self.with(sql, |statement| {
            let columns = statement.column_count();
            let mut rows = statement.query(used(statement, params))?;
            let mut found = Vec::new();
            while let Some(row) = rows.next()? {
                let values = (0..columns).map(|column| Ok(value(row.get_ref(column)?)));
                found.push(Row::new(values.collect::<rusqlite::Result<_>>()?));
            }
            Ok(found)
        })
    }

    fn with<T>(
        &mut self,
        sql: &'static str,
        work: impl FnOnce(&mut Statement<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, Error> {
        let text = self
            .rendered
            .entry((sql.as_ptr().addr(), sql.len()))
            .or_insert_with(|| Dialect::Sqlite.render(sql));
        let mut statement = self.connection.prepare_cached(text).map_err(error)?;
        work(&mut statement).map_err(error)
    }
}

/// Returns the parameters that a statement uses. It may omit trailing ones.
fn used<'a>(statement: &Statement<'_>, params: &'a [Param<'a>]) -> ParamsFromIter<&'a [Param<'a>]> {
    let count = statement.parameter_count().min(params.len());
    params_from_iter(&params[..count])
}

impl ToSql for Param<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Param::Integer(Some(value)) => ValueRef::Integer(*value),
            Param::Text(Some(value)) => ValueRef::Text(value.as_bytes()),
            Param::Integer(None) | Param::Text(None) => ValueRef::Null,
        }))
    }
}

fn value(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Integer(value) => Value::Integer(value),
        ValueRef::Text(text) => Value::Text(String::from_utf8_lossy(text).into_owned()),
        // No column has another type.
        ValueRef::Null | ValueRef::Real(_) | ValueRef::Blob(_) => Value::Null,
    }
}

/// Converts an error of SQLite.
pub(crate) fn error(error: rusqlite::Error) -> Error {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => Error::Damaged(format!(
            "{error}; stop Slipform, copy the file aside, and restore a backup or start with a new file"
        )),
        Some(ErrorCode::ConstraintViolation) => Error::Invalid(error.to_string()),
        _ => Error::Unavailable(error.to_string()),
    }
}
