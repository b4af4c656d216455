//! Saves agents and schemas by name.

use crate::error::Error;
use crate::record::{RegistryEntry, RegistryKind};
use crate::tx::{Row, Tx};

/// An entry to save.
pub(crate) struct Item {
    pub(crate) kind: RegistryKind,
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) description: Option<String>,
}

fn column(kind: RegistryKind) -> &'static str {
    match kind {
        RegistryKind::Agents => "agent",
        RegistryKind::Schemas => "schema",
    }
}

pub(crate) async fn all(tx: &mut Tx, kind: RegistryKind) -> Result<Vec<RegistryEntry>, Error> {
    let rows = tx
        .query(
            "SELECT name, text, description, created_at, updated_at FROM registry WHERE kind = $1 ORDER BY name",
            &[column(kind).into()],
        )
        .await?;
    let mut all = rows.into_iter().map(entry).collect::<Result<Vec<_>, _>>()?;
    // PostgreSQL sorts by the database's collation, so sort by bytes here.
    all.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(all)
}

pub(crate) async fn one(tx: &mut Tx, kind: RegistryKind, name: &str) -> Result<Option<RegistryEntry>, Error> {
    let row = tx
        .query_one(
            "SELECT name, text, description, created_at, updated_at FROM registry WHERE kind = $1 AND name = $2",
            &[column(kind).into(), name.into()],
        )
        .await?;
    row.map(entry).transpose()
}

pub(crate) async fn add(tx: &mut Tx, item: &Item) -> Result<bool, Error> {
    let added = tx
        .execute(
            "INSERT INTO registry (kind, name, text, description, created_at, updated_at)
                VALUES ($1, $2, $3, $4, {now}, {now})
             ON CONFLICT (kind, name) DO NOTHING",
            &[
                column(item.kind).into(),
                (&item.name).into(),
                (&item.text).into(),
                item.description.as_deref().into(),
            ],
        )
        .await?;
    Ok(added == 1)
}

pub(crate) async fn replace(tx: &mut Tx, item: &Item, before: &str) -> Result<bool, Error> {
    let replaced = tx
        .execute(
            "UPDATE registry SET text = $3, updated_at = {now} WHERE kind = $1 AND name = $2 AND text = $4",
            &[column(item.kind).into(), (&item.name).into(), (&item.text).into(), before.into()],
        )
        .await?;
    Ok(replaced == 1)
}

pub(crate) async fn remove(tx: &mut Tx, kind: RegistryKind, name: &str) -> Result<bool, Error> {
    let removed = tx
        .execute("DELETE FROM registry WHERE kind = $1 AND name = $2", &[column(kind).into(), name.into()])
        .await?;
    Ok(removed == 1)
}

fn entry(mut row: Row) -> Result<RegistryEntry, Error> {
    Ok(RegistryEntry {
        name: row.text()?,
        text: row.text()?,
        description: row.optional_text()?,
        created_at: row.integer()?,
        updated_at: row.integer()?,
    })
}
