//! PostgreSQL: to come.
use crate::error::Error;
use crate::tx::{Param, Perform, Row};
use std::sync::Arc;
use tokio::sync::watch;
pub(crate) struct Link;
impl Link {
    pub(crate) async fn execute(&mut self, _: &'static str, _: &[Param<'_>]) -> Result<u64, Error> {
        Ok(0)
    }
    pub(crate) async fn execute_each(&mut self, _: &'static str, _: &[Vec<Param<'_>>]) -> Result<(), Error> {
        Ok(())
    }
    pub(crate) async fn query(&mut self, _: &'static str, _: &[Param<'_>]) -> Result<Vec<Row>, Error> {
        Ok(vec![])
    }
}
#[derive(Debug)]
pub(crate) struct Postgres;
impl Postgres {
    pub(crate) async fn open(_: &str, _: &Arc<watch::Sender<u64>>) -> Result<Postgres, Error> {
        Err(Error::Unsuitable("PostgreSQL is not built yet".into()))
    }
    pub(crate) async fn transact<A, R>(&self, _: A, _: Perform<A, R>) -> Result<R, Error> {
        Err(Error::Unsuitable("no".into()))
    }
    pub(crate) async fn read<A, R>(&self, _: A, _: Perform<A, R>) -> Result<R, Error> {
        Err(Error::Unsuitable("no".into()))
    }
}
