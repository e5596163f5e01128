//! The file of an export: JSONL, a log a line, read from the log store while it is sent. Its link is signed and expires.
//!
//! Memory: one page of rows and one piece of text, however long the file is; a client that does not read holds no connection of the log
//! store.

use super::link_maker::LinkMaker;
use super::{exports, ledger, log_view};
use crate::call::Call;
use crate::field::{Field, Type, required};
use crate::records::time;
use crate::reply::Reply;
use crate::route::{Access, Route, Shape, get};
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures_util::stream;
use jiff::{SignedDuration, Timestamp};
use memory::auth::LivingKey;
use memory::ledger::filter::Filter;
use memory::ledger::log_store::LogError;
use memory::ledger::{Ledger, Question, Row, payload};
use memory::net::inbound::places::Place;
use memory::state::Shared;
use memory::store::{Kind, Record, Status};
use ring::hmac;
use serde_json::{Map, Value, json};
use std::io::{self, Write as _};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;
use url::form_urlencoded;
use uuid::Uuid;
use words::error::Error;
use words::settings::scopes::Scope;

/// How long a link is good for.
const LINK_SECONDS: i64 = 900;
/// How long the rows of one page may be looked for.
const PAGE_TIMEOUT: Duration = Duration::from_secs(60);
/// Rows read at a time; fewer with bodies, which may be long.
const PAGE_ROWS: usize = 500;
const PAGE_ROWS_WITH_BODIES: usize = 16;
/// Bytes after which a piece is sent.
const PIECE_BYTES: usize = 64 << 10;
const CONTENT_TYPE: &str = "application/x-ndjson";

const QUERY: &[Field] = &[
    required("expires", Type::Integer(0, i64::MAX), "Seconds since 1970."),
    required("by", Type::Text(512), "The key that made the link, not its secret."),
    required("signature", Type::Text(64), "Over the export, the time and the key."),
];

pub(crate) const ROUTES: &[Route] =
    &[get("/v1/logs/export-files/{id}", Access::Link, "The file of an export, by a signed link", |call| {
        Box::pin(file(call))
    })
    .query(QUERY)
    .replies(Shape::Text(CONTENT_TYPE))];

/// A link to the file. It ends with the key that calls, at the latest.
///
/// # Errors
/// 503 without a store.
pub(super) fn link(call: &Call, export: Uuid) -> Result<Reply, Error> {
    let end = call.now + SignedDuration::from_secs(LINK_SECONDS);
    let end = call.identity.expires_at.map_or(end, |expiry| expiry.min(end));
    let gone = || Error::forbidden("The calling key may not export logs any more.");
    let maker = LinkMaker::of(call).ok_or_else(gone)?;
    let living = maker.living(&call.shared, Scope::LogsExport, call.now);
    let secret = living.and_then(|living| living.secrets.into_iter().next()).ok_or_else(gone)?;
    let link = Link { export, expires: end.as_second(), by: maker.text() };
    let signature = hex(hmac::sign(&key(call)?, &link.signed(&secret)).as_ref());
    let base = &call.arrival.base;
    let expires = link.expires;
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair("expires", &expires.to_string());
    query.append_pair("by", &link.by).append_pair("signature", &signature);
    let url = format!("{base}/v1/logs/export-files/{export}?{}", query.finish());
    let expires_at = Timestamp::from_second(expires).map(time).unwrap_or_default();
    Ok(Reply::from(json!({"signed_url": url, "expires_at": expires_at})))
}

/// The key of signatures: the same at all gateways of a store.
fn key(call: &Call) -> Result<hmac::Key, Error> {
    let secret = call.store()?.pepper();
    let secret =
        secret.ok_or_else(|| Error::store_unavailable("The store has no secret to sign links with."))?;
    Ok(hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()))
}

/// What a link says.
struct Link {
    export: Uuid,
    /// Seconds since 1970.
    expires: i64,
    /// A [`LinkMaker`] as text.
    by: String,
}

impl Link {
    /// What is signed. `secret`: a digest that only the key's holder and the gateway know.
    fn signed(&self, secret: &[u8]) -> Vec<u8> {
        let Self { export, expires, by } = self;
        let mut text = format!("turnpike log export\n{export}\n{expires}\n{}\n{by}\n", by.len()).into_bytes();
        text.extend_from_slice(secret);
        text
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    text.as_bytes().chunks(2).map(pair).collect()
}

fn refused() -> Error {
    Error::forbidden(
        "The link is not valid, or has expired, or its key has. GET /v1/logs/exports/{id}/download makes a new one.",
    )
}

/// The link of a request, and the key that made it.
///
/// # Errors
/// 403 where it is not valid, or the key is not any more.
fn verified(call: &Call) -> Result<(Link, LinkMaker, LivingKey), Error> {
    let link = Link {
        export: Uuid::try_parse(call.named()).map_err(|_| refused())?,
        expires: call.query.get("expires").and_then(Value::as_i64).unwrap_or_default(),
        by: call.query_text("by").unwrap_or_default().to_owned(),
    };
    let signature = call.query_text("signature").and_then(from_hex).unwrap_or_default();
    let maker = LinkMaker::parse(&link.by).ok_or_else(refused)?;
    let living = maker.living(&call.shared, Scope::LogsExport, call.now).ok_or_else(refused)?;
    let key = key(call)?;
    let is_of = |secret: &Vec<u8>| hmac::verify(&key, &link.signed(secret), &signature).is_ok();
    if living.secrets.iter().any(is_of) && call.now.as_second() < link.expires {
        Ok((link, maker, living))
    } else {
        Err(refused())
    }
}

async fn file(mut call: Call) -> Result<Reply, Error> {
    let (Link { export, .. }, maker, living) = verified(&call)?;
    // From here on the call sees what the key may see now.
    call.identity = living.identity;
    let record = in_use(&call.shared, export).ok_or_else(refused)?;
    if call.own_workspace().is_some_and(|own| record.workspace != Some(own)) {
        return Err(refused());
    }
    let ledger = ledger(&call)?;
    let busy = "The gateway sends as many exports now as it may. Try again when one is done.";
    let place = ledger.start_export(record.workspace).ok_or_else(|| Error::store_unavailable(busy))?;
    let exports::Selection { filter, offset, limit } = exports::of_record(&call, &record)?;
    let columns = exports::columns(&record);
    let has_bodies = columns.iter().any(|name| name == "request" || name == "response");
    let is_gzip = call.arrival.accepts_gzip;
    let lines = Lines {
        ledger: Arc::clone(ledger),
        shared: Arc::clone(&call.shared),
        export,
        maker,
        filter,
        offset,
        left: limit,
        columns,
        has_bodies,
        text: Text::new(is_gzip),
        is_done: false,
        _place: place,
    };
    let pieces = stream::unfold(lines, async |mut lines| match lines.next().await {
        Ok(Some(piece)) => Some((Ok(piece), lines)),
        Ok(None) => None,
        Err(why) => {
            log::warn!(target: "turnpike::ledger", "the export {} is cut off: {why}", lines.export);
            lines.is_done = true;
            Some((Err(why), lines))
        }
    });
    let name = format!("attachment; filename=\"logs-{export}.jsonl\"");
    let reply = Reply::streamed(CONTENT_TYPE, pieces).with_header("content-disposition", &name);
    Ok(if is_gzip { reply.with_header("content-encoding", "gzip") } else { reply })
}

/// The export, while it may be downloaded.
fn in_use(shared: &Shared, export: Uuid) -> Option<Arc<Record>> {
    let catalog = shared.store()?.catalog();
    let record = catalog.get(Kind::LogExport, export)?;
    (record.status == Status::Active && exports::status(record) == exports::SUCCESS)
        .then(|| Arc::clone(record))
}

/// The rest of a file.
struct Lines {
    ledger: Arc<Ledger>,
    shared: Arc<Shared>,
    export: Uuid,
    maker: LinkMaker,
    filter: Filter,
    /// Rows to leave out before the first one.
    offset: u64,
    left: usize,
    columns: Vec<String>,
    has_bodies: bool,
    text: Text,
    is_done: bool,
    _place: Place,
}

type Found = Vec<(Row, Option<Vec<u8>>)>;

impl Lines {
    /// The next piece of the file; `None` after the last one.
    async fn next(&mut self) -> io::Result<Option<Bytes>> {
        while !self.is_done {
            if in_use(&self.shared, self.export).is_none() {
                return Err(io::Error::other("it was stopped"));
            }
            if self.maker.living(&self.shared, Scope::LogsExport, Timestamp::now()).is_none() {
                return Err(io::Error::other("the key of its link is not good any more"));
            }
            let page = if self.has_bodies { PAGE_ROWS_WITH_BODIES } else { PAGE_ROWS }.min(self.left);
            let found = self.page(page).await.map_err(|why| io::Error::other(why.to_string()))?;
            self.offset = 0;
            self.left -= found.len().min(self.left);
            self.filter.before = found.last().map(|(row, _)| row.id).or(self.filter.before);
            self.is_done = found.len() < page || self.left == 0;
            for (row, payload) in &found {
                let line = line(row, payload.as_deref(), &self.columns);
                self.text.write(format!("{line}\n").as_bytes())?;
            }
            if self.is_done {
                return self.text.finish().map(|rest| (!rest.is_empty()).then(|| rest.into()));
            }
            if self.text.len() >= PIECE_BYTES {
                return Ok(Some(self.text.take().into()));
            }
        }
        Ok(None)
    }

    async fn page(&self, size: usize) -> Result<Found, LogError> {
        let filter = self.filter.clone();
        let offset = self.offset;
        let has_bodies = self.has_bodies;
        let read = self.ledger.run(Question::Export, PAGE_TIMEOUT, move |store, control| {
            let mut rows = Vec::with_capacity(size);
            if size > 0 {
                store.scan(&filter, offset, control, &mut |row| {
                    rows.push(row);
                    if rows.len() < size { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
                })?;
            }
            let with_payload = |row: Row| {
                let payload = if has_bodies { store.payload(row.id)? } else { None };
                Ok((row, payload))
            };
            rows.into_iter().map(with_payload).collect::<Result<Found, LogError>>()
        });
        read.await
    }
}

/// A log as an object of the requested members, in their order.
fn line(row: &Row, payload: Option<&[u8]>, columns: &[String]) -> Value {
    let mut all = log_view::columns(row);
    if columns.iter().any(|name| name == "request" || name == "response") {
        let payload = payload.and_then(payload::read);
        all.extend(log_view::bodies(row, payload.as_ref()));
    }
    let member = |name: &String| (name.clone(), all.get(name).cloned().unwrap_or(Value::Null));
    Value::Object(columns.iter().map(member).collect::<Map<String, Value>>())
}

/// What was written and not sent.
enum Text {
    Plain(Vec<u8>),
    Gzip(Box<GzEncoder<Vec<u8>>>),
}

impl Text {
    fn new(is_gzip: bool) -> Self {
        if is_gzip {
            Self::Gzip(Box::new(GzEncoder::new(Vec::new(), Compression::fast())))
        } else {
            Self::Plain(Vec::new())
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Plain(text) => text.write_all(bytes),
            Self::Gzip(encoder) => encoder.write_all(bytes),
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Plain(text) => text.len(),
            Self::Gzip(encoder) => encoder.get_ref().len(),
        }
    }

    fn take(&mut self) -> Vec<u8> {
        match self {
            Self::Plain(text) => std::mem::take(text),
            Self::Gzip(encoder) => std::mem::take(encoder.get_mut()),
        }
    }

    fn finish(&mut self) -> io::Result<Vec<u8>> {
        if let Self::Gzip(encoder) = self {
            encoder.try_finish()?;
        }
        Ok(self.take())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;

    #[test]
    fn a_line_has_the_requested_members_alone() {
        let columns = ["id", "cost", "request", "nothing"].map(str::to_owned);
        let row: Row = serde_json::from_value(json!({
            "id": Uuid::from_u128(3), "kind": "request", "created_ms": 1_795_000_000_003_i64, "trace_id": "trace",
            "operation": "chat", "method": "POST", "path": "/v1/chat/completions", "status": 200, "is_success": true,
            "streamed": false, "responded": true, "is_custom": false, "cost": 7, "cost_status": "priced",
            "latency_us": 9_000, "upstream_us": 8_000, "overhead_us": 100, "retries": 0, "is_fallback": false,
            "bytes_in": 10, "bytes_out": 11,
        }))
        .unwrap();
        let line = line(&row, None, &columns);
        let names: Vec<&String> = line.as_object().unwrap().keys().collect();
        assert_eq!(names.len(), 4, "{line}");
        assert_eq!(line["id"], row.id.to_string());
        assert_eq!(line["request"]["url"], "/v1/chat/completions");
        assert_eq!(line["request"]["body"], Value::Null);
    }

    #[test]
    fn compressed_text_is_taken_piece_by_piece() {
        let mut text = Text::new(true);
        let mut sent = Vec::new();
        let wanted: String =
            (0..20_000).map(|number| format!("{{\"id\":{}}}\n", number * 7919 % 10_007)).collect();
        for line in wanted.lines() {
            text.write(format!("{line}\n").as_bytes()).unwrap();
            if text.len() > 1000 {
                sent.extend(text.take());
            }
        }
        sent.extend(text.finish().unwrap());
        let mut read = String::new();
        flate2::read::GzDecoder::new(sent.as_slice()).read_to_string(&mut read).unwrap();
        assert_eq!(read, wanted);
    }

    #[test]
    fn signatures_are_read_back() {
        assert_eq!(from_hex(&hex(&[0, 15, 255])), Some(vec![0, 15, 255]));
        assert_eq!(from_hex("0g"), None);
        let link = |expires, by: &str| Link { export: Uuid::nil(), expires, by: by.to_owned() };
        let signed = link(1, "key.a").signed(b"s");
        for other in
            [link(2, "key.a").signed(b"s"), link(1, "key.b").signed(b"s"), link(1, "key.a").signed(b"t")]
        {
            assert_ne!(signed, other);
        }
    }
}
