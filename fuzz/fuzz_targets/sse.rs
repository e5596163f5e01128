//! Server-sent events: cuts do not matter, and what is written is read again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use turnpike::api::sse::{Run, SseParser, write_event};
use turnpike_fuzz::{bytes, cuts, fold};

type Events = Vec<(Option<String>, Vec<u8>)>;

fn split(pieces: &[&[u8]]) -> Events {
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
    for piece in pieces {
        take(parser.push(piece));
    }
    take(parser.finish());
    assert_eq!(bytes, pieces.concat(), "no byte is lost");
    events
}

fuzz_target!(|data: &[u8]| {
    let wanted = split(&[data]);
    for pieces in [cuts(data, fold(data)), bytes(data)] {
        if !pieces.is_empty() {
            assert_eq!(split(&pieces), wanted);
        }
    }
    let mut written = Vec::new();
    for (name, data) in &wanted {
        write_event(&mut written, name.as_deref(), data);
    }
    assert_eq!(split(&[&written]), wanted, "written and read again");
});
