//! `slipform probe`: tests which schema features a backend enforces and stores the verdict.

use anyhow::{Context as _, Result, bail};
use slipform_model::Error;
use slipform_model::probe::{Finding, Verdict, probe};
use slipform_types::BackendKind;

use crate::arguments::Probe;
use crate::backends::{self, Verdicts, environment};
use crate::exit::Exit;
use crate::output;
use crate::settings::Settings;

pub(crate) fn run(arguments: &Probe) -> Result<Exit> {
    let project = std::env::current_dir().context("cannot read the current folder")?;
    let settings = Settings::read(&project, &environment)?;
    let name = arguments.backend.as_ref().unwrap_or(&settings.default_backend);
    let config = settings.backend(name)?;
    if config.kind == BackendKind::Replay {
        bail!(
            "backend `{name}` answers from recorded replies, so there is nothing to test; name another backend"
        );
    }
    backends::runtime()?.block_on(async {
        let (config, backend) = backends::open(config).await?;
        let progress = |feature: &str| {
            if output::is_terminal() {
                output::progress(&format!("{} · testing {feature}", config.name));
            }
        };
        let outcome = probe(backend.as_ref(), &progress).await;
        if output::is_terminal() {
            output::progress("");
        }
        let verdict = match outcome {
            Ok(verdict) => verdict,
            Err(error @ Error::Settings(_)) => return Err(error.into()),
            Err(error) => {
                output::lines([format!("slipform: {}: {error}", config.name)]);
                return Ok(Exit::Backend);
            }
        };
        if arguments.json {
            output::data(&backends::verdict_value(&config, &verdict)?)?;
        } else {
            output::text(&format!(
                "{} · {}",
                config.name,
                config.model.as_deref().unwrap_or("(server default)")
            ))?;
            table(&verdict)?;
        }
        Verdicts::read(&project).save(&config, verdict)?;
        Ok(Exit::Valid)
    })
}

fn table(verdict: &Verdict) -> Result<()> {
    let held = |held: Option<bool>| match held {
        Some(true) => "held",
        Some(false) => "broken",
        None => "-",
    };
    output::text("feature       verdict   enum    extra property  number bound  answer")?;
    for Finding { feature, support, enumeration, extra_property, number_bound, evidence } in &verdict.findings
    {
        output::text(&format!(
            "{feature:12}  {:8}  {:6}  {:14}  {:12}  {}",
            support.name(),
            held(*enumeration),
            held(*extra_property),
            held(*number_bound),
            evidence.chars().take(60).collect::<String>(),
        ))?;
    }
    Ok(())
}
