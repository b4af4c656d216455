//! A connection to PostgreSQL.

use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use tokio_postgres::error::SqlState;
use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{Client, Statement};

use crate::dialect::Dialect;
use crate::error::Error;
use crate::tx::{Change, Param, Row, Value};

/// A connection, with its prepared statements.
pub(crate) struct Link {
    client: Client,
    statements: HashMap<&'static str, Statement>,
    /// What begins the transaction. It is sent with the first statement, so that nobody waits for it alone.
    pub(crate) begin: Option<&'static str>,
    /// Whether PostgreSQL has given the transaction up because of another one.
    pub(crate) is_conflict: bool,
    /// Whether the server has said that it goes away.
    is_leaving: bool,
}

impl Link {
    pub(crate) fn new(client: Client) -> Link {
        Link { client, statements: HashMap::new(), begin: None, is_conflict: false, is_leaving: false }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_leaving || self.client.is_closed()
    }

    pub(crate) async fn execute(&mut self, sql: &'static str, params: &[Param<'_>]) -> Result<u64, Error> {
        let statement = self.prepare(sql, params).await?;
        let begin = self.begin.take();
        let done = match begin {
            Some(begin) => {
                let begun = self.client.batch_execute(begin);
                let done = self.client.execute_raw(&statement, params);
                let (begun, done) = tokio::join!(biased; begun, done);
                begun.and(done)
            }
            None => self.client.execute_raw(&statement, params).await,
        };
        done.map_err(|error| self.explain(&error))
    }

    pub(crate) async fn execute_all(&mut self, changes: &[Change<'_>]) -> Result<(), Error> {
        let mut statements = Vec::with_capacity(changes.len());
        for (sql, params) in changes {
            statements.push((self.prepare(sql, params).await?, params));
        }
        let (begin, client) = (self.begin.take(), &self.client);
        let begun = async {
            match begin {
                Some(begin) => client.batch_execute(begin).await,
                None => Ok(()),
            }
        };
        let sent = statements.iter().map(|(statement, params)| client.execute_raw(statement, *params));
        let (begun, done) = tokio::join!(biased; begun, all(sent.map(Box::pin).collect()));
        begun.and(done).map_err(|error| self.explain(&error))
    }

    pub(crate) async fn query(&mut self, sql: &'static str, params: &[Param<'_>]) -> Result<Vec<Row>, Error> {
        let statement = self.prepare(sql, params).await?;
        let begin = self.begin.take();
        let params: Vec<&(dyn ToSql + Sync)> =
            params.iter().map(|param| param as &(dyn ToSql + Sync)).collect();
        let found = match begin {
            Some(begin) => {
                let begun = self.client.batch_execute(begin);
                let found = self.client.query(&statement, &params);
                let (begun, found) = tokio::join!(biased; begun, found);
                begun.and(found)
            }
            None => self.client.query(&statement, &params).await,
        };
        match found {
            Ok(rows) => rows.iter().map(row).collect::<Result<_, _>>().map_err(|error| self.explain(&error)),
            Err(error) => Err(self.explain(&error)),
        }
    }

    /// Ends the transaction, if it ever began.
    pub(crate) async fn end(&mut self, how: &'static str) -> Result<(), Error> {
        if self.begin.take().is_some() {
            return Ok(());
        }
        self.run(how).await
    }

    /// Runs statements that have no parameters.
    pub(crate) async fn run(&mut self, sql: &str) -> Result<(), Error> {
        self.client.batch_execute(sql).await.map_err(|error| self.explain(&error))
    }

    async fn prepare(&mut self, sql: &'static str, params: &[Param<'_>]) -> Result<Statement, Error> {
        if let Some(statement) = self.statements.get(sql) {
            return Ok(statement.clone());
        }
        // Said, since PostgreSQL cannot guess the type of what is only compared with nothing.
        let types: Vec<Type> = params.iter().map(kind).collect();
        let prepared = self.client.prepare_typed(&Dialect::Postgres.render(sql), &types).await;
        let statement = prepared.map_err(|error| self.explain(&error))?;
        self.statements.insert(sql, statement.clone());
        Ok(statement)
    }

    fn explain(&mut self, error: &tokio_postgres::Error) -> Error {
        let conflicts = [SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED];
        let leaving = [SqlState::ADMIN_SHUTDOWN, SqlState::CRASH_SHUTDOWN, SqlState::CANNOT_CONNECT_NOW];
        let is_one_of = |codes: &[SqlState]| error.code().is_some_and(|code| codes.contains(code));
        self.is_conflict = is_one_of(&conflicts);
        self.is_leaving |= is_one_of(&leaving) || error.is_closed();
        explain(error)
    }
}

/// What an error of PostgreSQL is to whoever asked.
pub(crate) fn explain(error: &tokio_postgres::Error) -> Error {
    let Some(cause) = error.as_db_error() else {
        let cause = std::error::Error::source(error).map(|cause| format!(": {cause}")).unwrap_or_default();
        return Error::Unavailable(format!("{error}{cause}"));
    };
    let message = format!("{} ({})", cause.message(), cause.code().code());
    match cause.code() {
        &SqlState::DATA_CORRUPTED | &SqlState::INDEX_CORRUPTED => Error::Damaged(message),
        // Signing in: a wrong user, password or name of a database does not get better with time.
        &SqlState::INVALID_PASSWORD
        | &SqlState::INVALID_AUTHORIZATION_SPECIFICATION
        | &SqlState::INVALID_CATALOG_NAME
        | &SqlState::INSUFFICIENT_PRIVILEGE => Error::Unsuitable(format!("PostgreSQL refuses: {message}")),
        _ => Error::Unavailable(message),
    }
}

/// Sends all and waits for all: one way to the server and back for as many as there are.
async fn all<F>(mut sent: Vec<Pin<Box<F>>>) -> Result<(), tokio_postgres::Error>
where
    F: Future<Output = Result<u64, tokio_postgres::Error>>,
{
    let mut failure = None;
    poll_fn(|context| {
        sent.retain_mut(|future| match future.as_mut().poll(context) {
            Poll::Ready(done) => {
                failure = failure.take().or(done.err());
                false
            }
            Poll::Pending => true,
        });
        if sent.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    failure.map_or(Ok(()), Err)
}

fn kind(param: &Param<'_>) -> Type {
    match param {
        Param::Integer(_) => Type::INT8,
        Param::Text(_) => Type::TEXT,
    }
}

fn row(row: &tokio_postgres::Row) -> Result<Row, tokio_postgres::Error> {
    let values = row.columns().iter().enumerate().map(|(index, column)| {
        Ok(match *column.type_() {
            Type::INT8 => row.try_get::<_, Option<i64>>(index)?.map_or(Value::Null, Value::Integer),
            _ => row.try_get::<_, Option<String>>(index)?.map_or(Value::Null, Value::Text),
        })
    });
    Ok(Row::new(values.collect::<Result<_, _>>()?))
}

impl ToSql for Param<'_> {
    fn to_sql(
        &self,
        kind: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        match self {
            Param::Integer(value) => value.to_sql(kind, out),
            Param::Text(value) => value.to_sql(kind, out),
        }
    }

    fn accepts(kind: &Type) -> bool {
        *kind == Type::INT8 || *kind == Type::TEXT
    }

    to_sql_checked!();
}
