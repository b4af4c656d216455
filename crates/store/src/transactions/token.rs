//! Stores API tokens.

use crate::error::Error;
use crate::record::TokenRecord;
use crate::tx::{Row, Tx};

pub(crate) async fn add(tx: &mut Tx, token: &TokenRecord) -> Result<(), Error> {
    tx.execute(
        "INSERT INTO tokens (token_id, name, scope, hash, created_at) VALUES ($1, $2, $3, $4, {now})",
        &[(&token.token_id).into(), (&token.name).into(), (&token.scope).into(), (&token.hash).into()],
    )
    .await?;
    Ok(())
}

pub(crate) async fn all(tx: &mut Tx) -> Result<Vec<TokenRecord>, Error> {
    let rows =
        tx.query("SELECT token_id, name, scope, hash, created_at FROM tokens ORDER BY number", &[]).await?;
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
        created_at: row.integer()?,
    })
}
