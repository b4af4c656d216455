//! Fuzzes the reader of server-sent events: the events do not depend on how the stream is cut into chunks.
#![no_main]

use libfuzzer_sys::fuzz_target;
use slipform_model::sse::{Event, Events};

fn events<'a>(chunks: impl Iterator<Item = &'a [u8]>) -> Vec<(String, Vec<u8>)> {
    let (mut reader, mut found) = (Events::default(), Vec::new());
    let mut handle = |event: Event<'_>| {
        found.push((event.name.to_owned(), event.data.to_vec()));
        Ok(())
    };
    for chunk in chunks {
        reader.feed(chunk, &mut handle).expect("a stream below the limit of an event");
    }
    reader.finish(&mut handle).expect("a stream below the limit of an event");
    found
}

fuzz_target!(|input: (u8, &[u8])| {
    let (size, bytes) = input;
    let whole = events(std::iter::once(bytes));
    assert_eq!(events(bytes.chunks(usize::from(size) + 1)), whole);
    assert_eq!(events(bytes.chunks(1)), whole);
});
