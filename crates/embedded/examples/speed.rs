//! Prints how fast a GGUF file is read and written by the embedded runtime:
//! `cargo run --release --example speed -- model.gguf [prompt tokens] [decoded tokens] [threads]`.
#![allow(clippy::print_stdout, reason = "figures are what it is for")]

use std::path::Path;
use std::time::Instant;

use formwork_embedded::Error;
use formwork_embedded::runtime::{Options, Runtime};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("give the path of a GGUF file")?;
    let prompt: usize = arguments.next().as_deref().unwrap_or("800").parse()?;
    let decoded: usize = arguments.next().as_deref().unwrap_or("128").parse()?;
    let mut options = Options::default();
    if let Some(threads) = arguments.next() {
        options.threads = threads.parse()?;
    }
    let begun = Instant::now();
    let mut model = load(Path::new(&path), options)?;
    println!("load {:.2} s", begun.elapsed().as_secs_f64());
    for _ in 0..2 {
        measure(&mut model, prompt, decoded)?;
    }
    if let Ok(status) = std::fs::read_to_string("/proc/self/status") {
        for line in status.lines().filter(|line| line.starts_with("VmRSS") || line.starts_with("VmHWM")) {
            println!("{line}");
        }
    }
    Ok(())
}

#[cfg(not(feature = "llama"))]
fn load(path: &Path, options: Options) -> Result<impl Runtime, Error> {
    formwork_embedded::runtime::CandleModel::load(path, options)
}

#[cfg(feature = "llama")]
fn load(path: &Path, options: Options) -> Result<impl Runtime, Error> {
    formwork_embedded::runtime::LlamaModel::load(path, options)
}

fn measure(model: &mut dyn Runtime, prompt: usize, decoded: usize) -> Result<(), Error> {
    let tokens: Vec<u32> = (0..prompt).map(|index| 1000 + (index as u32 * 37) % 5000).collect();
    model.rewind(0);
    let begun = Instant::now();
    model.eval(&tokens)?;
    println!("prompt {:.1} tokens/s", prompt as f64 / begun.elapsed().as_secs_f64());
    for (place, length) in [("after the prompt", prompt), ("after 50", 50.min(prompt))] {
        model.rewind(length);
        let begun = Instant::now();
        let mut token = 1000;
        for _ in 0..decoded {
            let logits = model.eval(&[token])?;
            let best = logits.iter().enumerate().max_by(|one, other| one.1.total_cmp(other.1));
            token = best.map_or(0, |(token, _)| token as u32);
        }
        println!("decode {place} {:.1} tokens/s", decoded as f64 / begun.elapsed().as_secs_f64());
    }
    Ok(())
}
