//! Connections that end too early, too late or never, and bodies without measure.

use slipform_testkit::{Gate, ScriptedServer, Step};

use crate::client::{CHAT, Client, End, MESSAGES, ask, plain, streamed};

#[test]
fn a_stream_cut_after_some_chunks() {
    let reply = ask(Step::text("a rather long answer").chunk_bytes(4).cut_after(3), CHAT, &streamed());
    assert_eq!(reply.end, End::Cut);
    assert_eq!(reply.values().len(), 3);
    assert!(!reply.text().contains("finish_reason\":\"") && !reply.text().contains("[DONE]"));

    let reply = ask(Step::text("x").cut_after(0), MESSAGES, &streamed());
    assert_eq!((reply.status, reply.text().as_str(), reply.end), (200, "", End::Cut));
}

#[test]
fn a_cut_that_http_cannot_see() {
    let reply = ask(Step::text("a rather long answer").cut_after(2).until_close(), CHAT, &streamed());
    assert_eq!(reply.header("transfer-encoding"), None);
    assert_eq!(reply.end, End::Proper);
    assert_eq!(reply.values().len(), 2);
}

#[test]
fn a_body_shorter_than_announced() {
    let reply = ask(Step::text("hello").cut_body(20), CHAT, &plain());
    assert!(reply.header("content-length").unwrap().parse::<usize>().unwrap() > 100);
    assert_eq!((reply.body.len(), reply.end), (20, End::Cut));

    let reply = ask(Step::text("hello").cut_body(20), CHAT, &streamed());
    assert_eq!((reply.body.len(), reply.end), (20, End::Cut));
}

#[test]
fn a_reset() {
    let server = ScriptedServer::start([Step::close().reset()]);
    let mut client = Client::connect(&server);
    client.post(CHAT, &plain());
    assert_eq!(client.rest(), (Vec::new(), End::Reset));
}

#[test]
fn a_close_without_a_word() {
    let server = ScriptedServer::start([Step::close()]);
    let mut client = Client::connect(&server);
    client.post(CHAT, &plain());
    assert_eq!(client.rest(), (Vec::new(), End::Proper));
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn a_stall_lasts_until_the_client_leaves() {
    let server = ScriptedServer::start([Step::text("a rather long answer").stall_after(2)]);
    let mut client = Client::connect(&server);
    client.post(CHAT, &streamed());
    assert_eq!(client.head().status, 200);
    client.chunk().unwrap();
    client.chunk().unwrap();
    assert_eq!(server.abandoned(), 0);
    drop(client);
    server.wait_for_abandoned(1);
}

#[test]
fn a_hang_sends_nothing() {
    let server = ScriptedServer::start([Step::hang()]);
    let mut client = Client::connect(&server);
    client.post(CHAT, &plain());
    server.wait_for_requests(1);
    drop(server);
    let (bytes, _) = client.rest();
    assert!(bytes.is_empty(), "dropping the server ends what hangs");
}

#[test]
fn a_connection_that_dies_in_the_pool() {
    let server = ScriptedServer::start([Step::text("x").hang_up(), Step::text("y")]);
    let mut client = Client::connect(&server);
    let reply = client.ask(CHAT, &plain());
    assert_eq!((reply.end, reply.header("connection")), (End::Proper, None));
    assert_eq!(client.rest(), (Vec::new(), End::Proper));
}

#[test]
fn an_oversized_answer_is_valid_and_as_large_as_told() {
    let reply = ask(Step::oversized(1_000_000), CHAT, &plain());
    assert_eq!(reply.end, End::Proper);
    assert_eq!(reply.json()["choices"][0]["message"]["content"].as_str().unwrap().len(), 1_000_000);

    let reply = ask(Step::oversized(100_000), MESSAGES, &streamed());
    assert_eq!(reply.joined("/delta/text").len(), 100_000);
    assert_eq!(reply.events().last().unwrap().0, "message_stop");

    assert_eq!(ask(Step::oversized(0), CHAT, &plain()).json()["choices"][0]["message"]["content"], "");
}

#[test]
fn an_endless_answer_ends_with_the_client() {
    for request in [plain(), streamed()] {
        let server = ScriptedServer::start([Step::endless()]);
        let mut client = Client::connect(&server);
        client.post(CHAT, &request);
        client.head();
        let mut read = 0;
        while read < 2_000_000 {
            read += client.chunk().unwrap().len();
        }
        drop(client);
        server.wait_for_abandoned(1);
    }
}

#[test]
fn a_gate_in_the_middle_of_a_stream() {
    let gate = Gate::new();
    let server = ScriptedServer::start([Step::text("hello").gate_after(2, &gate)]);
    let mut client = Client::connect(&server);
    client.post(CHAT, &streamed());
    client.head();
    client.chunk().unwrap();
    let delta = client.chunk().unwrap();
    assert!(String::from_utf8(delta).unwrap().contains("hello"));
    gate.open();
    let mut rest = Vec::new();
    loop {
        match client.chunk().unwrap() {
            chunk if chunk.is_empty() => break,
            chunk => rest.extend(chunk),
        }
    }
    assert!(String::from_utf8(rest).unwrap().ends_with("data: [DONE]\n\n"));
}
