//! Returns the space of deleted rows to the file system. PostgreSQL's autovacuum does this by itself.

use crate::error::Error;
use crate::tx::Tx;

/// Pages that stay in the database for new rows: 4 MiB.
const FREE_PAGES_KEPT: i64 = 1024;

/// Free pages that are worth a message if the database cannot return them: 64 MiB.
pub(crate) const FREE_PAGES_REPORTED: i64 = 16_384;

/// The value of `PRAGMA auto_vacuum` for `INCREMENTAL`.
const INCREMENTAL: i64 = 2;

/// The free space of a SQLite database.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct FreeSpace {
    pub(crate) pages: i64,
    /// Whether the database can return pages. Databases of earlier versions cannot.
    pub(crate) can_shrink: bool,
}

impl FreeSpace {
    /// Whether [`release`] would return pages.
    pub(crate) fn is_releasable(&self) -> bool {
        self.can_shrink && self.pages > FREE_PAGES_KEPT
    }
}

/// Reads the free space. PostgreSQL reports none.
pub(crate) async fn free(tx: &mut Tx) -> Result<FreeSpace, Error> {
    if !tx.is_single_writer() {
        return Ok(FreeSpace::default());
    }
    let pages = pragma(tx, "PRAGMA freelist_count").await?;
    let can_shrink = pragma(tx, "PRAGMA auto_vacuum").await? == INCREMENTAL;
    Ok(FreeSpace { pages, can_shrink })
}

/// Moves pages from the end of the file to free places and shortens the database, by 1 MiB. Other writes wait
/// meanwhile. Returns the free space that is left.
pub(crate) async fn release(tx: &mut Tx) -> Result<FreeSpace, Error> {
    if free(tx).await?.is_releasable() {
        tx.query("PRAGMA incremental_vacuum(256)", &[]).await?;
    }
    free(tx).await
}

async fn pragma(tx: &mut Tx, sql: &'static str) -> Result<i64, Error> {
    let row = tx.query_one(sql, &[]).await?;
    row.map_or(Ok(0), |mut row| row.integer())
}
