//! Fuzzes the bodies of requests: any bytes are refused with a typed error or answered, without a panic. Nothing is stored.
#![no_main]

use std::path::Path;
use std::sync::{Arc, LazyLock};

use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use slipform_api::{AppendRequest, CheckRequest, ChildRequest, ClaimRequest, Heartbeat, RegisterRequest, RunRequest};
use slipform_coordinator::{App, AppOptions, Registry};
use tokio::runtime::Runtime;

static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime"));

static APP: LazyLock<App> = LazyLock::new(|| {
    let registry = Arc::new(Registry::read(Path::new("/nonexistent")));
    let opened = App::open("sqlite::memory:", false, registry, AppOptions::default());
    RUNTIME.block_on(opened).expect("a store in memory")
});

fuzz_target!(|input: (u8, &[u8])| {
    let (route, body) = input;
    match route % 9 {
        0 => {
            if let Ok(request) = serde_json::from_slice::<RunRequest>(body) {
                let _ = RUNTIME.block_on(APP.check_run(&request));
            }
        }
        1 => {
            if let Ok(request) = serde_json::from_slice::<CheckRequest>(body) {
                let _ = RUNTIME.block_on(APP.check(request));
            }
        }
        2 => {
            if let Ok(definition) = serde_json::from_slice::<Value>(body) {
                let _ = RUNTIME.block_on(APP.validate_agent(&definition));
            }
        }
        3 => {
            if let Ok(schema) = serde_json::from_slice::<Value>(body) {
                let _ = RUNTIME.block_on(APP.validate_schema(&schema));
            }
        }
        4 => drop(serde_json::from_slice::<AppendRequest>(body)),
        5 => drop(serde_json::from_slice::<ChildRequest>(body)),
        6 => drop(serde_json::from_slice::<ClaimRequest>(body)),
        7 => drop(serde_json::from_slice::<Heartbeat>(body)),
        _ => drop(serde_json::from_slice::<RegisterRequest>(body)),
    }
});
