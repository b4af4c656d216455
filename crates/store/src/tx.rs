//! A transaction, as the verbs see it: whichever database it is.

use std::future::Future;
use std::pin::Pin;

use crate::error::Error;
use crate::{postgres, sqlite};

/// A future that may be moved between threads.
pub(crate) type Pending<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What a verb does in its transaction. It may be done again from the start when the database asks for it.
pub(crate) type Perform<A, R> = for<'a> fn(&'a mut Tx, &'a A) -> Pending<'a, Result<R, Error>>;

/// A transaction.
pub(crate) struct Tx {
    pub(crate) connection: Connection,
    /// Whether something happens in it that others may wait for.
    pub(crate) has_news: bool,
    /// Whether it puts a run into the queue. A verb that wants to know says first that it does not.
    pub(crate) makes_work: bool,
}

/// The connection that a transaction takes place on.
pub(crate) enum Connection {
    Sqlite(sqlite::SqliteConnection),
    Postgres(postgres::PostgresConnection),
}

impl Tx {
    pub(crate) fn new(connection: Connection) -> Tx {
        Tx { connection, has_news: false, makes_work: false }
    }

    /// Changes something; how many rows.
    pub(crate) async fn execute(&mut self, sql: &'static str, params: &[Param<'_>]) -> Result<u64, Error> {
        check(params)?;
        match &mut self.connection {
            Connection::Sqlite(connection) => connection.execute(sql, params),
            Connection::Postgres(connection) => connection.execute(sql, params).await,
        }
    }

    /// Changes several things in order, without waiting for one before the next. Where that takes a way to a server and
    /// back, they go with whatever is said next: an error of theirs comes then, or with the commit.
    pub(crate) async fn execute_all(&mut self, changes: &[Change<'_>]) -> Result<(), Error> {
        changes.iter().try_for_each(|(_, params)| check(params))?;
        match &mut self.connection {
            Connection::Sqlite(connection) => {
                changes.iter().try_for_each(|(sql, params)| connection.execute(sql, params).map(drop))
            }
            Connection::Postgres(connection) => connection.execute_all(changes).await,
        }
    }

    /// Asks for rows.
    pub(crate) async fn query(&mut self, sql: &'static str, params: &[Param<'_>]) -> Result<Vec<Row>, Error> {
        check(params)?;
        match &mut self.connection {
            Connection::Sqlite(connection) => connection.query(sql, params),
            Connection::Postgres(connection) => connection.query(sql, params).await,
        }
    }

    /// Whether nobody else changes anything until the commit: there is nothing to lock.
    pub(crate) fn is_alone(&self) -> bool {
        matches!(self.connection, Connection::Sqlite(_))
    }

    /// Changes a row that there may be, and gives something of it back.
    pub(crate) async fn change_one(
        &mut self,
        changing: &Changing,
        params: &[Param<'_>],
    ) -> Result<Option<Row>, Error> {
        check(params)?;
        let rows = match &mut self.connection {
            Connection::Sqlite(connection) => match connection.execute(changing.change, params)? {
                0 => return Ok(None),
                _ => connection.query(changing.row, params)?,
            },
            Connection::Postgres(connection) => connection.query(changing.at_once, params).await?,
        };
        Ok(rows.into_iter().next())
    }

    /// Asks several things in order, without waiting for one before the next.
    pub(crate) async fn query_all(&mut self, questions: &[Change<'_>]) -> Result<Vec<Vec<Row>>, Error> {
        questions.iter().try_for_each(|(_, params)| check(params))?;
        match &mut self.connection {
            Connection::Sqlite(connection) => {
                questions.iter().map(|(sql, params)| connection.query(sql, params)).collect()
            }
            Connection::Postgres(connection) => connection.query_all(questions).await,
        }
    }

    /// Asks for a row that there may be.
    pub(crate) async fn query_one(
        &mut self,
        sql: &'static str,
        params: &[Param<'_>],
    ) -> Result<Option<Row>, Error> {
        Ok(self.query(sql, params).await?.into_iter().next())
    }
}

/// A statement, with its parameters.
pub(crate) type Change<'a> = (&'static str, Vec<Param<'a>>);

/// A change of one row that gives something of it back: at once where that saves a way to a server, and in two statements
/// where it costs more than them. SQLite makes a table for what an update gives back, and a journal to undo it with.
pub(crate) struct Changing {
    pub(crate) at_once: &'static str,
    pub(crate) change: &'static str,
    pub(crate) row: &'static str,
}

/// A change, the columns that it gives back, and the row's table with its key: the first parameters of the change.
macro_rules! changing {
    ($change:literal, $columns:literal, $row:literal) => {
        $crate::tx::Changing {
            at_once: concat!($change, " RETURNING ", $columns),
            change: $change,
            row: concat!("SELECT ", $columns, " FROM ", $row),
        }
    };
}
pub(crate) use changing;

/// A parameter of a statement.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Param<'a> {
    Integer(Option<i64>),
    Text(Option<&'a str>),
}

/// PostgreSQL has no text with a NUL in it. SQLite would keep one, and is not asked to: both refuse the same.
fn check(params: &[Param<'_>]) -> Result<(), Error> {
    let has_nul = |param: &Param<'_>| matches!(param, Param::Text(Some(text)) if text.contains('\0'));
    match params.iter().any(has_nul) {
        true => Err(Error::Invalid("a text has a NUL character (\\u0000) in it; leave it out".to_owned())),
        false => Ok(()),
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

/// What stands in a column.
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
        self.optional_integer()?.ok_or_else(|| misread("a number", &Value::Null))
    }

    pub(crate) fn optional_integer(&mut self) -> Result<Option<i64>, Error> {
        match self.0.next() {
            Some(Value::Integer(value)) => Ok(Some(value)),
            Some(Value::Null) => Ok(None),
            other => Err(misread("a number", &other.unwrap_or(Value::Null))),
        }
    }

    pub(crate) fn flag(&mut self) -> Result<bool, Error> {
        Ok(self.integer()? != 0)
    }

    pub(crate) fn text(&mut self) -> Result<String, Error> {
        self.optional_text()?.ok_or_else(|| misread("a text", &Value::Null))
    }

    pub(crate) fn optional_text(&mut self) -> Result<Option<String>, Error> {
        match self.0.next() {
            Some(Value::Text(value)) => Ok(Some(value)),
            Some(Value::Null) => Ok(None),
            other => Err(misread("a text", &other.unwrap_or(Value::Null))),
        }
    }

    /// A text that is an id.
    pub(crate) fn id<T: TryFrom<String>>(&mut self) -> Result<T, Error> {
        id(self.text()?)
    }

    /// A text that is an id, where there is one.
    pub(crate) fn optional_id<T: TryFrom<String>>(&mut self) -> Result<Option<T>, Error> {
        self.optional_text()?.map(id).transpose()
    }
}

fn id<T: TryFrom<String>>(text: String) -> Result<T, Error> {
    T::try_from(text.clone()).map_err(|_| Error::Damaged(format!("'{text}' stands where an id should")))
}

fn misread(expected: &str, found: &Value) -> Error {
    Error::Damaged(format!("{expected} was expected in a column that holds {found:?}"))
}
