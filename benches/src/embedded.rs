//! The speed of the embedded model beside llama.cpp with the same weights and threads, measured in turns; the cost of
//! token masks; and the time that the prompt cache saves.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use serde_json::Value;
use slipform_embedded::gguf::Gguf;
use slipform_embedded::runtime::{self, Options, Runtime};
use slipform_embedded::{Interrupt, Model, Settings};
use slipform_schema::compact;
use slipform_types::{Format, Message, Request};

/// Rounds of interleaved measurement. The median counts.
const ROUNDS: usize = 5;

/// Token counts of a typical agent prompt with its contract, and of a typical answer.
const PROMPT_TOKENS: usize = 400;
const DECODE_TOKENS: usize = 64;

/// The number of conformance tasks that measure the cost of masks.
const TASKS: usize = 8;

/// llama.cpp in a separate process that measures on request.
struct Peer {
    child: Child,
    requests: ChildStdin,
    responses: BufReader<ChildStdout>,
}

impl Peer {
    fn start(python: &Path, model: &Path, threads: usize) -> Result<Peer> {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("conformance/llama_speed.py");
        let mut child = Command::new(python)
            .arg(script)
            .arg(model)
            .arg(threads.to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .context("starting llama.cpp")?;
        let requests = child.stdin.take().context("llama.cpp has no stdin")?;
        let mut responses = BufReader::new(child.stdout.take().context("llama.cpp has no stdout")?);
        let mut line = String::new();
        responses.read_line(&mut line)?;
        anyhow::ensure!(line.trim() == "ready", "llama.cpp did not start");
        Ok(Peer { child, requests, responses })
    }

    fn measure(&mut self) -> Result<Speed> {
        writeln!(self.requests, "{PROMPT_TOKENS} {DECODE_TOKENS}")?;
        let mut line = String::new();
        self.responses.read_line(&mut line)?;
        let value: Value = serde_json::from_str(&line).context("llama.cpp's figures")?;
        let seconds = |name: &str| Duration::from_secs_f64(value[name].as_f64().unwrap_or(f64::MAX));
        Ok(Speed::of(seconds("prompt"), seconds("decode")))
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Tokens per second.
#[derive(Debug, Clone, Copy)]
struct Speed {
    prompt: f64,
    decode: f64,
}

impl Speed {
    fn of(prompt: Duration, decode: Duration) -> Speed {
        Speed {
            prompt: PROMPT_TOKENS as f64 / prompt.as_secs_f64(),
            decode: DECODE_TOKENS as f64 / decode.as_secs_f64(),
        }
    }
}

/// Measures the embedded runtime.
fn own_speed(runtime: &mut dyn Runtime) -> Result<Speed> {
    runtime.rewind(0);
    let prompt: Vec<u32> = (0..PROMPT_TOKENS).map(|index| (1000 + 7 * index % 20_000) as u32).collect();
    let start = Instant::now();
    let mut token = most_likely(runtime.eval(&prompt)?);
    let read = start.elapsed();
    let start = Instant::now();
    for _ in 0..DECODE_TOKENS {
        token = most_likely(runtime.eval(&[token])?);
    }
    Ok(Speed::of(read, start.elapsed()))
}

fn most_likely(logits: &[f32]) -> u32 {
    let best = logits.iter().enumerate().max_by(|left, right| left.1.total_cmp(right.1));
    best.map_or(0, |(token, _)| token as u32)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// Measures and prints the table.
pub fn run(model: &Path, python: &Path) -> Result<()> {
    let threads = Options::default().threads;
    let mut runtime = runtime::load(&mut Gguf::open(model)?, Options::default())?;
    let mut peer = Peer::start(python, model, threads)?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        ours.push(own_speed(runtime.as_mut())?);
        theirs.push(peer.measure()?);
    }
    drop((runtime, peer));
    println!(
        "\n## Speed beside llama.cpp ({threads} threads, {PROMPT_TOKENS} prompt tokens, {DECODE_TOKENS} decoded)\n"
    );
    println!("| | embedded | llama.cpp | ratio |\n|---|---|---|---|");
    for (name, part) in [
        ("prompt tokens/s", (|speed| speed.prompt) as fn(&Speed) -> f64),
        ("decoded tokens/s", |speed| speed.decode),
    ] {
        let ratios = ours.iter().zip(&theirs).map(|(ours, theirs)| part(ours) / part(theirs)).collect();
        let median_of = |speeds: &[Speed]| median(speeds.iter().map(part).collect());
        println!("| {name} | {:.1} | {:.1} | {:.2} |", median_of(&ours), median_of(&theirs), median(ratios));
    }
    masks(model)
}

/// Measures the share of masks in the decode time, and the time that a cached prompt prefix saves.
fn masks(path: &Path) -> Result<()> {
    let mut model = Model::load(path, &Settings::default())?;
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("conformance/tasks.json");
    let tasks: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(file)?)?;
    let (mut masks, mut decode, mut tokens) = (Duration::ZERO, Duration::ZERO, 0);
    let step = tasks.len().div_ceil(TASKS).max(1);
    let mut answer = |request: &Request| model.answer(request, &Interrupt::default(), &mut |_: usize| {});
    for task in tasks.iter().step_by(step) {
        let timing = answer(&request(task, task["prompt"].as_str().unwrap_or_default()))?.timing;
        masks += timing.masks;
        decode += timing.decode;
        tokens += timing.decoded_tokens;
    }
    let share = 100.0 * masks.as_secs_f64() / (masks + decode).as_secs_f64();
    println!("\nMasks and forced closes: {share:.2} % of decode time ({tokens} tokens of {TASKS} tasks).");
    let task = &tasks[0];
    let prompt = task["prompt"].as_str().unwrap_or_default();
    let long =
        format!("{}\n\n{prompt}", "The rules of the house are long and known to everyone. ".repeat(65));
    let first = answer(&request(task, &long))?.timing;
    let second = answer(&request(task, &format!("{long} Thank you.")))?.timing;
    println!(
        "Second run with the same prefix: {:.0} ms to the first token instead of {:.0} ms (ratio {:.3}), {} prompt tokens instead of {}.",
        second.prompt.as_secs_f64() * 1e3,
        first.prompt.as_secs_f64() * 1e3,
        second.prompt.as_secs_f64() / first.prompt.as_secs_f64(),
        second.prompt_tokens,
        first.prompt_tokens,
    );
    Ok(())
}

fn request(task: &Value, prompt: &str) -> Request {
    let schema = task["schema"].clone();
    Request {
        system: Some(format!("Answer with JSON of this form:\n\n{}", compact(&schema))),
        messages: vec![Message::user(prompt)],
        format: Format::JsonSchema { name: "task".into(), schema: schema.into(), strict: true },
        max_tokens: Some(300),
        ..Request::default()
    }
}
