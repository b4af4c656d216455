//! `cargo xtask torture`: the fault tests' kills, more of them.

use anyhow::{Context as _, Result, bail};

use crate::shell::{self, command};

/// How many kills there are unless told.
const KILLS: u32 = 500;

/// What the test is told by.
const KILLS_VARIABLE: &str = "SLIPFORM_TORTURE_KILLS";
const SEED_VARIABLE: &str = "SLIPFORM_TORTURE_SEED";

pub(crate) fn run(rest: &[String]) -> Result<()> {
    let (mut kills, mut seed, mut stores) = (KILLS, None, vec!["sqlite", "postgres"]);
    for pair in rest.chunks(2) {
        let [name, value] = pair else { bail!("{} needs a value", pair.concat()) };
        match name.as_str() {
            "--kills" => kills = value.parse().context("--kills is a number")?,
            "--seed" => seed = Some(value.parse::<u64>().context("--seed is a number")?),
            "--store" => match stores.iter().find(|store| *store == value) {
                Some(store) => stores = vec![store],
                None => bail!("--store is sqlite or postgres"),
            },
            other => bail!("torture does not know {other}"),
        }
    }
    for store in stores {
        // The embedded model takes no part in it, and takes long to build.
        let mut test = command(
            "cargo",
            &["test", "--quiet", "--package", "slipform", "--no-default-features", "--test", "faults", "--"],
        );
        test.args(["--exact", &format!("torture::random_kills_lose_nothing_on_{store}"), "--nocapture"]);
        test.env(KILLS_VARIABLE, kills.to_string());
        test.envs(seed.map(|seed| (SEED_VARIABLE, seed.to_string())));
        shell::run(&format!("torture on {store}"), &mut test)?;
    }
    Ok(())
}
