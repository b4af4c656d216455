//! Timeouts of the connection, of pauses within a reply, and of the whole call.

use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use slipform_model::BackendConfig;
use slipform_testkit::{Script, Step};
use slipform_types::BackendKind::OpenAi;
use tokio::net::TcpSocket;

use crate::support::{HTTP, ask, ask_script, open, shown};

/// Sends the sample request with these settings and compares the error and the number of requests.
async fn check(step: Step, set: fn(&mut BackendConfig), expected: &str, requests: usize) {
    for kind in HTTP {
        let script = Script::new([step.clone()]).repeat_last();
        let (server, outcome) = ask_script(kind, script, set).await;
        assert_eq!(shown(&outcome), expected, "{kind:?}");
        assert_eq!(server.requests().len(), requests, "{kind:?}");
        server.wait_for_abandoned_async(requests).await;
    }
}

#[tokio::test]
async fn call_without_response_times_out() {
    let set = |config: &mut BackendConfig| config.timeout_seconds = 0.1;
    let expected =
        "Timeout: the call took longer than 0.1 s; raise timeout_seconds in slipform.toml if that is normal";
    check(Step::hang(), set, expected, 1).await;
}

#[tokio::test]
async fn pause_within_a_reply_is_retried() {
    let set = |config: &mut BackendConfig| {
        config.idle_timeout_seconds = 0.1;
        config.retries = 1;
    };
    let expected = "Timeout: a pause within the reply took longer than 0.1 s; raise \
                    idle_timeout_seconds in slipform.toml if that is normal";
    check(Step::text("green as the grass in May").stall_after(2), set, expected, 2).await;
}

#[tokio::test]
async fn slow_reply_times_out_with_the_call() {
    let set = |config: &mut BackendConfig| config.timeout_seconds = 0.3;
    let step = Step::text("green ".repeat(1_000)).trickle(1, Duration::from_millis(10));
    let expected =
        "Timeout: the call took longer than 0.3 s; raise timeout_seconds in slipform.toml if that is normal";
    check(step.clone(), set, expected, 1).await;
    check(step.plain_only(), set, expected, 1).await;
}

#[tokio::test]
async fn idle_timeout_does_not_apply_before_the_first_chunk() {
    // The reply is sent in one write, so the only pause is before it.
    let step = Step::text("green").plain_only().delay(Duration::from_millis(300));
    let (_, outcome) = ask_script(OpenAi, step, |config| config.idle_timeout_seconds = 0.2).await;
    assert_eq!(outcome.unwrap().text, "green");
}

/// Returns a listener whose backlog is full, so that new connections hang. The streams keep it full.
fn full_listener() -> (SocketAddr, tokio::net::TcpListener, Vec<TcpStream>) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    let mut queued = Vec::new();
    while let Ok(stream) = TcpStream::connect_timeout(&address, Duration::from_millis(200)) {
        queued.push(stream);
    }
    (address, listener, queued)
}

#[tokio::test]
async fn connection_timeout_names_its_own_setting() {
    let (address, _listener, _queued) = full_listener();
    let mut config = BackendConfig::new("mine", OpenAi);
    config.base_url = Some(format!("http://{address}/v1"));
    config.connect_timeout_seconds = 0.1;
    config.retries = 0;
    let outcome = ask(open(&config).as_ref()).await;
    let expected = "Timeout: connecting took longer than 0.1 s; raise connect_timeout_seconds in slipform.toml if \
                    that is normal";
    assert_eq!(shown(&outcome), expected);
}
