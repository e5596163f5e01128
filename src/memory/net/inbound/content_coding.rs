//! Compressed request bodies (`Content-Encoding`): which codings are read, and how they are unpacked within a bound.
//!
//! Codex compresses with zstd, other clients with gzip. The bound is on what comes out: a small body may unpack to gigabytes. Not
//! here: the bytes themselves, which the data port reads from the connection.

use brotli::Decompressor;
use bytes::Bytes;
use flate2::bufread::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};
use http::{HeaderMap, header};
use std::io::Read;
use words::error::Error;
use zstd::stream::read::Decoder;

/// What is unpacked at a time, bytes.
const STEP: usize = 64 << 10;
/// The largest window of zstd, as a power of two: 8 MiB, which every encoder keeps to unless it is told otherwise (RFC 8878, 3.1.1.1.2).
const ZSTD_WINDOW: u32 = 23;

/// A coding of request bodies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContentCoding {
    Gzip,
    Deflate,
    Brotli,
    Zstd,
}

impl ContentCoding {
    /// The coding that the headers name; `None`: the body is as it is.
    ///
    /// # Errors
    /// 400 for one that is not read, and for several.
    pub fn of(headers: &HeaderMap) -> Result<Option<Self>, Error> {
        let mut values = headers.get_all(header::CONTENT_ENCODING).iter();
        let (Some(value), None) = (values.next(), values.next()) else {
            return if headers.contains_key(header::CONTENT_ENCODING) { Err(unread()) } else { Ok(None) };
        };
        let name = value.to_str().unwrap_or_default().trim().to_ascii_lowercase();
        match name.as_str() {
            "identity" | "" => Ok(None),
            "gzip" | "x-gzip" => Ok(Some(Self::Gzip)),
            "deflate" => Ok(Some(Self::Deflate)),
            "br" => Ok(Some(Self::Brotli)),
            "zstd" => Ok(Some(Self::Zstd)),
            _ => Err(unread()),
        }
    }

    /// Unpacks a body. `count` gets the bytes that are held meanwhile, packed ones included.
    ///
    /// # Errors
    /// 413 if more than `limit` bytes come out, 400 if the body is not what its header says, and what `count` returns.
    pub fn unpack(
        self,
        packed: &[u8],
        limit: usize,
        count: &mut dyn FnMut(usize) -> Result<(), Error>,
    ) -> Result<Bytes, Error> {
        match self {
            Self::Gzip => read(MultiGzDecoder::new(packed), packed.len(), limit, count),
            Self::Deflate if is_zlib(packed) => read(ZlibDecoder::new(packed), packed.len(), limit, count),
            // Some clients leave the wrapping out that the standard requires.
            Self::Deflate => read(DeflateDecoder::new(packed), packed.len(), limit, count),
            Self::Brotli => read(Decompressor::new(packed, STEP), packed.len(), limit, count),
            Self::Zstd => {
                let decoder = Decoder::with_buffer(packed).and_then(|mut decoder| {
                    decoder.window_log_max(ZSTD_WINDOW)?;
                    Ok(decoder)
                });
                read(decoder.map_err(|_| Error::internal("zstd"))?, packed.len(), limit, count)
            }
        }
    }
}

fn unread() -> Error {
    let message =
        "The body's Content-Encoding is not read. Send gzip, deflate, br or zstd, or no compression.";
    Error::bad_request(message).with_param("content-encoding")
}

/// Whether the first two bytes are a header of zlib (RFC 1950, 2.2).
fn is_zlib(packed: &[u8]) -> bool {
    match packed {
        [method, flags, ..] => method & 0x0f == 8 && u16::from_be_bytes([*method, *flags]).is_multiple_of(31),
        _ => false,
    }
}

fn read(
    mut decoder: impl Read,
    packed: usize,
    limit: usize,
    count: &mut dyn FnMut(usize) -> Result<(), Error>,
) -> Result<Bytes, Error> {
    let mut out = Vec::new();
    loop {
        let before = out.len();
        let step = STEP.min(limit + 1 - before);
        decoder.by_ref().take(step as u64).read_to_end(&mut out).map_err(|_| {
            Error::bad_request("The body cannot be unpacked: it is not what its Content-Encoding says.")
                .with_param("content-encoding")
        })?;
        if out.len() > limit {
            return Err(Error::body_too_large(limit as u64));
        }
        count(packed + out.len())?;
        if out.len() == before {
            // It is held as long as the request, and only what is in it was counted.
            out.shrink_to_fit();
            return Ok(Bytes::from(out));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};
    use http::HeaderValue;
    use std::io::Write;

    fn packed(coding: &str, text: &[u8]) -> Vec<u8> {
        let level = Compression::default();
        match coding {
            "gzip" => {
                let mut encoder = GzEncoder::new(Vec::new(), level);
                encoder.write_all(text).unwrap();
                encoder.finish().unwrap()
            }
            "zlib" => {
                let mut encoder = ZlibEncoder::new(Vec::new(), level);
                encoder.write_all(text).unwrap();
                encoder.finish().unwrap()
            }
            "deflate" => {
                let mut encoder = DeflateEncoder::new(Vec::new(), level);
                encoder.write_all(text).unwrap();
                encoder.finish().unwrap()
            }
            "br" => {
                let mut out = Vec::new();
                brotli::BrotliCompress(&mut &*text, &mut out, &brotli::enc::BrotliEncoderParams::default())
                    .unwrap();
                out
            }
            _ => zstd::encode_all(text, 3).unwrap(),
        }
    }

    fn unpack(coding: &str, packed: &[u8], limit: usize) -> Result<Bytes, Error> {
        let mut headers = HeaderMap::new();
        let name = if coding == "zlib" { "deflate" } else { coding };
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_str(name).unwrap());
        ContentCoding::of(&headers).unwrap().unwrap().unpack(packed, limit, &mut |_| Ok(()))
    }

    #[test]
    fn every_coding_is_read_within_its_bound() {
        let text = vec![b'a'; 200_000];
        for coding in ["gzip", "zlib", "deflate", "br", "zstd"] {
            let packed = packed(coding, &text);
            assert_eq!(unpack(coding, &packed, text.len()).unwrap(), text, "{coding}");
            assert_eq!(unpack(coding, &packed, text.len() - 1).unwrap_err().status(), 413, "{coding}");
            let cut = packed.get(..packed.len() - 5).unwrap();
            assert_eq!(unpack(coding, cut, text.len()).unwrap_err().status(), 400, "{coding}");
        }
        assert_eq!(unpack("gzip", b"{}", 10).unwrap_err().status(), 400);
    }

    #[test]
    fn what_is_held_is_counted_while_unpacking() {
        let packed = packed("gzip", &vec![b'a'; 1 << 20]);
        let mut most = 0;
        let refused = ContentCoding::Gzip.unpack(&packed, 1 << 20, &mut |bytes| {
            most = bytes;
            if bytes > 300_000 { Err(Error::memory_limit(300_000)) } else { Ok(()) }
        });
        assert_eq!(refused.unwrap_err().status(), 503);
        assert!(most < 300_000 + STEP + packed.len(), "{most}");
    }

    #[test]
    fn other_codings_are_refused_and_none_is_none() {
        let of = |values: &[&'static str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(header::CONTENT_ENCODING, HeaderValue::from_static(value));
            }
            ContentCoding::of(&headers)
        };
        assert_eq!(of(&[]).unwrap(), None);
        assert_eq!(of(&["identity"]).unwrap(), None);
        assert_eq!(of(&["GZIP"]).unwrap(), Some(ContentCoding::Gzip));
        for refused in [&["compress"][..], &["gzip, zstd"], &["gzip", "zstd"]] {
            assert_eq!(of(refused).unwrap_err().status(), 400);
        }
    }
}
