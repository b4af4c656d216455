//! What is kept under names.

use crate::error::Error;
use crate::record::{Named, Shelf};
use crate::tx::{Row, Tx};

/// Something that is to be put on a shelf.
pub(crate) struct Item {
    pub(crate) shelf: Shelf,
    pub(crate) name: String,
    pub(crate) text: String,
}

fn kind(shelf: Shelf) -> &'static str {
    match shelf {
        Shelf::Agents => "agent",
        Shelf::Schemas => "schema",
    }
}

pub(crate) async fn all(tx: &mut Tx, shelf: Shelf) -> Result<Vec<Named>, Error> {
    let rows = tx
        .query(
            "SELECT name, text, created_at, updated_at FROM shelf WHERE kind = $1 ORDER BY name",
            &[kind(shelf).into()],
        )
        .await?;
    let mut all = rows.into_iter().map(named).collect::<Result<Vec<_>, _>>()?;
    // PostgreSQL sorts by the customs of the database's country.
    all.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(all)
}

pub(crate) async fn one(tx: &mut Tx, shelf: Shelf, name: &str) -> Result<Option<Named>, Error> {
    let row = tx
        .query_one(
            "SELECT name, text, created_at, updated_at FROM shelf WHERE kind = $1 AND name = $2",
            &[kind(shelf).into(), name.into()],
        )
        .await?;
    row.map(named).transpose()
}

pub(crate) async fn add(tx: &mut Tx, item: &Item) -> Result<bool, Error> {
    let added = tx
        .execute(
            "INSERT INTO shelf (kind, name, text, created_at, updated_at) VALUES ($1, $2, $3, {now}, {now})
             ON CONFLICT (kind, name) DO NOTHING",
            &[kind(item.shelf).into(), (&item.name).into(), (&item.text).into()],
        )
        .await?;
    Ok(added == 1)
}

pub(crate) async fn replace(tx: &mut Tx, item: &Item) -> Result<bool, Error> {
    let replaced = tx
        .execute(
            "UPDATE shelf SET text = $3, updated_at = {now} WHERE kind = $1 AND name = $2",
            &[kind(item.shelf).into(), (&item.name).into(), (&item.text).into()],
        )
        .await?;
    Ok(replaced == 1)
}

pub(crate) async fn remove(tx: &mut Tx, shelf: Shelf, name: &str) -> Result<bool, Error> {
    let removed = tx
        .execute("DELETE FROM shelf WHERE kind = $1 AND name = $2", &[kind(shelf).into(), name.into()])
        .await?;
    Ok(removed == 1)
}

fn named(mut row: Row) -> Result<Named, Error> {
    Ok(Named { name: row.text()?, text: row.text()?, created_at: row.integer()?, updated_at: row.integer()? })
}
