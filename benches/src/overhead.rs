//! The CPU time of a run beside a bare HTTP client that also parses and validates, and beside Instructor. A scripted
//! server in another process answers all of them.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};
use slipform_model::{Backend, BackendConfig, connect};
use slipform_runner::LadderRung;
use slipform_schema::Schema;
use slipform_testkit::{Script, ScriptedServer, Step};
use slipform_types::{BackendKind, Blueprint, Capabilities, OptionsPatch, Outcome, Support, TierBackend};

use crate::context::BenchRun;

/// Calls per round, after a tenth as many to warm up.
const CALLS: usize = 1_000;
const INSTRUCTOR_CALLS: usize = 200;

/// Rounds of interleaved measurement. The cheapest round of each side counts, since noise only adds time.
const ROUNDS: usize = 5;

const PROMPT: &str = "Review the change and list every issue with file, severity and message.";

fn schema() -> Value {
    json!({
        "type": "object",
        "required": ["summary", "issues"],
        "properties": {
            "summary": {"type": "string"},
            "issues": {"type": "array", "items": {
                "type": "object",
                "required": ["file", "severity", "message"],
                "properties": {
                    "file": {"type": "string"},
                    "severity": {"type": "string", "enum": ["low", "medium", "high"]},
                    "message": {"type": "string"},
                },
            }},
        },
    })
}

/// Builds an answer of at least 2 KiB.
fn answer() -> String {
    let mut issues = Vec::new();
    loop {
        let number = issues.len();
        let text = json!({"summary": "Several places need care before this can go in.", "issues": issues})
            .to_string();
        if text.len() >= 2_048 {
            return text;
        }
        issues.push(json!({
            "file": format!("src/module_{number}.rs"),
            "severity": (["low", "medium", "high"][number % 3]),
            "message": format!("line {}: the error is dropped; pass it on or say why it does not matter", number * 17),
        }));
    }
}

/// Runs the scripted server until its stdin closes. With `is_whole` it never streams.
pub fn serve(is_whole: bool) -> Result<()> {
    let script = Script::respond(move |request, _| {
        // Only Instructor sends tools.
        let is_tool = request.body.get("tools").is_some();
        let step = if is_tool { Step::tool("Review", answer().as_str()) } else { Step::text(answer()) };
        let step = step.usage(300, 600);
        if is_whole { step.plain_only() } else { step }
    });
    let server = ScriptedServer::start(script.without_record());
    println!("{}", server.base_url());
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    Ok(())
}

struct Server {
    child: Child,
    base_url: String,
}

impl Server {
    fn start(mode: &str) -> Result<Server> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["overhead-server", mode])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut base_url = String::new();
        BufReader::new(child.stdout.take().context("no stdout")?).read_line(&mut base_url)?;
        Ok(Server { child, base_url: base_url.trim().to_owned() })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the CPU time of this thread in nanoseconds. All measured code runs on this thread.
fn cpu_nanoseconds() -> Result<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat")
        .context("reading /proc/thread-self/schedstat")?;
    text.split_whitespace().next().and_then(|field| field.parse().ok()).context("schedstat has no figure")
}

/// The bare client: sends a request, reads, parses and validates the response.
struct BareClient {
    client: reqwest::Client,
    url: String,
    schema: Schema,
    is_streamed: bool,
}

impl BareClient {
    async fn call(&self) -> Result<()> {
        let messages = json!([{"role": "user", "content": PROMPT}]);
        let body = json!({"model": "m", "messages": messages, "stream": self.is_streamed}).to_string();
        let request = self.client.post(&self.url).header("content-type", "application/json").body(body);
        let body = request.send().await?.bytes().await?;
        let text = if self.is_streamed { streamed_text(&body)? } else { plain_text(&body)? };
        let value: Value = serde_json::from_str(&text)?;
        if !self.schema.is_valid(&value) {
            bail!("the answer is invalid");
        }
        Ok(())
    }
}

fn plain_text(body: &[u8]) -> Result<String> {
    let reply: Value = serde_json::from_slice(body)?;
    Ok(reply["choices"][0]["message"]["content"].as_str().context("no content")?.to_owned())
}

fn streamed_text(body: &[u8]) -> Result<String> {
    let mut text = String::new();
    for line in std::str::from_utf8(body)?.lines() {
        let Some(data) = line.strip_prefix("data: ").filter(|data| *data != "[DONE]") else { continue };
        let chunk: Value = serde_json::from_str(data)?;
        if let Some(piece) = chunk["choices"][0]["delta"]["content"].as_str() {
            text.push_str(piece);
        }
    }
    Ok(text)
}

/// A whole Slipform run, from the assignment to the receipt.
struct SlipformRun {
    run: BenchRun,
}

impl SlipformRun {
    fn new(base_url: &str) -> Result<SlipformRun> {
        let mut config = BackendConfig::new("scripted", BackendKind::OpenAi);
        config.base_url = Some(base_url.to_owned());
        config.model = Some("m".to_owned());
        let backend: Arc<dyn Backend> = connect(&config, &|_| None)?;
        let capabilities = Capabilities { json_schema: Support::Enforced, ..Capabilities::default() };
        let blueprint =
            Blueprint { name: "reviewer".into(), output_schema: Some(schema()), ..Blueprint::default() };
        let tier = TierBackend::new("default", config.info(capabilities, None));
        Ok(SlipformRun {
            run: BenchRun::new(blueprint, OptionsPatch::default(), PROMPT, LadderRung { tier, backend })?,
        })
    }

    async fn call(&self) -> Result<()> {
        match self.run.perform().await?.0 {
            Outcome::Completed(_) | Outcome::ToolCalls(_) => Ok(()),
            Outcome::Failed(failure) => bail!("the run failed: {}", failure.error.message),
        }
    }
}

/// Measures the CPU time of a call in microseconds.
async fn measure<F: Future<Output = Result<()>>>(call: impl Fn() -> F) -> Result<f64> {
    for _ in 0..CALLS / 10 {
        call().await?;
    }
    let start = cpu_nanoseconds()?;
    for _ in 0..CALLS {
        call().await?;
    }
    Ok((cpu_nanoseconds()? - start) as f64 / CALLS as f64 / 1_000.0)
}

/// Returns the CPU time per call of Slipform and of the bare client, in microseconds.
async fn cpu_per_call(server: &Server, is_streamed: bool) -> Result<(f64, f64)> {
    let ours = SlipformRun::new(&server.base_url)?;
    let bare = BareClient {
        client: reqwest::Client::builder().tcp_nodelay(true).build()?,
        url: format!("{}/chat/completions", server.base_url),
        schema: Schema::compile(&schema())?,
        is_streamed,
    };
    let mut best = (f64::MAX, f64::MAX);
    for _ in 0..ROUNDS {
        best.0 = best.0.min(measure(|| ours.call()).await?);
        best.1 = best.1.min(measure(|| bare.call()).await?);
    }
    Ok(best)
}

/// Measures and prints the ratios.
pub fn run(python: Option<&Path>) -> Result<()> {
    let (whole, streamed) = (Server::start("whole")?, Server::start("streamed")?);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (ours_whole, bare_whole) = runtime.block_on(cpu_per_call(&whole, false))?;
    let (ours_streamed, bare_streamed) = runtime.block_on(cpu_per_call(&streamed, true))?;
    let theirs = python.map(|python| instructor(python, &whole.base_url)).transpose()?;
    println!(
        "\n## Overhead: CPU time per call in µs, answer of {} bytes, server without delay\n",
        answer().len()
    );
    println!("| response | Slipform run | bare client, parsed and validated | ratio |\n|---|---|---|---|");
    println!("| whole | {ours_whole:.0} | {bare_whole:.0} | {:.2} |", ours_whole / bare_whole);
    println!(
        "| streamed, one event per 16 bytes | {ours_streamed:.0} | {bare_streamed:.0} | {:.2} |",
        ours_streamed / bare_streamed
    );
    match theirs {
        Some(theirs) => {
            println!("\nInstructor (whole): {theirs:.0}, {:.1} times the Slipform run", theirs / ours_whole)
        }
        None => println!("\nInstructor is not installed"),
    }
    Ok(())
}

/// Measures an Instructor call in microseconds of CPU time.
fn instructor(python: &Path, base_url: &str) -> Result<f64> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("conformance/instructor_overhead.py");
    let output = Command::new(python)
        .arg(script)
        .args([base_url, &INSTRUCTOR_CALLS.to_string()])
        .output()
        .context("starting Instructor")?;
    if !output.status.success() {
        bail!("Instructor failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8(output.stdout)?.trim().parse()?)
}
