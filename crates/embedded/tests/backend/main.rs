//! The backend with the real weights. It is the only test in this process, because it measures memory.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stderr, reason = "tests")]
#![cfg(target_os = "linux")]

use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::{Value, json};
use slipform_embedded::{Embedded, weights};
use slipform_model::{Backend as _, BackendConfig, Call, Watch};
use slipform_schema::Schema;
use slipform_types::{BackendKind, Format, Message, Request};

fn schema() -> Value {
    json!({
        "type": "object",
        "properties": {"city": {"type": "string"}, "people": {"type": "integer", "minimum": 0}},
        "required": ["city", "people"],
        "additionalProperties": false
    })
}

fn question() -> Request {
    Request {
        messages: vec![Message::user("Oslo has 700000 people.")],
        format: Format::JsonSchema { name: "city".into(), schema: schema().into(), strict: true },
        max_tokens: Some(60),
        ..Request::default()
    }
}

fn valid(text: &str) {
    let value = serde_json::from_str(text).unwrap();
    assert!(Schema::compile(&schema()).unwrap().is_valid(&value), "{text}");
}

/// A watch that records the number of tokens and notifies at the first.
#[derive(Default)]
struct RecordingWatch {
    tokens: AtomicU64,
    first: tokio::sync::Notify,
}

impl Watch for RecordingWatch {
    fn tokens(&self, total: u64) {
        self.tokens.store(total, Ordering::Relaxed);
        self.first.notify_one();
    }
}

#[test]
fn backend_reports_tokens_cancels_queues_and_releases_memory() {
    let path = match weights::locate(&weights::environment) {
        Ok(path) => path,
        Err(error) => return eprintln!("SKIPPED: no weights ({error})"),
    };
    let config = BackendConfig::new("embedded", BackendKind::Embedded);
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let before = resident();
    let backend = Embedded::new(path, &config);
    runtime.block_on(async {
        let essay = Request {
            messages: vec![Message::user("Write a long story about a dog.")],
            max_tokens: Some(2000),
            ..Request::default()
        };
        let watch = RecordingWatch::default();
        let call = backend.call(Call { watch: &watch, ..Call::new(&essay) });
        // The call is dropped after the first of two thousand tokens.
        tokio::select! {
            _ = call => panic!("the story ended too soon"),
            () = watch.first.notified() => {}
        }
        let short = question();
        let (one, other) = (RecordingWatch::default(), RecordingWatch::default());
        let (first, second) = tokio::join!(
            backend.call(Call { watch: &one, ..Call::new(&short) }),
            backend.call(Call { watch: &other, ..Call::new(&short) }),
        );
        let (first, second) = (first.unwrap(), second.unwrap());
        valid(&first.text);
        valid(&second.text);
        assert_eq!(one.tokens.load(Ordering::Relaxed), first.usage.output);
        assert_eq!(other.tokens.load(Ordering::Relaxed), second.usage.output);
    });
    let loaded = resident();
    assert!(loaded > before + 100, "{before} MB before and {loaded} MB with the model");
    backend.unload();
    let after = resident();
    assert!(
        after < before + (loaded - before) / 3,
        "{before} MB before, {loaded} MB with the model, {after} MB after"
    );
}

/// Returns the resident memory of this process in megabytes.
fn resident() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = pages.split_whitespace().nth(1).unwrap().parse().unwrap();
    pages * 4096 / 1_000_000
}
