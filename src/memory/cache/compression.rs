//! Bodies in a smaller form (zstd), where that pays.
//!
//! Not here: where a body is kept in which form (`memory`, `codec`).

use crate::state::large_work::run_here;
use bytes::Bytes;
use std::cell::RefCell;
use zstd::bulk::{Compressor, Decompressor};

/// Bodies up to this size stay as they are, bytes.
pub(super) const MIN_SIZE: usize = 1024;
/// Recorded whole responses shrink to 60 %, streams to 16 to 23 %, at 400 MB/s; level 3 shrinks them as much and takes a third longer.
const LEVEL: i32 = 1;

thread_local! {
    // A context has some hundred kilobytes: to make one costs more than to compress a small body with it.
    static COMPRESSOR: RefCell<Option<Compressor<'static>>> = const { RefCell::new(None) };
    static DECOMPRESSOR: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
}

/// The compressed body. `None`: it would not be at least a fifth smaller.
pub(super) fn compress(body: &[u8]) -> Option<Vec<u8>> {
    if body.len() <= MIN_SIZE {
        return None;
    }
    let compressed = COMPRESSOR.with_borrow_mut(|kept| {
        if kept.is_none() {
            *kept = Compressor::new(LEVEL).ok();
        }
        kept.as_mut()?.compress(body).ok()
    })?;
    (compressed.len() <= body.len() / 5 * 4).then_some(compressed)
}

/// The decompressed body; `size` is its length. `None`: it is damaged.
pub(super) fn decompress(compressed: &[u8], size: usize) -> Option<Bytes> {
    let decompress = || {
        DECOMPRESSOR.with_borrow_mut(|kept| {
            if kept.is_none() {
                *kept = Decompressor::new().ok();
            }
            kept.as_mut()?.decompress(compressed, size).ok()
        })
    };
    let body = run_here(size, decompress)?;
    (body.len() == size).then(|| Bytes::from(body))
}
