//! Tests concurrent requests, held back by gates.

use slipform_testkit::{Gate, Script, ScriptedServer, Step};

use crate::support::{CHAT, Client, plain};

fn gated(gate: &Gate) -> ScriptedServer {
    ScriptedServer::start(Script::new([Step::text("x").gate(gate)]).repeat_last())
}

#[test]
fn requests_in_flight_are_counted() {
    let gate = Gate::new();
    let server = gated(&gate);
    let mut clients: Vec<Client> = (0..3).map(|_| Client::connect(&server)).collect();
    for client in &mut clients {
        client.post(CHAT, &plain());
    }
    server.wait_for_requests(3);
    assert_eq!(server.max_in_flight(), 3);
    gate.open();
    for client in &mut clients {
        assert_eq!(client.reply().status, 200);
    }
    clients[0].ask(CHAT, &plain());
    assert_eq!((server.max_in_flight(), server.connections()), (3, 3));
}

#[test]
fn sequential_requests_are_one_in_flight() {
    let server = ScriptedServer::start(Script::new([Step::text("x")]).repeat_last());
    for _ in 0..50 {
        assert_eq!(Client::connect(&server).ask(CHAT, &plain()).status, 200);
    }
    assert_eq!((server.max_in_flight(), server.connections()), (1, 50));
}

#[test]
fn gate_admits_the_given_number_of_replies() {
    let gate = Gate::new();
    let server = gated(&gate);
    let mut first = Client::connect(&server);
    first.post(CHAT, &plain());
    server.wait_for_requests(1);
    let mut second = Client::connect(&server);
    second.post(CHAT, &plain());
    server.wait_for_requests(2);
    gate.admit(1);
    assert_eq!(first.reply().status, 200);
    drop(second);
    server.wait_for_abandoned(1);
}

#[test]
fn waiting_needs_no_clock_of_the_tests_runtime() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let gate = Gate::new();
        let server = gated(&gate);
        let mut client = Client::connect(&server);
        client.post(CHAT, &plain());
        server.wait_for_requests_async(1).await;
        drop(client);
        server.wait_for_abandoned_async(1).await;
    });
}

#[test]
fn dropping_the_server_closes_waiting_connections() {
    let server = gated(&Gate::new());
    let mut client = Client::connect(&server);
    client.post(CHAT, &plain());
    server.wait_for_requests(1);
    drop(server);
    assert!(client.rest().0.is_empty());
}
