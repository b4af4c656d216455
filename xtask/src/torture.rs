//! `cargo xtask torture`: runs the fault tests with more kills, and prints one table of the results.

use anyhow::{Context as _, Result, bail};

use crate::shell::{self, command};

/// The number of kills on each store without `--kills`.
const KILLS: u32 = 500;

/// The variables that configure the fault tests.
const KILLS_VARIABLE: &str = "SLIPFORM_TORTURE_KILLS";
const SEED_VARIABLE: &str = "SLIPFORM_TORTURE_SEED";
const TABLE_VARIABLE: &str = "SLIPFORM_TORTURE_TABLE";

/// The head of the table; each test appends a row.
const TABLE_HEAD: &str =
    "| store | faults | acknowledged | lost | doubled | repeated calls |\n|---|---|---|---|---|---|\n";

pub(crate) fn run(rest: &[String]) -> Result<()> {
    let (mut kills, mut seed, mut stores) = (KILLS, None, vec!["sqlite", "postgres"]);
    for pair in rest.chunks(2) {
        let [name, value] = pair else { bail!("`{}` needs a value", pair.concat()) };
        match name.as_str() {
            "--kills" => kills = value.parse().context("`--kills` must be a number")?,
            "--seed" => seed = Some(value.parse::<u64>().context("`--seed` must be a number")?),
            "--store" => match stores.iter().find(|store| *store == value) {
                Some(store) => stores = vec![store],
                None => bail!("`--store` must be sqlite or postgres"),
            },
            other => bail!("unknown option `{other}`; use --kills, --store or --seed"),
        }
    }
    let table = std::env::temp_dir().join(format!("slipform-torture-{}.md", std::process::id()));
    let _ = std::fs::remove_file(&table);
    for store in stores {
        // The fault tests do not use the embedded model, which takes long to build.
        let mut test = command(
            "cargo",
            &["test", "--quiet", "--package", "slipform", "--no-default-features", "--test", "faults", "--"],
        );
        test.args(["--exact", &format!("torture::random_kills_lose_nothing_on_{store}"), "--nocapture"]);
        test.env(KILLS_VARIABLE, kills.to_string()).env(TABLE_VARIABLE, &table);
        test.envs(seed.map(|seed| (SEED_VARIABLE, seed.to_string())));
        shell::run(&format!("torture on {store}"), &mut test)?;
    }
    let rows = std::fs::read_to_string(&table).unwrap_or_default();
    println!("\n{TABLE_HEAD}{rows}");
    let _ = std::fs::remove_file(&table);
    Ok(())
}
