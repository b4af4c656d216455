//! The time of a SQLite database.
//!
//! PostgreSQL's server has one clock. A SQLite database has the clock of the machine, which someone may set, and which
//! jumps when the machine wakes from a suspend. Leases must neither end nor last longer because of that.
//!
//! So the database's time is the elapsed time of the machine plus an offset, which is stored. When the offset between
//! the machine's time of day and its elapsed time changes, the next writer moves the stored times of unfinished runs
//! by the change and stores the new offset, in one transaction. Processes that share the database then find the new
//! offset and move nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use rusqlite::functions::FunctionFlags;
use rusqlite::{Connection, OptionalExtension as _, Transaction, TransactionBehavior};

use crate::clock::{Clock, boot_id};
use crate::error::Error;
use crate::record::Millis;

/// Smallest change of the offset that counts as a jump. Reading two clocks takes far less, and leases are longer.
const JUMP_MS_MIN: Millis = 1_000;

/// Time between two readings that belong together from which on they do not.
const PAUSE_MS_MIN: Millis = 100;

/// Maximum number of readings. A wrong one moves the time and all leases together, until the next one is right.
const READINGS_MAX: usize = 5;

/// The time of an open database. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct DatabaseTime {
    clock: Clock,
    /// The database's time minus the elapsed time, in milliseconds.
    offset: Arc<AtomicI64>,
}

impl DatabaseTime {
    pub(crate) fn new(clock: Clock) -> DatabaseTime {
        let time = DatabaseTime { clock, offset: Arc::default() };
        time.offset.store(time.measure(), Ordering::Relaxed);
        time
    }

    /// Makes the time available to statements as `slipform_now()`.
    pub(crate) fn install(&self, connection: &Connection) -> Result<(), Error> {
        let time = self.clone();
        connection
            .create_scalar_function("slipform_now", 0, FunctionFlags::SQLITE_UTF8, move |_| Ok(time.now()))
            .map_err(super::connection::error)
    }

    /// Whether the time of day has jumped since the offset was read or stored.
    pub(crate) fn has_jumped(&self) -> bool {
        is_jump(self.measure() - self.offset.load(Ordering::Relaxed))
    }

    /// Takes over the stored offset. If the time of day has jumped since it was stored, moves the times of unfinished
    /// runs first.
    pub(crate) fn synchronize(&self, connection: &mut Connection) -> Result<(), Error> {
        let transaction = connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(super::connection::error)?;
        let offset = self.adjust(&transaction).map_err(super::connection::error)?;
        transaction.commit().map_err(super::connection::error)?;
        self.offset.store(offset, Ordering::Relaxed);
        Ok(())
    }

    fn adjust(&self, transaction: &Transaction<'_>) -> rusqlite::Result<Millis> {
        let (boot, measured) = (boot_id(), self.measure());
        let stored = transaction
            .query_row("SELECT boot_id, offset_ms FROM clock", [], |row| {
                Ok((row.get::<_, String>(0)?, row.get::<_, Millis>(1)?))
            })
            .optional()?;
        let jump = match stored {
            Some((stored_boot, offset)) if stored_boot == boot && !boot.is_empty() => {
                if !is_jump(measured - offset) {
                    return Ok(offset);
                }
                measured - offset
            }
            // The elapsed time of an earlier start of the machine is not known. At least the time must not run back.
            _ => last_time(transaction)?.map_or(0, |last| (self.clock.time_of_day() - last).min(0)),
        };
        if is_jump(jump) {
            tracing::warn!(
                jump_ms = jump,
                "the machine's clock has jumped; moving leases and deadlines along"
            );
            move_times(transaction, jump)?;
        }
        transaction.execute("DELETE FROM clock", [])?;
        transaction.execute("INSERT INTO clock (boot_id, offset_ms) VALUES (?1, ?2)", (boot, measured))?;
        Ok(measured)
    }

    fn now(&self) -> Millis {
        self.clock.elapsed().saturating_add(self.offset.load(Ordering::Relaxed))
    }

    /// Reads both clocks again if the system has paused the process in between.
    fn measure(&self) -> Millis {
        let mut measured = 0;
        for _ in 0..READINGS_MAX {
            let before = self.clock.elapsed();
            measured = self.clock.time_of_day().saturating_sub(before);
            if self.clock.elapsed() - before < PAUSE_MS_MIN {
                break;
            }
        }
        measured
    }
}

fn is_jump(change: Millis) -> bool {
    change.saturating_abs() >= JUMP_MS_MIN
}

/// Returns the latest time at which the database was written to, as far as it is known.
fn last_time(transaction: &Transaction<'_>) -> rusqlite::Result<Option<Millis>> {
    transaction.query_row(
        "SELECT max(at) FROM (
            SELECT at FROM (SELECT at FROM events ORDER BY position DESC LIMIT 1)
            UNION ALL SELECT max(seen_at) FROM runners
            UNION ALL SELECT max(available_at) FROM runs WHERE available_at IS NOT NULL)",
        [],
        |row| row.get(0),
    )
}

/// Moves the times that are compared with the current time. Times that only inform stay as they are.
fn move_times(transaction: &Transaction<'_>, change: Millis) -> rusqlite::Result<()> {
    transaction.execute(
        "UPDATE runs SET lease_until = lease_until + ?1, available_at = available_at + ?1,
            deadline_at = deadline_at + ?1, stop_asked_at = stop_asked_at + ?1
         WHERE status IN ('pending', 'claimed', 'running', 'waiting', 'stopping')",
        [change],
    )?;
    transaction.execute("UPDATE runners SET seen_at = seen_at + ?1", [change])?;
    Ok(())
}
