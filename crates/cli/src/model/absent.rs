//! `slipform model` in a build without the embedded model.

use anyhow::{Result, bail};

use crate::arguments::Model;
use crate::exit::Exit;

pub(crate) fn run(_arguments: &Model) -> Result<Exit> {
    bail!("this build has no embedded model; build it with the feature `embedded`, which is on by default")
}
