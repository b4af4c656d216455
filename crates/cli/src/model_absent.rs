//! `slipform model` in a build without the embedded model: reports the missing feature.

use anyhow::{Result, bail};

use crate::arguments::Model;
use crate::exit::Exit;

pub(crate) fn run(_arguments: &Model) -> Result<Exit> {
    bail!("this build has no embedded model; rebuild with the default cargo feature `embedded`")
}
