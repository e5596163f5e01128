//! Tests every provider's translation against its golden files, `tests/golden/<id>/<case>/`.
//!
//! | file | content |
//! |---|---|
//! | `in.json` | a chat completion as a client sends it |
//! | `account.json` | the account, written as in a config target; empty when absent |
//! | `upstream.json` | the exact body sent upstream (may be indented, and ends in a line break) |
//! | `aside.txt` | headers and warnings of the translation: `header: ...` and `warning: ...` lines; none when absent |
//! | `refused.txt` | instead of both, for a refused request: `400 param: message` |
//! | `answer.json`, `answer.sse` | the provider's response (whole, streamed) |
//! | `answer.frames` | a stream of Amazon's binary frames, one per line: `event <type> <payload>`, `exception ..`, `error ..`, `untyped ..` |
//! | `events.txt` | the decoded events, one per line; the same for the whole response, byte by byte and at random cuts |
//! | `mended.json`, `mended.sse` | instead of events, for providers that speak the client's dialect: the patched response |
//!
//! Requests and responses are written by hand; `UPDATE_GOLDEN=1 cargo test provider::goldens` rewrites the
//! other files. Review them before committing.

use super::adapter::{Adapter, CallTarget, ResponsePatch};
use super::bedrock::testing;
use super::fitting::fit;
use super::translation_notes::TranslationNotes;
use super::{Call, Provider, find};
use http::Method;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use words::api::body::Body;
use words::api::chat::{Decoder, Event};
use words::api::chat_completions;
use words::api::operation::Operation;
use words::api::sse::{SseParser, write_event};
use words::config::account::Account;
use words::config::node::Node;
use words::config::read::{Cursor, Problems};
use words::error::Error;

#[test]
fn every_golden_case_matches() {
    let mut differences = Vec::new();
    let mut checked = 0;
    for (id, folder) in cases() {
        let provider = find(&id).unwrap_or_else(|| panic!("{}: no such provider", folder.display()));
        let case = Case { provider, folder: &folder };
        case.check_request(&mut differences);
        case.check_responses(&mut differences);
        checked += 1;
    }
    assert!(differences.is_empty(), "{checked} cases; these differ:\n\n{}", differences.join("\n\n"));
}

/// All cases, as pairs of provider id and folder.
fn cases() -> Vec<(String, PathBuf)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden");
    let mut cases = Vec::new();
    for provider in fs::read_dir(root).unwrap().map(Result::unwrap).filter(|entry| entry.path().is_dir()) {
        let id = provider.file_name().into_string().unwrap();
        let inside = fs::read_dir(provider.path()).unwrap().map(|entry| entry.unwrap().path());
        cases.extend(inside.filter(|path| path.is_dir()).map(|folder| (id.clone(), folder)));
    }
    cases.sort();
    cases
}

struct Case<'a> {
    provider: &'static dyn Provider,
    folder: &'a Path,
}

/// The translated request, or why it was refused.
type Outcome = Result<(Vec<u8>, TranslationNotes), Error>;

impl Case<'_> {
    fn file(&self, name: &str) -> Option<Vec<u8>> {
        fs::read(self.folder.join(name)).ok()
    }

    fn account(&self) -> Account {
        let Some(text) = self.file("account.json") else { return Account::default() };
        let node = Node::from_json(&text).unwrap();
        let problems = Problems::default();
        let account = Account::read(&Cursor::root(&node, &problems));
        assert_eq!(problems.into_vec(), [], "{}", self.folder.display());
        account.unwrap()
    }

    /// Calls `then` with the body of `in.json` (or an empty one), its call target and the adapter for it.
    fn with_adapter<T>(&self, streamed: bool, then: impl FnOnce(&Body, &CallTarget<'_>, Adapter) -> T) -> T {
        let body = Body::parse(self.file("in.json").unwrap_or_else(|| b"{}".to_vec()).into());
        let body = body.unwrap_or_else(|error| panic!("{}: {error}", self.folder.display()));
        let model = body.text("model").unwrap_or_default().into_owned();
        let account = self.account();
        let call = Call {
            operation: Operation::ChatCompletions,
            method: &Method::POST,
            path: "chat/completions",
            query: None,
            model: Some(&model),
            streamed: streamed || body.is_true("stream"),
        };
        let adapter = self.provider.adapter(&call, &account).unwrap();
        then(
            &body,
            &CallTarget { call: &call, account: &account, model: &model, client_betas: None },
            adapter,
        )
    }

    fn translate(&self) -> Outcome {
        self.with_adapter(false, |body, target, adapter| {
            let mut notes = TranslationNotes::default();
            let sent = match adapter {
                Adapter::Chat(chat) => {
                    let mut request = chat_completions::read(body)?;
                    fit(&mut request, Operation::ChatCompletions, chat, target.model, &mut notes)?;
                    chat.write(request, target, &mut notes)?
                }
                Adapter::Passthrough(_) => {
                    body.edit(&self.provider.edits(body, target, &mut notes)?).to_vec()
                }
                Adapter::Json(_) => panic!("{}: a chat is no exchange", self.folder.display()),
            };
            Ok((sent, notes))
        })
    }

    fn check_request(&self, differences: &mut Vec<String>) {
        if self.file("in.json").is_none() {
            return;
        }
        let mut sent = None;
        let mut aside = String::new();
        let mut refused = None;
        match self.translate() {
            Ok((body, notes)) => {
                let same =
                    self.file("upstream.json").is_some_and(|golden| compact(&golden) == compact(&body));
                sent = Some(if same { self.file("upstream.json").unwrap() } else { laid_out(&body) });
                for (name, value) in &notes.headers {
                    writeln!(aside, "header: {name}: {}", value.to_str().unwrap()).unwrap();
                }
                notes.warnings.iter().for_each(|each| writeln!(aside, "warning: {each}").unwrap());
            }
            Err(error) => {
                let param = error.param.as_deref().unwrap_or("-");
                refused = Some(format!("{} {param}: {}\n", error.status(), error.message));
            }
        }
        self.compare("upstream.json", sent, differences);
        self.compare("aside.txt", Some(aside.into_bytes()).filter(|aside| !aside.is_empty()), differences);
        self.compare("refused.txt", refused.map(String::into_bytes), differences);
    }

    fn check_responses(&self, differences: &mut Vec<String>) {
        for (name, streamed) in [("answer.json", false), ("answer.sse", true), ("answer.frames", true)] {
            let Some(response) = self.file(name) else { continue };
            let response = if name.ends_with(".frames") { testing::stream(&response) } else { response };
            match self.with_adapter(streamed, |_, _, adapter| adapter) {
                Adapter::Chat(chat) => {
                    let events = every_cut(&response, &|| chat.decoder(streamed), self.folder);
                    self.compare("events.txt", Some(events.into_bytes()), differences);
                }
                Adapter::Passthrough(patch) => {
                    let patched = apply_patch(patch, &response, streamed);
                    self.compare(
                        if streamed { "mended.sse" } else { "mended.json" },
                        Some(patched),
                        differences,
                    );
                }
                Adapter::Json(_) => panic!("{}: a chat is no exchange", self.folder.display()),
            }
        }
    }

    /// Records a difference between a golden file and the result, or rewrites the file on `UPDATE_GOLDEN`.
    fn compare(&self, name: &str, got: Option<Vec<u8>>, differences: &mut Vec<String>) {
        let golden = self.file(name);
        if golden == got {
            return;
        }
        let path = self.folder.join(name);
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            match got {
                Some(got) => fs::write(path, got).unwrap(),
                None => fs::remove_file(path).unwrap(),
            }
            return;
        }
        let show = |text: Option<Vec<u8>>| match text {
            Some(text) => String::from_utf8_lossy(&text).into_owned(),
            None => "(no such file)\n".to_owned(),
        };
        differences.push(format!("{}\n--- golden\n{}--- got\n{}", path.display(), show(golden), show(got)));
    }
}

/// Decodes a response whole, byte by byte and at random cuts, and requires the same events each time.
fn every_cut(response: &[u8], new_decoder: &dyn Fn() -> Box<dyn Decoder>, at: &Path) -> String {
    let events = decode(response, new_decoder(), &mut || response.len());
    assert_eq!(events, decode(response, new_decoder(), &mut || 1), "{}: byte by byte", at.display());
    // Pseudo-random chunks of 1 to 64 bytes, the same in every run.
    for mut seed in 1..=20_u64 {
        let mut next = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as usize % 64 + 1
        };
        assert_eq!(events, decode(response, new_decoder(), &mut next), "{}: random cuts", at.display());
    }
    events
}

/// The events of a response that arrives in chunks of `size()` bytes, one per line.
fn decode(response: &[u8], mut decoder: Box<dyn Decoder>, size: &mut dyn FnMut() -> usize) -> String {
    let mut events = String::new();
    let mut note = |event: Event<'_>| writeln!(events, "{event:?}").unwrap();
    let mut rest = response;
    while !rest.is_empty() {
        let (chunk, after) = rest.split_at(size().clamp(1, rest.len()));
        decoder.push(chunk, &mut note);
        rest = after;
    }
    decoder.finish(&mut note);
    events
}

fn apply_patch(patch: Option<&dyn ResponsePatch>, response: &[u8], streamed: bool) -> Vec<u8> {
    let patch =
        |data: &[u8]| patch.and_then(|patch| patch.patch(data, streamed)).unwrap_or_else(|| data.to_vec());
    if !streamed {
        return patch(response);
    }
    let mut out = Vec::new();
    let mut parser = SseParser::default();
    for run in [parser.push(response), parser.finish()] {
        for event in run.events() {
            if let Some(data) = &event.data {
                write_event(&mut out, event.name, &patch(data));
            }
        }
    }
    out
}

/// JSON without insignificant white space; digits, escapes and order are kept.
fn compact(json: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(json.len());
    scan_bytes(json, &mut |byte, inside, _| {
        if inside || !byte.is_ascii_whitespace() {
            out.push(byte);
        }
    });
    out
}

/// Indents JSON for reading: the members of the outer three levels get a line each.
fn laid_out(json: &[u8]) -> Vec<u8> {
    const MAX_DEPTH: usize = 3;
    let json = compact(json);
    let mut out = Vec::with_capacity(json.len() * 2);
    let mut at = 0;
    scan_bytes(&json, &mut |byte, inside, depth| {
        at += 1;
        let next = json.get(at).copied().unwrap_or(b'\n');
        let line = |out: &mut Vec<u8>, depth: usize| {
            out.push(b'\n');
            out.resize(out.len() + depth * 2, b' ');
        };
        let empty = matches!((out.last(), byte), (Some(b'{'), b'}') | (Some(b'['), b']'));
        if !inside && matches!(byte, b'}' | b']') && depth < MAX_DEPTH && !empty {
            line(&mut out, depth);
        }
        out.push(byte);
        match byte {
            _ if inside => {}
            b'{' | b'[' if depth <= MAX_DEPTH && !matches!(next, b'}' | b']') => line(&mut out, depth),
            b',' if depth <= MAX_DEPTH => line(&mut out, depth),
            b',' | b':' => out.push(b' '),
            _ => {}
        }
    });
    out.push(b'\n');
    out
}

/// Calls `on` for each byte with whether it is inside a string (quotes included) and its nesting depth (an
/// opening bracket counts as inside its own level, a closing one as outside).
fn scan_bytes(json: &[u8], on: &mut dyn FnMut(u8, bool, usize)) {
    let mut inside = false;
    let mut escaped = false;
    let mut depth = 0_usize;
    for &byte in json {
        if inside {
            on(byte, true, depth);
            inside = byte != b'"' || escaped;
            escaped = byte == b'\\' && !escaped;
            continue;
        }
        match byte {
            b'"' => inside = true,
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        on(byte, inside, depth);
    }
}
