//! A database-independent transaction.

use std::future::Future;
use std::pin::Pin;

use crate::error::Error;
use crate::{postgres, sqlite};

/// A boxed future that is `Send`.
pub(crate) type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The body of an operation's transaction. The database may retry it from the start.
pub(crate) type Operation<A, R> = for<'a> fn(&'a mut Tx, &'a A) -> BoxFuture<'a, Result<R, Error>>;

/// An open transaction.
pub(crate) struct Tx {
    pub(crate) connection: Connection,
    /// Whether the commit wakes subscribers of [`Store::notifications`](crate::Store::notifications).
    pub(crate) has_notification: bool,
    /// Whether the transaction has put a run into the queue. An operation that reports this resets it first,
    /// because SQLite shares one `Tx` between several operations.
    pub(crate) has_queued_run: bool,
}

/// The connection that the transaction runs on.
pub(crate) enum Connection {
    Sqlite(sqlite::SqliteConnection),
    Postgres(postgres::PostgresConnection),
}

impl Tx {
    pub(crate) fn new(connection: Connection) -> Tx {
        Tx { connection, has_notification: false, has_queued_run: false }
    }

    /// Runs a statement and returns the number of changed rows.
    pub(crate) async fn execute(&mut self, sql: &'static str, params: &[Param<'_>]) -> Result<u64, Error> {
        reject_nul(params)?;
        match &mut self.connection {
            Connection::Sqlite(connection) => connection.execute(sql, params),
            Connection::Postgres(connection) => connection.execute(sql, params).await,
        }
    }

    /// Runs statements in order without waiting for each result. PostgreSQL sends them together with the next
    /// statement, so an error surfaces there or at the commit.
    pub(crate) async fn execute_all(&mut self, statements: &[BoundStatement<'_>]) -> Result<(), Error> {
        statements.iter().try_for_each(|(_, params)| reject_nul(params))?;
        match &mut self.connection {
            Connection::Sqlite(connection) => {
                statements.iter().try_for_each(|(sql, params)| connection.execute(sql, params).map(drop))
            }
            Connection::Postgres(connection) => connection.execute_all(statements).await,
        }
    }

    /// Runs a query and returns its rows.
    pub(crate) async fn query(&mut self, sql: &'static str, params: &[Param<'_>]) -> Result<Vec<Row>, Error> {
        reject_nul(params)?;
        match &mut self.connection {
            Connection::Sqlite(connection) => connection.query(sql, params),
            Connection::Postgres(connection) => connection.query(sql, params).await,
        }
    }

    /// Whether no other connection can write until the commit, so that row locks are unnecessary. True for
    /// SQLite.
    pub(crate) fn is_single_writer(&self) -> bool {
        matches!(self.connection, Connection::Sqlite(_))
    }

    /// Updates at most one row and returns columns of it, or `None` if no row matched.
    pub(crate) async fn update_one(
        &mut self,
        statement: &UpdateReturning,
        params: &[Param<'_>],
    ) -> Result<Option<Row>, Error> {
        reject_nul(params)?;
        let rows = match &mut self.connection {
            Connection::Sqlite(connection) => match connection.execute(statement.update, params)? {
                0 => return Ok(None),
                _ => connection.query(statement.select, params)?,
            },
            Connection::Postgres(connection) => connection.query(statement.returning, params).await?,
        };
        Ok(rows.into_iter().next())
    }

    /// Runs queries in order without waiting for each result, and returns the rows of each.
    pub(crate) async fn query_all(&mut self, queries: &[BoundStatement<'_>]) -> Result<Vec<Vec<Row>>, Error> {
        queries.iter().try_for_each(|(_, params)| reject_nul(params))?;
        match &mut self.connection {
            Connection::Sqlite(connection) => {
                queries.iter().map(|(sql, params)| connection.query(sql, params)).collect()
            }
            Connection::Postgres(connection) => connection.query_all(queries).await,
        }
    }

    /// Runs a query and returns its first row, if any.
    pub(crate) async fn query_one(
        &mut self,
        sql: &'static str,
        params: &[Param<'_>],
    ) -> Result<Option<Row>, Error> {
        Ok(self.query(sql, params).await?.into_iter().next())
    }
}

/// A statement with its parameters.
pub(crate) type BoundStatement<'a> = (&'static str, Vec<Param<'a>>);

/// An update of one row that returns columns of it. PostgreSQL uses one `UPDATE … RETURNING` to save a round
/// trip. SQLite uses two statements, because there `RETURNING` costs a temporary table and a statement
/// journal.
pub(crate) struct UpdateReturning {
    pub(crate) returning: &'static str,
    pub(crate) update: &'static str,
    pub(crate) select: &'static str,
}

/// Takes the update, the columns to return, and the row's table with its key, which uses the first parameters
/// of the update.
macro_rules! update_returning {
    ($update:literal, $columns:literal, $row:literal) => {
        $crate::tx::UpdateReturning {
            returning: concat!($update, " RETURNING ", $columns),
            update: $update,
            select: concat!("SELECT ", $columns, " FROM ", $row),
        }
    };
}
pub(crate) use update_returning;

/// A parameter of a statement.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Param<'a> {
    Integer(Option<i64>),
    Text(Option<&'a str>),
}

/// Rejects NUL characters, which PostgreSQL cannot store, so that both databases refuse the same texts.
fn reject_nul(params: &[Param<'_>]) -> Result<(), Error> {
    let has_nul = |param: &Param<'_>| matches!(param, Param::Text(Some(text)) if text.contains('\0'));
    if params.iter().any(has_nul) {
        Err(Error::Invalid("a text contains a NUL character (\\u0000); remove it".to_owned()))
    } else {
        Ok(())
    }
}

impl From<i64> for Param<'_> {
    fn from(value: i64) -> Self {
        Param::Integer(Some(value))
    }
}

impl From<Option<i64>> for Param<'_> {
    fn from(value: Option<i64>) -> Self {
        Param::Integer(value)
    }
}

impl<'a> From<&'a str> for Param<'a> {
    fn from(value: &'a str) -> Self {
        Param::Text(Some(value))
    }
}

impl<'a> From<&'a String> for Param<'a> {
    fn from(value: &'a String) -> Self {
        Param::Text(Some(value))
    }
}

impl<'a> From<Option<&'a str>> for Param<'a> {
    fn from(value: Option<&'a str>) -> Self {
        Param::Text(value)
    }
}

/// The value of a column.
#[derive(Debug, Clone)]
pub(crate) enum Value {
    Null,
    Integer(i64),
    Text(String),
}

/// A row, read column by column from the left.
#[derive(Debug)]
pub(crate) struct Row(std::vec::IntoIter<Value>);

impl Row {
    pub(crate) fn new(values: Vec<Value>) -> Row {
        Row(values.into_iter())
    }

    pub(crate) fn integer(&mut self) -> Result<i64, Error> {
        self.optional_integer()?.ok_or_else(|| unexpected_value("a number", &Value::Null))
    }

    pub(crate) fn optional_integer(&mut self) -> Result<Option<i64>, Error> {
        match self.0.next() {
            Some(Value::Integer(value)) => Ok(Some(value)),
            Some(Value::Null) => Ok(None),
            other => Err(unexpected_value("a number", &other.unwrap_or(Value::Null))),
        }
    }

    pub(crate) fn flag(&mut self) -> Result<bool, Error> {
        Ok(self.integer()? != 0)
    }

    pub(crate) fn text(&mut self) -> Result<String, Error> {
        self.optional_text()?.ok_or_else(|| unexpected_value("a text", &Value::Null))
    }

    pub(crate) fn optional_text(&mut self) -> Result<Option<String>, Error> {
        match self.0.next() {
            Some(Value::Text(value)) => Ok(Some(value)),
            Some(Value::Null) => Ok(None),
            other => Err(unexpected_value("a text", &other.unwrap_or(Value::Null))),
        }
    }

    /// Reads a text column and parses it as an id.
    pub(crate) fn id<T: TryFrom<String>>(&mut self) -> Result<T, Error> {
        id(self.text()?)
    }

    /// Reads a nullable text column and parses it as an id.
    pub(crate) fn optional_id<T: TryFrom<String>>(&mut self) -> Result<Option<T>, Error> {
        self.optional_text()?.map(id).transpose()
    }
}

fn id<T: TryFrom<String>>(text: String) -> Result<T, Error> {
    T::try_from(text.clone()).map_err(|_| Error::Damaged(format!("`{text}` is not a valid id")))
}

fn unexpected_value(expected: &str, found: &Value) -> Error {
    Error::Damaged(format!("expected {expected} in a column, found {found:?}"))
}
