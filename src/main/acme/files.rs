//! What is kept of an authority in the state directory: the account, and for each set of names the certificate with its key, and what
//! became of its orders.
//!
//! ```text
//!   STATE/acme/acme-v02.api.letsencrypt.org-1f0c…/account.json
//!                                                /gateway.example.com-9a41….pem    key and chain
//!                                                /gateway.example.com-9a41….json   its orders
//!                                                /lock                             of the process that orders
//! ```
//!
//! By the directory's URL and the names, so that an authority of tests and another set of names leave these as they are. A certificate of
//! an earlier set is served until that of the new one is there. Files are readable by their owner alone, and replaced as a whole.

use super::schedule::OrderHistory;
use crate::certificate::{is_for, validity};
use memory::store::{lock_private, write_private};
use ring::digest::{SHA256, digest};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, ErrorKind, Read as _};
use std::path::{Path, PathBuf};

/// The largest file that is read, bytes.
const MAX_BYTES: u64 = 1 << 20;
/// The most files of a folder that are looked at.
const MAX_FILES: usize = 1_000;
/// The digest's part of a name, bytes.
const DIGEST_BYTES: usize = 6;

/// The folder of one authority.
#[derive(Debug, Clone)]
pub struct AcmeFiles {
    folder: PathBuf,
}

/// The files of one set of names.
#[derive(Debug, Clone)]
pub struct IssuedFiles {
    pub pem: PathBuf,
    history: PathBuf,
}

impl AcmeFiles {
    pub fn new(state_dir: &Path, directory: &str) -> Self {
        let host = directory.split('/').nth(2).unwrap_or_default();
        let host: String = host.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '.' }).collect();
        let folder = state_dir.join("acme").join(format!("{host}-{}", short_digest(directory)));
        Self { folder: std::path::absolute(&folder).unwrap_or(folder) }
    }

    pub fn account(&self) -> PathBuf {
        self.folder.join("account.json")
    }

    /// The same for the names in any order.
    pub fn issued(&self, names: &[String]) -> IssuedFiles {
        let mut sorted: Vec<&str> = names.iter().map(String::as_str).collect();
        sorted.sort_unstable();
        let first = sorted.first().copied().unwrap_or_default();
        // A name has up to 253 bytes, and a file 255.
        let first = first.get(..first.floor_char_boundary(200)).unwrap_or_default();
        let name = format!("{first}-{}", short_digest(&sorted.join(" ")));
        let pem = self.folder.join(format!("{name}.pem"));
        IssuedFiles { pem, history: self.folder.join(format!("{name}.json")) }
    }

    /// The newest certificate with its key, PEM, that is good now and is for one of these names: what is served until their own is there.
    pub fn stand_in(&self, names: &[String], now: i64) -> Option<String> {
        let entries = std::fs::read_dir(&self.folder).ok()?;
        let paths = entries.take(MAX_FILES).flatten().map(|entry| entry.path());
        let pems = paths.filter(|path| path.extension().is_some_and(|extension| extension == "pem"));
        let good = pems.filter_map(|path| good_since(&path, names, now));
        good.max_by_key(|(since, _)| *since).map(|(_, pem)| pem)
    }

    /// Held by the process that orders. `None`: another one does.
    ///
    /// # Errors
    /// The folder cannot be written.
    pub fn lock(&self) -> io::Result<Option<File>> {
        lock_private(&self.folder.join("lock"))
    }
}

impl IssuedFiles {
    /// What became of the orders; nothing where that cannot be read.
    pub fn history(&self) -> OrderHistory {
        match read_json(&self.history) {
            Ok(history) => history.unwrap_or_default(),
            Err(why) => {
                log::warn!(target: "turnpike", "{}: {why}", self.history.display());
                OrderHistory::default()
            }
        }
    }

    /// The file of what became of the orders.
    pub fn history_file(&self) -> &Path {
        &self.history
    }

    /// # Errors
    /// It cannot be written.
    pub fn keep_history(&self, history: &OrderHistory) -> io::Result<()> {
        write_json(&self.history, history)
    }
}

/// What a file has; `None`: there is no such file.
///
/// # Errors
/// It cannot be read, or is something else.
pub fn read_json<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(why) if why.kind() == ErrorKind::NotFound => return Ok(None),
        Err(why) => return Err(why),
    };
    let mut text = String::new();
    file.take(MAX_BYTES).read_to_string(&mut text)?;
    serde_json::from_str(&text).map(Some).map_err(io::Error::from)
}

/// # Errors
/// It cannot be written. What was there before is there still.
pub fn write_json(path: &Path, value: &impl Serialize) -> io::Result<()> {
    write_private(path, &format!("{}\n", serde_json::to_string(value)?))
}

/// Since when the certificate of a file is good, and the file's text; `None`: it is not, or for none of these names.
fn good_since(path: &Path, names: &[String], now: i64) -> Option<(i64, String)> {
    let mut text = String::new();
    File::open(path).ok()?.take(MAX_BYTES).read_to_string(&mut text).ok()?;
    let certificate = CertificateDer::from_pem_slice(text.as_bytes()).ok()?;
    let validity = validity(&certificate)?;
    let is_good = validity.from <= now && now < validity.until;
    (is_good && names.iter().any(|name| is_for(&certificate, name))).then_some((validity.from, text))
}

fn short_digest(text: &str) -> String {
    let mut out = String::with_capacity(2 * DIGEST_BYTES);
    for byte in digest(&SHA256, text.as_bytes()).as_ref().iter().take(DIGEST_BYTES) {
        // Writing into a String cannot fail.
        let _ = write!(out, "{byte:02x}");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn each_authority_and_each_set_of_names_has_files_of_its_own() {
        let of = |directory| AcmeFiles::new(Path::new("/s"), directory);
        let real = of("https://acme-v02.api.letsencrypt.org/directory");
        let staging = of("https://acme-staging-v02.api.letsencrypt.org/directory");
        assert!(real.account().to_str().unwrap().starts_with("/s/acme/acme.v02.api.letsencrypt.org-"));
        assert_ne!(real.account(), staging.account());
        assert_ne!(of("https://ca:1/a").account(), of("https://ca:1/b").account());
        assert_eq!(real.issued(&names("a.x b.x")).pem, real.issued(&names("b.x a.x")).pem);
        assert_ne!(real.issued(&names("a.x b.x")).pem, real.issued(&names("a.x")).pem);
        let long = real.issued(&[format!("{}.x", "a".repeat(251))]);
        assert!(long.pem.file_name().unwrap().len() < 255);
    }

    #[test]
    fn the_newest_good_certificate_with_a_name_in_common_stands_in() {
        let state = tempfile::tempdir().unwrap();
        let files = AcmeFiles::new(state.path(), "https://ca.test/dir");
        let wanted = names("a.x c.x");
        assert_eq!(files.stand_in(&wanted, 0), None, "there is no folder");
        let keep = |text: &str, from: i32, until: i32| {
            let mut params = rcgen::CertificateParams::new(names(text)).unwrap();
            params.not_before = rcgen::date_time_ymd(from, 1, 1);
            params.not_after = rcgen::date_time_ymd(until, 1, 1);
            let key = rcgen::KeyPair::generate().unwrap();
            let pem = key.serialize_pem() + &params.self_signed(&key).unwrap().pem();
            write_private(&files.issued(&names(text)).pem, &pem).unwrap();
            pem
        };
        let now = rcgen::date_time_ymd(2025, 6, 1).unix_timestamp();
        keep("b.x", 2025, 2030);
        keep("a.x z.x", 2024, 2025);
        keep("a.x y.x", 2026, 2030);
        assert_eq!(files.stand_in(&wanted, now), None, "other names, expired, not good yet");
        let older = keep("a.x", 2023, 2030);
        assert_eq!(files.stand_in(&wanted, now), Some(older));
        let newer = keep("A.x b.x", 2024, 2030);
        assert_eq!(files.stand_in(&wanted, now), Some(newer));
        write_private(&files.issued(&names("a.x q.x")).pem, "no PEM").unwrap();
        assert!(files.stand_in(&wanted, now).is_some());
    }

    #[test]
    fn a_history_is_kept_and_one_process_orders() {
        let state = tempfile::tempdir().unwrap();
        let files = AcmeFiles::new(state.path(), "https://ca.test/dir");
        let issued = files.issued(&names("a.x"));
        assert_eq!(issued.history(), OrderHistory::default());
        let history = OrderHistory::issued(17);
        issued.keep_history(&history).unwrap();
        assert_eq!(issued.history(), history);
        write_private(&issued.history, "no JSON").unwrap();
        assert_eq!(issued.history(), OrderHistory::default());
        let held = files.lock().unwrap();
        assert!(held.is_some() && files.lock().unwrap().is_none());
        drop(held);
        assert!(files.lock().unwrap().is_some());
    }
}
