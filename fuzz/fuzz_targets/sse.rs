//! Server-sent events: cuts make no difference, and encoded events parse to the same events.
#![no_main]

use libfuzzer_sys::fuzz_target;
use words::api::sse::{Run, SseParser, write_event};
use turnpike_fuzz::{bytes, cuts, fold};

type Events = Vec<(Option<String>, Vec<u8>)>;

fn parse(chunks: &[&[u8]]) -> Events {
    let mut events = Events::new();
    let mut bytes = Vec::new();
    let mut parser = SseParser::default();
    let mut take = |run: Run<'_>| {
        assert!(!run.is_oversized(), "inputs are below the limit");
        bytes.extend_from_slice(run.bytes());
        for event in run.events() {
            events.extend(event.data.map(|data| (event.name.map(str::to_owned), data.into_owned())));
        }
    };
    for chunk in chunks {
        take(parser.push(chunk));
    }
    take(parser.finish());
    assert_eq!(bytes, chunks.concat(), "no byte is lost");
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
