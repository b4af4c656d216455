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
use crate::tx::{Change, Param, Row, Value};

/// A connection, with its prepared statements.
pub(crate) struct PostgresConnection {
    client: Client,
    statements: HashMap<&'static str, Statement>,
    /// What begins the transaction. It is sent with the first statement, so that nobody waits for it alone.
    pub(crate) begin: Option<&'static str>,
    /// Changes that nobody waits for alone either.
    later: Vec<(Statement, Vec<Kept>)>,
    /// Whether PostgreSQL has given the transaction up because of another one.
    pub(crate) is_conflict: bool,
    /// Whether a commit came to nothing because of what was sent before it.
    pub(crate) is_refused: bool,
    /// Whether the server has said that it goes away.
    is_leaving: bool,
}

impl PostgresConnection {
    pub(crate) fn new(client: Client) -> PostgresConnection {
        PostgresConnection {
            client,
            statements: HashMap::new(),
            begin: None,
            later: Vec::new(),
            is_conflict: false,
            is_refused: false,
            is_leaving: false,
        }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.is_leaving || self.client.is_closed()
    }

    pub(crate) async fn execute(&mut self, sql: &'static str, params: &[Param<'_>]) -> Result<u64, Error> {
        let statement = self.prepare(sql, params).await?;
        let ahead = ahead(&self.client, self.begin.take(), take(&mut self.later));
        let (sent, done) = tokio::join!(biased; ahead, self.client.execute_raw(&statement, params));
        sent.and(done).map_err(|error| self.explain(&error))
    }

    /// Keeps changes until something is sent that has to be waited for.
    pub(crate) async fn execute_all(&mut self, changes: &[Change<'_>]) -> Result<(), Error> {
        for (sql, params) in changes {
            let statement = self.prepare(sql, params).await?;
            self.later.push((statement, params.iter().map(Kept::from).collect()));
        }
        Ok(())
    }

    pub(crate) async fn query(&mut self, sql: &'static str, params: &[Param<'_>]) -> Result<Vec<Row>, Error> {
        let statement = self.prepare(sql, params).await?;
        let ahead = ahead(&self.client, self.begin.take(), take(&mut self.later));
        let (sent, found) = tokio::join!(biased; ahead, ask(&self.client, &statement, params));
        sent.and(found).map_err(|error| self.explain(&error))
    }

    pub(crate) async fn query_all(&mut self, questions: &[Change<'_>]) -> Result<Vec<Vec<Row>>, Error> {
        let mut statements = Vec::with_capacity(questions.len());
        for (sql, params) in questions {
            statements.push((self.prepare(sql, params).await?, params));
        }
        let ahead = ahead(&self.client, self.begin.take(), take(&mut self.later));
        let asked = statements.iter().map(|(statement, params)| ask(&self.client, statement, params));
        let (sent, found) = tokio::join!(biased; ahead, all(asked));
        sent.and(found).map_err(|error| self.explain(&error))
    }

    /// Ends the transaction, if it ever began, with what is still to be sent.
    pub(crate) async fn commit(&mut self) -> Result<(), Error> {
        if self.later.is_empty() && self.begin.take().is_some() {
            return Ok(());
        }
        let ahead = ahead(&self.client, self.begin.take(), take(&mut self.later));
        let (sent, done) = tokio::join!(biased; ahead, self.client.batch_execute("COMMIT"));
        // Where the server has refused something before it, it rolls back instead, and the refusal is what is told.
        self.is_refused = sent.as_ref().is_err_and(|error| error.code().is_some());
        sent.and(done).map_err(|error| self.explain(&error))
    }

    /// Undoes the transaction, if it ever began.
    pub(crate) async fn roll_back(&mut self) -> Result<(), Error> {
        self.later.clear();
        if self.begin.take().is_some() {
            return Ok(());
        }
        self.run("ROLLBACK").await
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
        // Bad data, and what contradicts what is kept: asking again would not help.
        code if code.code().starts_with("22") || code.code().starts_with("23") => Error::Invalid(message),
        _ => Error::Unavailable(message),
    }
}

/// Sends what stands before a statement, in order.
async fn ahead(
    client: &Client,
    begin: Option<&'static str>,
    later: Vec<(Statement, Vec<Kept>)>,
) -> Result<(), tokio_postgres::Error> {
    let begun = async {
        match begin {
            Some(begin) => client.batch_execute(begin).await,
            None => Ok(()),
        }
    };
    let sent = later.iter().map(|(statement, params)| client.execute_raw(statement, params));
    let (begun, done) = tokio::join!(biased; begun, all(sent));
    begun.and(done.map(drop))
}

async fn ask(
    client: &Client,
    statement: &Statement,
    params: &[Param<'_>],
) -> Result<Vec<Row>, tokio_postgres::Error> {
    let params: Vec<&(dyn ToSql + Sync)> = params.iter().map(|param| param as &(dyn ToSql + Sync)).collect();
    client.query(statement, &params).await?.iter().map(row).collect()
}

/// Sends all and waits for all: one way to the server and back for as many as there are.
async fn all<F, T>(sent: impl Iterator<Item = F>) -> Result<Vec<T>, tokio_postgres::Error>
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

/// A parameter that is kept until it is sent.
#[derive(Debug)]
enum Kept {
    Integer(Option<i64>),
    Text(Option<String>),
}

impl From<&Param<'_>> for Kept {
    fn from(param: &Param<'_>) -> Kept {
        match param {
            Param::Integer(value) => Kept::Integer(*value),
            Param::Text(value) => Kept::Text(value.map(str::to_owned)),
        }
    }
}

impl ToSql for Kept {
    fn to_sql(
        &self,
        kind: &Type,
        out: &mut BytesMut,
    ) -> Result<IsNull, Box<dyn std::error::Error + Sync + Send>> {
        let param = match self {
            Kept::Integer(value) => Param::Integer(*value),
            Kept::Text(value) => Param::Text(value.as_deref()),
        };
        param.to_sql(kind, out)
    }

    fn accepts(kind: &Type) -> bool {
        <Param<'_> as ToSql>::accepts(kind)
    }

    to_sql_checked!();
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
