//! The texts of a stream in the client's dialect that was read to its end, those of its calls too, and the same stream with other texts.
//!
//! Both by the rewriter that text filters use, so all dialects are read and written in one way.

use jiff::Timestamp;
use judgment::guard::{Part, StreamText, change_each};
use knowledge::provider::rewriter::TextFilters;
use knowledge::provider::translation::Translation;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use words::api::chat::{FilterFlow, REFUSALS, TextFilter};

/// A stream that was read.
#[derive(Debug)]
pub(crate) struct ReadStream {
    /// In the order in which they end. What stands between two parts of a text does not end it.
    pub texts: Vec<StreamText>,
    /// The same stream, with nothing in it that was not read: a member that is there twice, or an event of an unknown shape, is none
    /// that a check has seen.
    pub written: Vec<u8>,
    /// It was read to its end, which may be an error.
    pub is_complete: bool,
}

/// Texts that have ended, and those that may go on.
#[derive(Debug, Default)]
struct Collected {
    done: Vec<StreamText>,
    open: Vec<StreamText>,
    /// The choice of each part that goes on with the text of another part.
    parts: HashMap<u32, u32>,
}

#[derive(Debug)]
struct Collector(Arc<Mutex<Collected>>);

#[derive(Debug)]
struct Substitute {
    texts: std::vec::IntoIter<String>,
    /// Bytes of each text that has not ended.
    open: Vec<(u32, usize)>,
}

/// Reads the texts, in the order in which they end. `id`: unique, for ids that the stream does not have.
pub fn read(reader: &Translation, bytes: &[u8], id: &str) -> ReadStream {
    let collected = Arc::<Mutex<Collected>>::default();
    let (written, is_complete) = rewrite(reader, bytes, id, Box::new(Collector(Arc::clone(&collected))));
    let Collected { mut done, open, parts } = std::mem::take(&mut *collected.lock());
    done.extend(open);
    for text in &mut done {
        text.choice = match text.choice {
            _ if reader.has_one_choice() => 0,
            choice if choice >= REFUSALS => choice - REFUSALS,
            choice => parts.get(&choice).copied().unwrap_or(choice),
        };
    }
    ReadStream { texts: done, written, is_complete }
}

/// The stream with these texts in place of those that [`read`] found; `None` where it cannot be written.
pub fn replace(reader: &Translation, bytes: &[u8], id: &str, texts: Vec<String>) -> Option<Vec<u8>> {
    let substitute = Substitute { texts: texts.into_iter(), open: Vec::new() };
    let (written, is_complete) = rewrite(reader, bytes, id, Box::new(substitute));
    is_complete.then_some(written)
}

/// What the rewriter writes, and whether it has come to the end.
fn rewrite(reader: &Translation, bytes: &[u8], id: &str, filter: Box<dyn TextFilter>) -> (Vec<u8>, bool) {
    let mut rewriter = reader.rewriter(true, id, Timestamp::now().as_second().unsigned_abs());
    let mut filters = TextFilters::default();
    filters.add(filter);
    rewriter.set_filters(Some(Box::new(filters)));
    let mut out = Vec::with_capacity(bytes.len());
    rewriter.push(bytes, &mut out);
    rewriter.finish(&mut out);
    let is_complete = rewriter.is_complete();
    (out, is_complete)
}

impl TextFilter for Collector {
    fn text(&mut self, choice: u32, text: &str, out: &mut String) -> FilterFlow {
        let mut collected = self.0.lock();
        match collected.open.iter_mut().find(|open| open.choice == choice) {
            Some(open) => open.text.push_str(text),
            None => collected.open.push(StreamText { choice, text: text.to_owned(), part: Part::Answer }),
        }
        out.push_str(text);
        FilterFlow::Continue
    }

    fn held(&self, _choice: u32) -> usize {
        0
    }

    fn finish(&mut self, choice: u32, _out: &mut String) -> FilterFlow {
        let mut collected = self.0.lock();
        if let Some(at) = collected.open.iter().position(|open| open.choice == choice) {
            let ended = collected.open.remove(at);
            collected.done.push(ended);
        }
        FilterFlow::Continue
    }

    fn reads_calls(&self) -> bool {
        true
    }

    fn arguments(&mut self, choice: u32, arguments: &mut String) -> FilterFlow {
        let done = &mut self.0.lock().done;
        change_each(arguments, |text| {
            done.push(StreamText { choice, text: text.to_owned(), part: Part::Arguments });
            None
        });
        FilterFlow::Continue
    }

    fn follow(&mut self, choice: u32, before: u32) {
        let parts = &mut self.0.lock().parts;
        let of = parts.get(&before).copied().unwrap_or(before);
        parts.insert(choice, of);
    }
}

impl TextFilter for Substitute {
    fn text(&mut self, choice: u32, text: &str, _out: &mut String) -> FilterFlow {
        match self.open.iter_mut().find(|(of, _)| *of == choice) {
            Some((_, bytes)) => *bytes += text.len(),
            None => self.open.push((choice, text.len())),
        }
        FilterFlow::Continue
    }

    fn held(&self, choice: u32) -> usize {
        self.open.iter().find(|(of, _)| *of == choice).map_or(0, |(_, bytes)| *bytes)
    }

    fn finish(&mut self, choice: u32, out: &mut String) -> FilterFlow {
        if let Some(at) = self.open.iter().position(|(of, _)| *of == choice) {
            self.open.remove(at);
            out.push_str(&self.texts.next().unwrap_or_default());
        }
        FilterFlow::Continue
    }

    fn follow(&mut self, _choice: u32, _before: u32) {}

    fn reads_calls(&self) -> bool {
        true
    }

    fn arguments(&mut self, _choice: u32, arguments: &mut String) -> FilterFlow {
        change_each(arguments, |text| self.texts.next().filter(|new| new != text));
        FilterFlow::Continue
    }
}
