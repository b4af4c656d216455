//! Registration of a worker, and registration after an outage.

use slipform_api::Code;
use slipform_runner::Error;

use crate::support::fake_api::FakeApi;
use crate::support::worker::{FakeResources, agent, start};

#[tokio::test(start_paused = true)]
async fn unreachable_coordinator_is_retried() {
    let api = FakeApi::new();
    for code in [Code::Unavailable, Code::Internal, Code::Unavailable] {
        api.fail("register", code, false);
    }
    api.submit(1, agent(), None);
    let worker = start(&api, FakeResources::echoing(), 3);
    api.ended(1).await;
    worker.shut_down().await;
    assert_eq!(api.calls("register").len(), 4);
    let request = api.state().registrations[0].clone();
    assert_eq!((request.runner_id, request.name.as_str(), request.slots), (None, "test", 3));
    assert_eq!(request.details["version"], "0");
}

#[tokio::test(start_paused = true)]
async fn rejected_registration_ends_the_worker() {
    let api = FakeApi::new();
    api.fail("register", Code::Unauthorized, false);
    let error = start(&api, FakeResources::echoing(), 1).end().await.unwrap_err();
    assert!(matches!(&error, Error::Coordinator(refusal) if refusal.code == Code::Unauthorized), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn worker_registers_again_with_its_id_after_an_outage() {
    for (operation, code) in
        [("claim", Code::Unavailable), ("claim", Code::NotFound), ("heartbeat", Code::NotFound)]
    {
        let api = FakeApi::new();
        api.fail(operation, code, false);
        api.submit(1, agent(), None);
        let worker = start(&api, FakeResources::silent(), 1);
        api.until("the second registration", |state| state.registrations.len() == 2).await;
        api.until("heartbeats", |state| state.heartbeat_times.len() > 3).await;
        worker.shut_down().await;
        assert_eq!(api.state().registrations[1].runner_id.as_deref(), Some("rnr_1"), "{operation}");
        assert_eq!(api.calls("register").len(), 2, "{operation}");
    }
}
