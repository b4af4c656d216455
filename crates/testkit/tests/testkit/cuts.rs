//! Tests connections that end early, late or never, and oversized bodies.

use slipform_testkit::{Gate, ScriptedServer, Step};

use crate::support::{CHAT, Client, End, MESSAGES, ask, plain, streamed};

#[test]
fn stream_is_cut_after_some_chunks() {
    let reply = ask(Step::text("a rather long answer").chunk_bytes(4).cut_after(3), CHAT, &streamed());
    assert_eq!(reply.end, End::Cut);
    assert_eq!(reply.values().len(), 3);
    assert!(!reply.text().contains("finish_reason\":\"") && !reply.text().contains("[DONE]"));

    let reply = ask(Step::text("x").cut_after(0), MESSAGES, &streamed());
    assert_eq!((reply.status, reply.text().as_str(), reply.end), (200, "", End::Cut));
}

#[test]
fn cut_until_close_looks_like_a_normal_end() {
    let reply = ask(Step::text("a rather long answer").cut_after(2).until_close(), CHAT, &streamed());
    assert_eq!(reply.header("transfer-encoding"), None);
    assert_eq!(reply.end, End::Proper);
    assert_eq!(reply.values().len(), 2);
}

#[test]
fn body_is_shorter_than_announced() {
    let reply = ask(Step::text("hello").cut_body(20), CHAT, &plain());
    assert!(reply.header("content-length").unwrap().parse::<usize>().unwrap() > 100);
    assert_eq!((reply.body.len(), reply.end), (20, End::Cut));

    let reply = ask(Step::text("hello").cut_body(20), CHAT, &streamed());
    assert_eq!((reply.body.len(), reply.end), (20, End::Cut));
}

#[test]
fn connection_is_reset() {
    let server = ScriptedServer::start([Step::close().reset()]);
    let mut client = Client::connect(&server);
    client.post(CHAT, &plain());
    assert_eq!(client.rest(), (Vec::new(), End::Reset));
}

#[test]
fn connection_is_closed_without_a_reply() {
    let server = ScriptedServer::start([Step::close()]);
    let mut client = Client::connect(&server);
    client.post(CHAT, &plain());
    assert_eq!(client.rest(), (Vec::new(), End::Proper));
    assert_eq!(server.requests().len(), 1);
}

#[test]
fn stall_lasts_until_the_client_disconnects() {
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
fn hang_sends_nothing() {
    let server = ScriptedServer::start([Step::hang()]);
    let mut client = Client::connect(&server);
    client.post(CHAT, &plain());
    server.wait_for_requests(1);
    drop(server);
    let (bytes, _) = client.rest();
    assert!(bytes.is_empty(), "dropping the server closes the connection");
}

#[test]
fn hung_up_connection_looks_reusable() {
    let server = ScriptedServer::start([Step::text("x").hang_up(), Step::text("y")]);
    let mut client = Client::connect(&server);
    let reply = client.ask(CHAT, &plain());
    assert_eq!((reply.end, reply.header("connection")), (End::Proper, None));
    assert_eq!(client.rest(), (Vec::new(), End::Proper));
}

#[test]
fn oversized_answer_is_valid_and_has_the_given_size() {
    let reply = ask(Step::oversized(1_000_000), CHAT, &plain());
    assert_eq!(reply.end, End::Proper);
    assert_eq!(reply.json()["choices"][0]["message"]["content"].as_str().unwrap().len(), 1_000_000);

    let reply = ask(Step::oversized(100_000), MESSAGES, &streamed());
    assert_eq!(reply.joined("/delta/text").len(), 100_000);
    assert_eq!(reply.events().last().unwrap().0, "message_stop");

    assert_eq!(ask(Step::oversized(0), CHAT, &plain()).json()["choices"][0]["message"]["content"], "");
}

#[test]
fn endless_answer_ends_when_the_client_disconnects() {
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
fn gate_holds_the_rest_of_a_stream() {
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
