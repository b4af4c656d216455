//! Requests of the gateway.

use slipform_types::{GatewayRequest, Tokens};

use super::runs::{bounds, listed};
use super::stats::now;
use crate::error::Error;
use crate::record::{EndedRequest, Listed, Millis, Page, RequestFilter, RequestRecord};
use crate::tx::{BoundStatement, Row, Tx};

/// Rows after which a deleting transaction ends, because other writes wait for it.
const DELETED_MAX: i64 = 1_000;

const INSERT: &str = "INSERT INTO gateway_requests (request_id, created_by, requested_model, backend, model, status,
        error_type, error_message, strategy, has_contract, is_streamed, calls, retry_count, repairs, escalations,
        input_tokens, output_tokens, started_at, finished_at)
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19)";

/// Stores requests that have ended.
pub(crate) async fn record(tx: &mut Tx, ended: &[EndedRequest]) -> Result<(), Error> {
    // Read once: the duration is the difference of both times, and the database's clock goes on between two readings.
    let now = now(tx).await?;
    let statements: Vec<BoundStatement<'_>> = ended.iter().map(|ended| insert(ended, now)).collect();
    tx.execute_all(&statements).await
}

fn insert(ended: &EndedRequest, now: Millis) -> BoundStatement<'_> {
    let EndedRequest { request, age_ms } = ended;
    let status = if request.error_type.is_some() { "failed" } else { "completed" };
    let duration = i64::try_from(request.duration_ms).unwrap_or(i64::MAX);
    let finished_at = now.saturating_sub(*age_ms);
    let count = |tokens: u64| i64::try_from(tokens).unwrap_or(i64::MAX);
    let params = vec![
        (&request.request_id).into(),
        request.created_by.as_deref().into(),
        (&request.requested_model).into(),
        request.backend.as_deref().into(),
        request.model.as_deref().into(),
        status.into(),
        request.error_type.as_deref().into(),
        request.error_message.as_deref().into(),
        request.strategy.as_deref().into(),
        i64::from(request.has_contract).into(),
        i64::from(request.is_streamed).into(),
        i64::from(request.calls).into(),
        i64::from(request.retry_count).into(),
        i64::from(request.repairs).into(),
        i64::from(request.escalations).into(),
        count(request.tokens.input).into(),
        count(request.tokens.output).into(),
        finished_at.saturating_sub(duration).into(),
        finished_at.into(),
    ];
    (INSERT, params)
}

/// A page of requests, newest first. `$1` is the cursor, `$2` the limit, `$3` the owner, `$4` the backend and `$5` the
/// status; NULL disables a filter.
const LIST: &str = "SELECT number, request_id, created_by, requested_model, backend, model, error_type, error_message,
        strategy, has_contract, is_streamed, calls, retry_count, repairs, escalations, input_tokens, output_tokens,
        started_at, finished_at
     FROM gateway_requests
     WHERE number < $1 AND ($3 IS NULL OR created_by = $3) AND ($4 IS NULL OR backend = $4)
        AND ($5 IS NULL OR status = $5)
     ORDER BY number DESC LIMIT $2";

/// Returns a page of requests, newest first.
pub(crate) async fn list(
    tx: &mut Tx,
    filter: &RequestFilter,
    page: &Page,
) -> Result<Listed<RequestRecord>, Error> {
    let (before, limit) = bounds(page);
    let status = filter.has_failed.map(|has_failed| if has_failed { "failed" } else { "completed" });
    let params = [
        before.into(),
        (limit + 1).into(),
        filter.owner.as_deref().into(),
        filter.backend.as_deref().into(),
        status.into(),
    ];
    let rows = tx.query(LIST, &params).await?;
    let found = rows.into_iter().map(read).collect::<Result<Vec<_>, _>>()?;
    Ok(listed(found, limit))
}

/// Deletes requests that ended more than `age_ms_max` ago, and the oldest beyond `count_max`. Returns the number of deleted
/// ones; the next call deletes the rest.
pub(crate) async fn retain(tx: &mut Tx, age_ms_max: Option<Millis>, count_max: i64) -> Result<u64, Error> {
    // Each statement reads one index only, from its end.
    let mut deleted = tx
        .execute(
            "DELETE FROM gateway_requests WHERE number IN (
                SELECT number FROM gateway_requests WHERE number <= (SELECT max(number) FROM gateway_requests) - $1
                ORDER BY number LIMIT $2)",
            &[count_max.into(), DELETED_MAX.into()],
        )
        .await?;
    if let Some(age) = age_ms_max {
        deleted += tx
            .execute(
                "DELETE FROM gateway_requests WHERE number IN (
                    SELECT number FROM gateway_requests WHERE finished_at < {now} - $1
                    ORDER BY finished_at LIMIT $2)",
                &[age.into(), DELETED_MAX.into()],
            )
            .await?;
    }
    Ok(deleted)
}

fn read(mut row: Row) -> Result<(i64, RequestRecord), Error> {
    let number = row.integer()?;
    let request = GatewayRequest {
        request_id: row.text()?,
        created_by: row.optional_text()?,
        requested_model: row.text()?,
        backend: row.optional_text()?,
        model: row.optional_text()?,
        error_type: row.optional_text()?,
        error_message: row.optional_text()?,
        strategy: row.optional_text()?,
        has_contract: row.flag()?,
        is_streamed: row.flag()?,
        calls: count(&mut row)?,
        retry_count: count(&mut row)?,
        repairs: count(&mut row)?,
        escalations: count(&mut row)?,
        tokens: Tokens { input: count(&mut row)?, output: count(&mut row)? },
        duration_ms: 0,
    };
    let (started_at, finished_at) = (row.integer()?, row.integer()?);
    let duration_ms = u64::try_from(finished_at - started_at).unwrap_or(0);
    Ok((
        number,
        RequestRecord { request: GatewayRequest { duration_ms, ..request }, started_at, finished_at },
    ))
}

/// Reads a count; one that does not fit is damaged and becomes zero.
fn count<T: TryFrom<i64> + Default>(row: &mut Row) -> Result<T, Error> {
    Ok(T::try_from(row.integer()?).unwrap_or_default())
}
