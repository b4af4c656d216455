//! The command `slipform-benches`, which `cargo xtask bench` runs: one subcommand per benchmark.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "reports go to the terminal")]

use anyhow::{Result, bail};
use slipform_benches::{corpus, correction, embedded, grammar, overhead, report, speed};

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |flag: &str| arguments.iter().any(|argument| argument == flag);
    match arguments.first().map(String::as_str) {
        Some("correction") => return correction::run(),
        Some("overhead") => return overhead::run(arguments.get(1).map(std::path::Path::new)),
        Some("embedded") => {
            let [_, model, python] = arguments.as_slice() else { bail!("usage: embedded MODEL PYTHON") };
            return embedded::run(model.as_ref(), python.as_ref());
        }
        Some("overhead-server") => {
            return overhead::serve(arguments.get(1).is_some_and(|mode| mode == "whole"));
        }
        _ => {}
    }
    let Some(folder) = corpus::folder() else {
        bail!("corpora not found; put them in ../shared/corpora beside the checkout")
    };
    match arguments.first().map(String::as_str) {
        Some("extract") => {
            report::accuracy(&folder, !has("--no-peers"))?;
            let rate = speed::real(&folder)?;
            if !has("--no-peers") {
                speed::scripted(&folder, rate)?;
            }
            speed::clean(&folder)?;
            speed::linear();
            Ok(())
        }
        Some("grammar") => grammar::run(&folder, &grammar::Options::parse(&arguments[1..])?),
        Some("misses") => report::misses(&folder, arguments.get(1).map_or("", String::as_str)),
        _ => bail!(
            "usage: slipform-benches extract [--no-peers] | misses [MEASURE] | correction | overhead [PYTHON] | \
             grammar --model PATH [--only A,B] [--every N] | embedded MODEL PYTHON"
        ),
    }
}
