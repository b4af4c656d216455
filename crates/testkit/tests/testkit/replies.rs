//! Tests statuses, headers, bodies and content types.

use std::time::Duration;

use slipform_testkit::{ScriptedServer, Step};

use crate::support::{CHAT, Client, End, MESSAGES, ask, plain, streamed};

#[test]
fn status_has_the_protocols_error_object() {
    let reply = ask(Step::status(429).header("Retry-After", "1"), CHAT, &streamed());
    assert_eq!((reply.status, reply.header("retry-after")), (429, Some("1")));
    assert_eq!(reply.json()["error"]["type"], "rate_limit_error");

    let reply = ask(Step::status(529), MESSAGES, &plain());
    assert_eq!(reply.status, 529);
    assert_eq!(reply.json()["type"], "error");
    assert_eq!(reply.json()["error"]["type"], "overloaded_error");
}

#[test]
fn body_and_content_type_are_configurable() {
    let reply = ask(Step::status(502).content_type("text/plain").body("bad gateway"), CHAT, &plain());
    assert_eq!((reply.status, reply.text().as_str()), (502, "bad gateway"));
    assert_eq!(reply.header("content-type"), Some("text/plain"));

    let reply = ask(Step::text("x").content_type("text/plain"), CHAT, &streamed());
    assert_eq!(reply.header("content-type"), Some("text/plain"));
    assert_eq!(reply.joined("/choices/0/delta/content"), "x");
}

#[test]
fn html_page_is_sent_with_status_200() {
    let reply = ask(Step::html(), CHAT, &plain());
    assert_eq!((reply.status, reply.header("content-type")), (200, Some("text/html; charset=utf-8")));
    assert!(reply.text().starts_with("<!doctype html>"));
}

#[test]
fn redirect_has_a_location() {
    let reply = ask(Step::redirect("http://127.0.0.1:1/v1"), CHAT, &plain());
    assert_eq!((reply.status, reply.header("location")), (307, Some("http://127.0.0.1:1/v1")));
}

#[test]
fn raw_bytes_are_sent_unchanged() {
    let server = ScriptedServer::start([Step::raw("NOT HTTP\r\n\r\n").split_writes(3)]);
    let mut client = Client::connect(&server);
    client.post(CHAT, &plain());
    assert_eq!(client.rest(), (b"NOT HTTP\r\n\r\n".to_vec(), End::Proper));
}

#[test]
fn trickle_and_delay_change_no_byte() {
    let expected = ask(Step::text("hello"), CHAT, &plain()).body;
    let step = Step::text("hello").delay(Duration::from_millis(1)).trickle(50, Duration::from_millis(1));
    let reply = ask(step, CHAT, &plain());
    assert_eq!((reply.body, reply.end), (expected, End::Proper));
}

#[test]
fn delay_ends_when_the_client_disconnects() {
    let server = ScriptedServer::start([Step::text("x").delay(Duration::from_secs(3600))]);
    let mut client = Client::connect(&server);
    client.post(CHAT, &plain());
    server.wait_for_requests(1);
    drop(client);
    server.wait_for_abandoned(1);
}
