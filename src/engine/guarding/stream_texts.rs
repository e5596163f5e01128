//! The texts of a stream in the client's dialect that was read to its end, and the same stream with other texts.
//!
//! Both by the rewriter that text filters use, so all dialects are read and written in one way.

use crate::api::chat::{FilterFlow, TextFilter};
use crate::engine::response_body::unix_seconds;
use crate::provider::rewriter::TextFilters;
use crate::provider::translation::Translation;
use parking_lot::Mutex;
use std::sync::Arc;

/// The texts in the order of the stream, each with its choice. A text ends where something else follows.
pub type Texts = Vec<(u32, String)>;

/// Texts that have ended, and those that may go on.
#[derive(Debug, Default)]
struct Collected {
    done: Texts,
    open: Texts,
}

#[derive(Debug)]
struct Collector(Arc<Mutex<Collected>>);

#[derive(Debug)]
struct Substitute(std::vec::IntoIter<String>);

/// Reads the texts, in the order in which they end.
pub fn read(reader: &Translation, bytes: &[u8]) -> Texts {
    let collected = Arc::<Mutex<Collected>>::default();
    rewrite(reader, bytes, Box::new(Collector(Arc::clone(&collected))));
    let Collected { mut done, open } = std::mem::take(&mut *collected.lock());
    done.extend(open);
    done
}

/// The stream with these texts in place of those that [`read`] found; `None` where it cannot be written.
pub fn replace(reader: &Translation, bytes: &[u8], texts: Vec<String>) -> Option<Vec<u8>> {
    rewrite(reader, bytes, Box::new(Substitute(texts.into_iter())))
}

fn rewrite(reader: &Translation, bytes: &[u8], filter: Box<dyn TextFilter>) -> Option<Vec<u8>> {
    let mut rewriter = reader.rewriter(true, "stream", unix_seconds());
    let mut filters = TextFilters::default();
    filters.add(filter);
    rewriter.set_filters(Some(Box::new(filters)));
    let mut out = Vec::with_capacity(bytes.len());
    rewriter.push(bytes, &mut out);
    rewriter.finish(&mut out);
    rewriter.is_complete().then_some(out)
}

impl TextFilter for Collector {
    fn text(&mut self, choice: u32, text: &str, out: &mut String) -> FilterFlow {
        let mut collected = self.0.lock();
        match collected.open.iter_mut().find(|(of, _)| *of == choice) {
            Some((_, open)) => open.push_str(text),
            None => collected.open.push((choice, text.to_owned())),
        }
        out.push_str(text);
        FilterFlow::Continue
    }

    fn finish(&mut self, choice: u32, _out: &mut String) -> FilterFlow {
        let mut collected = self.0.lock();
        if let Some(at) = collected.open.iter().position(|(of, _)| *of == choice) {
            let ended = collected.open.remove(at);
            collected.done.push(ended);
        }
        FilterFlow::Continue
    }
}

impl TextFilter for Substitute {
    fn text(&mut self, _choice: u32, _text: &str, _out: &mut String) -> FilterFlow {
        FilterFlow::Continue
    }

    fn finish(&mut self, _choice: u32, out: &mut String) -> FilterFlow {
        out.push_str(&self.0.next().unwrap_or_default());
        FilterFlow::Continue
    }
}
