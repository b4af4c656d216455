//! What runs began with, remembered while runners work on them: it is looked at when they are claimed and again when
//! they end, and asking the store twice costs as much as the end itself.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Deserialize;
use slipform_schema::Schema;
use slipform_store::Millis;
use slipform_types::{Blueprint, Contract, ResponseType, RunId};

/// The most runs that are remembered. The beginnings of others are read again.
const REMEMBERED_MAX: usize = 1_024;

/// The parts of a `run_start` that are looked at, read without the rest.
#[derive(Debug, Deserialize)]
pub(super) struct Beginning {
    pub(super) blueprint: Blueprint,
    #[serde(default)]
    pub(super) contract: Option<Contract>,
}

/// What a run began with.
#[derive(Debug, Clone)]
pub(super) struct Start {
    /// When.
    pub(super) at: Millis,
    /// What its result has to satisfy.
    pub(super) schema: Option<Schema>,
    /// The kind of its agent's universal responses, where it has one.
    pub(super) own: Option<ResponseType>,
}

/// What is remembered.
#[derive(Debug, Default)]
pub(super) struct RunStartCache {
    known: Mutex<HashMap<RunId, Start>>,
}

impl RunStartCache {
    pub(super) fn get(&self, run: &RunId) -> Option<Start> {
        self.known().get(run).cloned()
    }

    pub(super) fn remember(&self, run: RunId, start: Start) {
        let mut known = self.known();
        if known.len() >= REMEMBERED_MAX {
            known.clear();
        }
        known.insert(run, start);
    }

    pub(super) fn forget(&self, run: &RunId) {
        self.known().remove(run);
    }

    fn known(&self) -> MutexGuard<'_, HashMap<RunId, Start>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
