//! `slipform_api::Client` against a real server.

use serde_json::json;
use slipform_api::{
    AppendRequest, AttemptRef, ClaimRequest, Client, Code, Connection, Heartbeat, RegisterRequest,
    RunCreated, RunView, RunnerApi as _,
};
use slipform_coordinator::Scope;

use crate::test_server::{TestServer, completed, result, started};

#[tokio::test]
async fn typed_client_executes_a_run() {
    let server = TestServer::with(|options| options.needs_token = true).await;
    server.agent("writer", json!({})).await;
    let token = Some(server.token(Scope::Admin).await);
    let client = Client::new(&Connection { url: format!("http://{}", server.address), token }).unwrap();
    let start = json!({"type": "start_session", "agent_name": "writer", "prompt": "Hello."});
    let created: RunCreated = client.post("runs", &start).await.unwrap();
    let registration =
        RegisterRequest { runner_id: None, name: "typed".to_owned(), slots: 1, details: json!({}) };
    let runner_id = client.register(&registration).await.unwrap().runner_id;
    let claim = ClaimRequest { runner_id: runner_id.clone(), slots: 1, wait_ms: 5_000 };
    let first = client.claim(&claim).await.unwrap().claims.remove(0);
    let attempt = AttemptRef { run_id: first.run_id, token: first.token };
    client.release(&attempt).await.unwrap();
    assert_eq!(client.park(&attempt).await.unwrap_err().code, Code::StaleAttempt);
    let work = client.claim(&claim).await.unwrap().claims.remove(0);
    let attempt = AttemptRef { run_id: work.run_id.clone(), token: work.token };
    let beats = client.heartbeat(&Heartbeat { runner_id, attempts: vec![attempt] }).await.unwrap();
    assert!(!beats.attempts[0].stale);
    let message = |number, events| AppendRequest {
        run_id: work.run_id.clone(),
        token: work.token,
        number,
        events: serde_json::from_value(events).unwrap(),
    };
    client.append(&message(1, json!([started()]))).await.unwrap();
    let end = json!([result(json!({"result_text": "Done."})), completed()]);
    client.finish(&message(2, end)).await.unwrap();
    let run: RunView = client.get(&format!("runs/{}", created.run_id)).await.unwrap();
    assert_eq!(run.status.name(), "completed");
    let mut stream =
        client.stream(&format!("sessions/{}/events/stream", run.session_id), Some("3")).await.unwrap();
    let event: slipform_types::Event = serde_json::from_str(&stream.next().await.unwrap()).unwrap();
    assert_eq!(event.seq, 4);
    assert!(matches!(event.body, slipform_types::EventBody::RunCompleted { .. }), "{event:?}");
    client.delete(&format!("sessions/{}", run.session_id)).await.unwrap();
    let gone = client.get::<RunView>(&format!("runs/{}", created.run_id)).await.unwrap_err();
    assert_eq!(gone.code, Code::RunNotFound);
}
