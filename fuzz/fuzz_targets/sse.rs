//! Server-sent events: cuts make no difference, and encoded events parse to the same events.
#![no_main]

use libfuzzer_sys::fuzz_target;
use turnpike::api::sse::{SseParser, write_event};
use turnpike_fuzz::{bytes, cuts, fold};

type Events = Vec<(Option<String>, Vec<u8>)>;

fn parse(chunks: &[&[u8]]) -> Events {
    let mut events = Events::new();
    let mut parser = SseParser::default();
    let mut on_event = |event: turnpike::api::sse::Event<'_>| {
        events.push((event.name.map(str::to_owned), event.data.to_vec()));
    };
    for chunk in chunks {
        parser.push(chunk, &mut on_event).expect("inputs are below the limit");
    }
    parser.finish(&mut on_event);
    events
}

fuzz_target!(|data: &[u8]| {
    let wanted = parse(&[data]);
    for chunks in [cuts(data, fold(data)), bytes(data)] {
        if !chunks.is_empty() {
            assert_eq!(parse(&chunks), wanted);
        }
    }
    let mut written = Vec::new();
    for (name, data) in &wanted {
        write_event(&mut written, name.as_deref(), data);
    }
    assert_eq!(parse(&[&written]), wanted, "encoded and parsed again");
});
