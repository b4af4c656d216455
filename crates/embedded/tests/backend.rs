//! The backend with the real weights, alone in its process because its memory is measured.
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
        format: Format::JsonSchema { name: "city".into(), schema: schema(), strict: true },
        max_tokens: Some(60),
        ..Request::default()
    }
}

fn valid(text: &str) {
    let value = serde_json::from_str(text).unwrap();
    assert!(Schema::compile(&schema()).unwrap().is_valid(&value), "{text}");
}

/// Notes how many tokens were reported, and opens a gate at the first.
#[derive(Default)]
struct Seen {
    tokens: AtomicU64,
    first: tokio::sync::Notify,
}

impl Watch for Seen {
    fn tokens(&self, total: u64) {
        self.tokens.store(total, Ordering::Relaxed);
        self.first.notify_one();
    }
}

#[test]
fn the_backend_streams_cancels_queues_and_gives_its_memory_back() {
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
        let seen = Seen::default();
        let call = backend.call(Call { request: &essay, invocation: None, watch: &seen });
        // Dropped with its first token, of two thousand.
        tokio::select! {
            _ = call => panic!("the story ended too soon"),
            () = seen.first.notified() => {}
        }
        let short = question();
        let (one, other) = (Seen::default(), Seen::default());
        let (first, second) = tokio::join!(
            backend.call(Call { request: &short, invocation: None, watch: &one }),
            backend.call(Call { request: &short, invocation: None, watch: &other }),
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

/// Megabytes of this process in memory.
fn resident() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = pages.split_whitespace().nth(1).unwrap().parse().unwrap();
    pages * 4096 / 1_000_000
}
