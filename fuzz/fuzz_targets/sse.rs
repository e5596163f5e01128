//! Server-sent events: cuts do not matter, and what is written is read again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use turnpike::api::sse::{Splitter, write_event};
use turnpike_fuzz::{bytes, cuts, fold};

type Events = Vec<(Option<String>, Vec<u8>)>;

fn split(pieces: &[&[u8]]) -> Events {
    let mut events = Events::new();
    let mut splitter = Splitter::default();
    let mut on = |event: turnpike::api::sse::Event<'_>| {
        events.push((event.name.map(str::to_owned), event.data.to_vec()));
    };
    for piece in pieces {
        splitter.push(piece, &mut on).expect("inputs are below the limit");
    }
    splitter.finish(&mut on);
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
