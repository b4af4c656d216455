//! The peers of the extractor: two Rust crates, and two libraries that run in a Python or Node process.

use std::collections::HashMap;
use std::fs;
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};

use crate::accuracy::Answer;

/// The answers of a peer, by text.
pub type Answers = HashMap<String, Answer>;

/// Another extractor.
pub struct Peer {
    pub name: &'static str,
    pub kind: PeerKind,
}

/// The interface of a peer.
pub enum PeerKind {
    /// A Rust crate.
    Linked(fn(&str) -> Answer),
    /// A script that reads texts and writes answers, one per JSON line.
    Scripted { program: PathBuf, script: &'static str },
}

/// Returns the installed peers, and prints the names of the others.
pub fn all() -> Vec<Peer> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let installed = root.join("../target/peers");
    let mut peers = vec![
        Peer {
            name: "llm_json",
            kind: PeerKind::Linked(|text| llm_json::loads(text, &llm_json::RepairOptions::default()).ok()),
        },
        Peer {
            name: "rs jsonrepair",
            kind: PeerKind::Linked(|text| jsonrepair::loads(text, &jsonrepair::Options::default()).ok()),
        },
    ];
    let python = installed.join("python/bin/python");
    if python.is_file() {
        peers.push(Peer {
            name: "json_repair",
            kind: PeerKind::Scripted { program: python, script: "json_repair_peer.py" },
        });
    } else {
        println!("(python json_repair not found; run `cargo xtask bench extract` to install it)");
    }
    if installed.join("node/node_modules/jsonrepair").is_dir() {
        peers.push(Peer {
            name: "npm jsonrepair",
            kind: PeerKind::Scripted { program: "node".into(), script: "jsonrepair_peer.mjs" },
        });
    } else {
        println!("(npm jsonrepair not found; run `cargo xtask bench extract` to install it)");
    }
    peers
}

impl Peer {
    /// Extracts all texts. Returns the answers, and the seconds that a scripted peer reports.
    pub fn answers_for(&self, texts: &[String]) -> Result<(Answers, Option<f64>)> {
        match &self.kind {
            PeerKind::Linked(run) => {
                let hook = std::panic::take_hook();
                std::panic::set_hook(Box::new(|_| {}));
                let answers = texts
                    .iter()
                    .map(|text| (text.clone(), catch_unwind(AssertUnwindSafe(|| run(text))).ok().flatten()))
                    .collect();
                std::panic::set_hook(hook);
                Ok((answers, None))
            }
            PeerKind::Scripted { program, script } => run_script(program, script, texts),
        }
    }
}

fn run_script(program: &Path, script: &str, texts: &[String]) -> Result<(Answers, Option<f64>)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let work = root.join("../target/peers");
    let input = work.join("texts.jsonl");
    let output = work.join("answers.jsonl");
    let mut file = fs::File::create(&input).with_context(|| format!("writing {}", input.display()))?;
    for text in texts {
        writeln!(file, "{}", json!({"text": text}))?;
    }
    let status = Command::new(program)
        .arg(root.join("peers").join(script))
        .arg(&input)
        .arg(&output)
        .env("NODE_PATH", work.join("node/node_modules"))
        .current_dir(work.join("node"))
        .status()
        .with_context(|| format!("running {script}"))?;
    if !status.success() {
        bail!("{script} failed: {status}");
    }
    let mut seconds = None;
    let mut answers = Answers::new();
    let lines = fs::read_to_string(&output)?;
    let mut texts = texts.iter();
    for line in lines.lines() {
        // An answer that is nested too deeply to parse counts as no answer.
        let row: Value = serde_json::from_str(line).unwrap_or_default();
        if let Some(total) = row["seconds"].as_f64() {
            seconds = Some(total);
        } else if let Some(text) = texts.next() {
            let answer = row["found"].as_bool().unwrap_or(false).then(|| row["value"].clone());
            answers.insert(text.clone(), answer);
        }
    }
    Ok((answers, seconds))
}
