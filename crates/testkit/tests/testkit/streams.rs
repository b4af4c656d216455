//! Tests faults and variations of a stream's events.

use slipform_testkit::Step;

use crate::support::{CHAT, End, MESSAGES, ask, plain, streamed};

#[test]
fn stream_ends_without_done() {
    let reply = ask(Step::text("x").without_done(), CHAT, &streamed());
    assert!(!reply.text().contains("[DONE]"));
    assert!(reply.text().contains("\"finish_reason\":\"stop\""));
    assert_eq!(reply.end, End::Proper);

    let reply = ask(Step::text("x").without_done(), MESSAGES, &streamed());
    assert!(!reply.text().contains("message_stop"));
    assert!(reply.text().contains("end_turn"));
}

#[test]
fn malformed_chunk_is_inserted_at_its_position() {
    let reply = ask(Step::text("x").malformed_chunk(1, "data: {not json"), CHAT, &streamed());
    let data: Vec<String> = reply.events().into_iter().map(|(_, data)| data).collect();
    assert_eq!(data[1], "{not json");
    assert!(data[0].contains("\"role\"") && data[2].contains("\"content\":\"x\""));
    assert_eq!(data.last().unwrap(), "[DONE]");
}

#[test]
fn error_replaces_the_rest_of_the_stream() {
    let reply = ask(Step::text("a long answer that breaks").error_after(2, "boom"), CHAT, &streamed());
    let values = reply.values();
    assert_eq!(values.len(), 3);
    assert_eq!(values[2]["error"]["message"], "boom");
    assert_eq!(reply.end, End::Proper);

    let reply = ask(Step::text("x").error_after(1, "busy"), MESSAGES, &streamed());
    let (name, _) = reply.events().pop().unwrap();
    assert_eq!(name, "error");
    assert_eq!(reply.values()[1]["error"]["type"], "overloaded_error");

    let reply = ask(Step::text("x").error_after(1, "busy"), CHAT, &plain());
    assert_eq!((reply.status, &reply.json()["error"]["message"]), (200, &"busy".into()));
}

#[test]
fn keep_alives_precede_every_event() {
    let reply = ask(Step::text("x").pings(), CHAT, &streamed());
    assert!(reply.chunks.iter().all(|chunk| chunk.starts_with(b": ping\n\n")));
    assert_eq!(reply.joined("/choices/0/delta/content"), "x");

    let reply = ask(Step::text("x").pings(), MESSAGES, &streamed());
    let pings = reply.events().iter().filter(|(name, _)| name == "ping").count();
    assert_eq!(pings, reply.chunks.len());
}

#[test]
fn line_ends_and_spaces_are_configurable() {
    let reply = ask(Step::text("x\ny").crlf(), MESSAGES, &streamed());
    assert!(reply.text().starts_with("event: message_start\r\ndata: {"));
    assert_eq!(reply.text().matches('\n').count(), reply.text().matches("\r\n").count());
    assert_eq!(reply.joined("/delta/text"), "x\ny");

    let reply = ask(Step::text("x").without_space(), CHAT, &streamed());
    assert!(reply.text().starts_with("data:{"));
    assert!(reply.text().ends_with("data:[DONE]\n\n"));
}

#[test]
fn writes_split_lines_and_characters() {
    let reply = ask(Step::text("☃☃☃☃").split_writes(1), CHAT, &streamed());
    assert!(reply.chunks.iter().all(|chunk| chunk.len() == 1));
    assert!(reply.chunks.iter().any(|chunk| std::str::from_utf8(chunk).is_err()));
    assert_eq!(reply.joined("/choices/0/delta/content"), "☃☃☃☃");
    assert_eq!(reply.end, End::Proper);
}

#[test]
fn plain_only_step_does_not_stream() {
    let reply = ask(Step::text("x").plain_only(), CHAT, &streamed());
    assert_eq!(reply.header("content-type"), Some("application/json"));
    assert_eq!(reply.json()["choices"][0]["message"]["content"], "x");
}

#[test]
fn same_script_gives_the_same_bytes() {
    let step = Step::reasoning("r").and_text("t").and_tool("n", "{}");
    let once = ask(step.clone(), CHAT, &streamed()).body;
    assert_eq!(once, ask(step, CHAT, &streamed()).body);
}
