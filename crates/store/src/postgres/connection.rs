//! A connection to PostgreSQL.

use std::collections::HashMap;
use std::future::poll_fn;
use std::mem::take;
use std::task::Poll;

use tokio_postgres::error::SqlState;
use tokio_postgres::types::private::BytesMut;
use tokio_postgres::types::{IsNull, ToSql, Type, to_sql_checked};
use tokio_postgres::{Client, Statement};

use crate::dialect::Dialect;
use crate::error::Error;
use crate::tx::{BoundStatement, Param, Row, Value};

/// A connection with its prepared statements and pending sends.
pub(crate) struct PostgresConnection {
    client: Client,
    statements: HashMap<&'static str, Statement>,
    /// The `BEGIN` to send with the first statement, which saves a round trip.
    pub(crate) begin: Option<&'static str>,
    /// Statements to send with the next one, which saves round trips.
    queued: Vec<(Statement, Vec<OwnedParam>)>,
    /// Whether PostgreSQL aborted the transaction because of a concurrent one.
    pub(crate) is_conflict: bool,
    /// Whether a commit failed because the server rejected an earlier statement.
    pub(crate) is_commit_rejected: bool,
    /// Whether the server has announced its shutdown, or the connection was lost.
    is_shutting_down: bool,
}

impl PostgresConnection {
    pub(crate) fn new(client: Client) -> PostgresConnection {
        PostgresConnection {
            client,
            statements: HashMap::new(),
            begin: None,
            queued: Vec::new(),
            is_conflict: false,
            is_commit_rejected: false,
            is_shutting_down: false,
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_shutting_down || self.client.is_closed()
    }

    pub(crate) async fn execute(&mut self, sql: &'static str, params: &[Param<'_>]) -> Result<u64, Error> {
        let statement = self.prepare(sql, params).await?;
        let send_queued = send_queued(&self.client, self.begin.take(), take(&mut self.queued));
        let (sent, done) = tokio::join!(biased; send_queued, self.client.execute_raw(&statement, params));
        sent.and(done).map_err(|error| self.convert_error(&error))
    }

    /// Queues statements until the next one whose result is needed.
    pub(crate) async fn execute_all(&mut self, bound: &[BoundStatement<'_>]) -> Result<(), Error> {
        for (sql, params) in bound {
            let statement = self.prepare(sql, params).await?;
            self.queued.push((statement, params.iter().map(OwnedParam::from).collect()));
        }
        Ok(())
    }

    pub(crate) async fn query(&mut self, sql: &'static str, params: &[Param<'_>]) -> Result<Vec<Row>, Error> {
        let statement = self.prepare(sql, params).await?;
        let send_queued = send_queued(&self.client, self.begin.take(), take(&mut self.queued));
        let (sent, found) = tokio::join!(biased; send_queued, run_query(&self.client, &statement, params));
        sent.and(found).map_err(|error| self.convert_error(&error))
    }

    pub(crate) async fn query_all(&mut self, queries: &[BoundStatement<'_>]) -> Result<Vec<Vec<Row>>, Error> {
        let mut statements = Vec::with_capacity(queries.len());
        for (sql, params) in queries {
            statements.push((self.prepare(sql, params).await?, params));
        }
        let send_queued = send_queued(&self.client, self.begin.take(), take(&mut self.queued));
        let asked = statements.iter().map(|(statement, params)| run_query(&self.client, statement, params));
        let (sent, found) = tokio::join!(biased; send_queued, join_all(asked));
        sent.and(found).map_err(|error| self.convert_error(&error))
    }

    /// Sends the queued statements and commits, if the transaction was started.
    pub(crate) async fn commit(&mut self) -> Result<(), Error> {
        if self.queued.is_empty() && self.begin.take().is_some() {
            return Ok(());
        }
        let send_queued = send_queued(&self.client, self.begin.take(), take(&mut self.queued));
        let (sent, done) = tokio::join!(biased; send_queued, self.client.batch_execute("COMMIT"));
        // After a rejected statement, `COMMIT` rolls back; the rejection is the error to report.
        self.is_commit_rejected = sent.as_ref().is_err_and(|error| error.code().is_some());
        sent.and(done).map_err(|error| self.convert_error(&error))
    }

    /// Rolls the transaction back, if it was started.
    pub(crate) async fn roll_back(&mut self) -> Result<(), Error> {
        self.queued.clear();
        if self.begin.take().is_some() {
            return Ok(());
        }
        self.run("ROLLBACK").await
    }

    /// Runs SQL without parameters.
    pub(crate) async fn run(&mut self, sql: &str) -> Result<(), Error> {
        self.client.batch_execute(sql).await.map_err(|error| self.convert_error(&error))
    }

    async fn prepare(&mut self, sql: &'static str, params: &[Param<'_>]) -> Result<Statement, Error> {
        if let Some(statement) = self.statements.get(sql) {
            return Ok(statement.clone());
        }
        // Explicit types, because PostgreSQL cannot infer the type of a parameter that is only compared with
        // NULL.
        let types: Vec<Type> = params.iter().map(type_of).collect();
        let prepared = self.client.prepare_typed(&Dialect::Postgres.render(sql), &types).await;
        let statement = prepared.map_err(|error| self.convert_error(&error))?;
        self.statements.insert(sql, statement.clone());
        Ok(statement)
    }

    fn convert_error(&mut self, error: &tokio_postgres::Error) -> Error {
        let conflicts = [SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED];
        let leaving = [SqlState::ADMIN_SHUTDOWN, SqlState::CRASH_SHUTDOWN, SqlState::CANNOT_CONNECT_NOW];
        let is_one_of = |codes: &[SqlState]| error.code().is_some_and(|code| codes.contains(code));
        self.is_conflict = is_one_of(&conflicts);
        self.is_shutting_down |= is_one_of(&leaving) || error.is_closed();
        convert_error(error)
    }
}

/// Converts an error of PostgreSQL.
pub(crate) fn convert_error(error: &tokio_postgres::Error) -> Error {
    let Some(cause) = error.as_db_error() else {
        let cause = std::error::Error::source(error).map(|cause| format!(": {cause}")).unwrap_or_default();
        return Error::Unavailable(format!("{error}{cause}"));
    };
    let message = format!("{} ({})", cause.message(), cause.code().code());
    match cause.code() {
        &SqlState::DATA_CORRUPTED | &SqlState::INDEX_CORRUPTED => Error::Damaged(message),
        // Wrong credentials or database names do not fix themselves, so retrying does not help.
        &SqlState::INVALID_PASSWORD
        | &SqlState::INVALID_AUTHORIZATION_SPECIFICATION
        | &SqlState::INVALID_CATALOG_NAME
        | &SqlState::INSUFFICIENT_PRIVILEGE => {
            Error::Unsuitable(format!("PostgreSQL refused the connection: {message}"))
        }
        // Invalid data (class 22) and constraint violations (class 23): retrying does not help.
        code if code.code().starts_with("22") || code.code().starts_with("23") => Error::Invalid(message),
        _ => Error::Unavailable(message),
    }
}

/// Sends `BEGIN` and the queued statements, in order.
async fn send_queued(
    client: &Client,
    begin: Option<&'static str>,
    queued: Vec<(Statement, Vec<OwnedParam>)>,
) -> Result<(), tokio_postgres::Error> {
    let begun = async {
        match begin {
            Some(begin) => client.batch_execute(begin).await,
            None => Ok(()),
        }
    };
    let sent = queued.iter().map(|(statement, params)| client.execute_raw(statement, params));
    let (begun, done) = tokio::join!(biased; begun, join_all(sent));
    begun.and(done.map(drop))
}

async fn run_query(
    client: &Client,
    statement: &Statement,
    params: &[Param<'_>],
) -> Result<Vec<Row>, tokio_postgres::Error> {
    let params: Vec<&(dyn ToSql + Sync)> = params.iter().map(|param| param as &(dyn ToSql + Sync)).collect();
    client.query(statement, &params).await?.iter().map(row).collect()
}

/// Polls all futures concurrently, so that their statements share one round trip.
async fn join_all<F, T>(sent: impl Iterator<Item = F>) -> Result<Vec<T>, tokio_postgres::Error>
where
    F: Future<Output = Result<T, tokio_postgres::Error>>,
{
    let mut waiting: Vec<_> = sent.map(|future| Some(Box::pin(future))).collect();
    let mut done: Vec<Option<Result<T, tokio_postgres::Error>>> = waiting.iter().map(|_| None).collect();
    poll_fn(|context| {
        let mut is_pending = false;
        for (slot, done) in waiting.iter_mut().zip(&mut done) {
            let Some(future) = slot else { continue };
            match future.as_mut().poll(context) {
                Poll::Ready(outcome) => (*slot, *done) = (None, Some(outcome)),
                Poll::Pending => is_pending = true,
            }
        }
        if is_pending { Poll::Pending } else { Poll::Ready(()) }
    })
    .await;
    done.into_iter().flatten().collect()
}

/// An owned parameter of a queued statement.
#[derive(Debug)]
enum OwnedParam {
    Integer(Option<i64>),
    Text(Option<String>),
}

impl From<&Param<'_>> for OwnedParam {
    fn from(param: &Param<'_>) -> OwnedParam {
        match param {
            Param::Integer(value) => OwnedParam::Integer(*value),
            Param::Text(value) => OwnedParam::Text(value.map(str::to_owned)),
        }
    }
}

impl ToSql for OwnedParam {
    fn to_sql(
        &self,
        kind: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        let param = match self {
            OwnedParam::Integer(value) => Param::Integer(*value),
            OwnedParam::Text(value) => Param::Text(value.as_deref()),
        };
        param.to_sql(kind, out)
    }

    fn accepts(kind: &Type) -> bool {
        <Param<'_> as ToSql>::accepts(kind)
    }

    to_sql_checked!();
}

fn type_of(param: &Param<'_>) -> Type {
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
