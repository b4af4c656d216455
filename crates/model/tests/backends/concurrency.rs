//! The concurrency limit and cancelled calls.

use std::sync::Arc;

use slipform_model::Backend;
use slipform_testkit::{Gate, Script, ScriptedServer, Step};
use slipform_types::BackendKind::OpenAi;

use crate::support::{HTTP, ask, config, open};

fn limited(server: &ScriptedServer, max_concurrency: usize) -> Arc<dyn Backend> {
    let mut config = config(server, OpenAi);
    config.max_concurrency = max_concurrency;
    open(&config)
}

/// Starts `calls` concurrent calls and asserts the largest number of requests in flight.
async fn check(max_concurrency: usize, calls: usize, expected_in_flight: usize) {
    let gate = Gate::new();
    let server = ScriptedServer::start(Script::new([Step::text("green").gate(&gate)]).repeat_last());
    let backend = limited(&server, max_concurrency);
    let tasks: Vec<_> = (0..calls)
        .map(|_| {
            let backend = backend.clone();
            tokio::spawn(async move { ask(backend.as_ref()).await })
        })
        .collect();
    for arrived in expected_in_flight..=calls {
        server.wait_for_requests_async(arrived).await;
        gate.admit(1);
    }
    gate.open();
    for task in tasks {
        assert_eq!(task.await.unwrap().unwrap().text, "green");
    }
    assert_eq!(server.max_in_flight(), expected_in_flight);
}

#[tokio::test]
async fn concurrent_requests_do_not_exceed_max_concurrency() {
    check(1, 3, 1).await;
    check(2, 6, 2).await;
    check(10, 6, 6).await;
}

#[tokio::test]
async fn failed_call_releases_its_slot() {
    let server = ScriptedServer::start([Step::status(400), Step::text("green")]);
    let backend = limited(&server, 1);
    ask(backend.as_ref()).await.unwrap_err();
    assert_eq!(ask(backend.as_ref()).await.unwrap().text, "green");
}

#[tokio::test]
async fn dropped_call_closes_its_connection_and_releases_its_slot() {
    for kind in HTTP {
        let text = || Step::text("green as the grass in May");
        for step in [Step::hang(), text().stall_after(2), text().plain_only().stall_after(0)] {
            let server = ScriptedServer::start([step, Step::text("green")]);
            let mut config = config(&server, kind);
            config.max_concurrency = 1;
            let backend = open(&config);
            tokio::select! {
                outcome = ask(backend.as_ref()) => panic!("{outcome:?}"),
                () = server.wait_for_requests_async(1) => {}
            }
            server.wait_for_abandoned_async(1).await;
            assert_eq!(ask(backend.as_ref()).await.unwrap().text, "green", "{kind:?}");
        }
    }
}
