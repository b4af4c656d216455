//! Stores API tokens.

use super::encoding::{from_json, to_json};
use crate::error::Error;
use crate::record::{Millis, TokenRecord};
use crate::tx::{Row, Tx};

pub(crate) async fn add(tx: &mut Tx, token: &TokenRecord, lifetime_ms: Option<Millis>) -> Result<(), Error> {
    let agents = token.agents.as_ref().map(to_json).transpose()?;
    tx.execute(
        "INSERT INTO tokens (token_id, name, scope, hash, agents, reads_all, expires_at, created_at,
            requests_per_minute, tokens_per_minute)
         VALUES ($1, $2, $3, $4, $5, $6, {now} + $7, {now}, $8, $9)",
        &[
            (&token.token_id).into(),
            (&token.name).into(),
            (&token.scope).into(),
            (&token.hash).into(),
            agents.as_deref().into(),
            i64::from(token.reads_all).into(),
            lifetime_ms.into(),
            token.requests_per_minute.map(i64::from).into(),
            token.tokens_per_minute.map(i64::from).into(),
        ],
    )
    .await?;
    Ok(())
}

pub(crate) async fn all(tx: &mut Tx) -> Result<Vec<TokenRecord>, Error> {
    let rows = tx
        .query(
            "SELECT token_id, name, scope, hash, agents, reads_all, created_at, expires_at,
                CASE WHEN expires_at <= {now} THEN CAST(1 AS BIGINT) ELSE 0 END,
                requests_per_minute, tokens_per_minute
             FROM tokens ORDER BY number",
            &[],
        )
        .await?;
    rows.into_iter().map(record).collect()
}

pub(crate) async fn revoke(tx: &mut Tx, token_id: &str) -> Result<bool, Error> {
    Ok(tx.execute("DELETE FROM tokens WHERE token_id = $1", &[token_id.into()]).await? == 1)
}

fn record(mut row: Row) -> Result<TokenRecord, Error> {
    Ok(TokenRecord {
        token_id: row.text()?,
        name: row.text()?,
        scope: row.text()?,
        hash: row.text()?,
        agents: row.optional_text()?.as_deref().map(from_json).transpose()?,
        reads_all: row.flag()?,
        created_at: row.integer()?,
        expires_at: row.optional_integer()?,
        is_expired: row.flag()?,
        requests_per_minute: row.optional_integer()?.and_then(|limit| u32::try_from(limit).ok()),
        tokens_per_minute: row.optional_integer()?.and_then(|limit| u32::try_from(limit).ok()),
    })
}
