//! The master key: read from the settings, or from a file that is made at the first start.
//!
//! Not here: sealing, and where `rekey` gets a new key.

use super::sealing::{KEY_BYTES, Keyring, random};
use super::{StoreError, create_private, folder_of, make_private_folder};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use words::config::secret::Secret;

/// Where the master key comes from.
#[derive(Debug, Clone)]
pub(crate) enum KeySource {
    /// `store.encryption_key` and `store.previous_encryption_keys`.
    Settings { current: Secret, previous: Vec<Secret> },
    /// A file with a key in each line; the first seals.
    File(PathBuf),
    /// For a database that ends with the process.
    Random,
}

impl KeySource {
    /// Reads the keys.
    ///
    /// # Errors
    /// `Misconfigured` for a key that is none, or a file that is missing or cannot be read.
    pub fn read(&self) -> Result<Keyring, StoreError> {
        match self {
            Self::Settings { current, previous } => {
                let current = parse(current.expose(), "store.encryption_key")?;
                let parse = |key: &Secret| parse(key.expose(), "store.previous_encryption_keys");
                let previous = previous.iter().map(parse).collect::<Result<Vec<_>, _>>()?;
                Keyring::new(&current, &previous)
            }
            Self::File(file) => {
                let keys = read_file(file)?;
                let (first, rest) = keys.split_first().ok_or_else(|| unreadable(file, "it is empty"))?;
                Keyring::new(first, rest)
            }
            Self::Random => Keyring::new(&generate()?, &[]),
        }
    }
}

/// A key as 64 hex digits or as base64 of 32 bytes.
fn parse(text: &str, name: &str) -> Result<[u8; KEY_BYTES], StoreError> {
    let text = text.trim();
    let key = if text.len() == 2 * KEY_BYTES { from_hex(text) } else { BASE64_STANDARD.decode(text).ok() };
    let key = key.and_then(|bytes| <[u8; KEY_BYTES]>::try_from(bytes).ok());
    let wrong = || {
        format!(
            "{name}: must be a key of 32 bytes: 64 hex digits, or 44 characters of base64 (openssl rand -hex 32)"
        )
    };
    key.ok_or_else(|| StoreError::Misconfigured(wrong()))
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u8> = text
        .chars()
        .map(|c| c.to_digit(16).and_then(|digit| u8::try_from(digit).ok()))
        .collect::<Option<_>>()?;
    Some(digits.chunks_exact(2).map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit)).collect())
}

pub fn generate() -> Result<[u8; KEY_BYTES], StoreError> {
    let mut key = [0; KEY_BYTES];
    random(&mut key)?;
    Ok(key)
}

pub fn read_file(file: &Path) -> Result<Vec<[u8; KEY_BYTES]>, StoreError> {
    let text = std::fs::read_to_string(file).map_err(|why| unreadable(file, &why.to_string()))?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.map(|line| parse(line, &file.display().to_string())).collect()
}

fn unreadable(file: &Path, why: &str) -> StoreError {
    StoreError::Misconfigured(format!("the master key {}: {why}", file.display()))
}

/// Makes a key file where there is none. Returns whether it did.
///
/// # Errors
/// `Unavailable` where it cannot be written.
pub(crate) fn make_file(file: &Path) -> Result<bool, StoreError> {
    if file.exists() {
        warn_if_readable_by_others(file);
        return Ok(false);
    }
    let failed = |why: std::io::Error| {
        StoreError::Unavailable(format!("the master key {} cannot be made: {why}", file.display()))
    };
    let folder = folder_of(file);
    make_private_folder(folder).map_err(failed)?;
    let whole = write_new(file, &[generate()?], folder).map_err(failed)?;
    // A second process that starts at the same time must not replace the key of the first: a link fails where one is.
    let linked = std::fs::hard_link(&whole, file);
    let _ = std::fs::remove_file(&whole);
    match linked {
        Ok(()) => sync_directory(file).map(|()| true).map_err(failed),
        Err(why) if why.kind() == ErrorKind::AlreadyExists => Ok(false),
        Err(why) => Err(failed(why)),
    }
}

/// Replaces the keys of the file, the first of which seals.
pub(crate) fn replace_file(file: &Path, keys: &[[u8; KEY_BYTES]]) -> Result<(), StoreError> {
    let failed = |why: std::io::Error| unreadable(file, &format!("cannot be written: {why}"));
    // Of the same owner: a gateway that runs reads the file again.
    let whole = write_new(file, keys, file).map_err(failed)?;
    std::fs::rename(whole, file).and_then(|()| sync_directory(file)).map_err(failed)
}

/// Writes the keys to a new file beside `file` that only its owner can read, who is that of `like`.
fn write_new(file: &Path, keys: &[[u8; KEY_BYTES]], like: &Path) -> std::io::Result<PathBuf> {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let path = file.with_file_name(format!(".{name}.{}", std::process::id()));
    let mut text = String::new();
    for key in keys {
        for byte in key {
            let _ = write!(text, "{byte:02x}");
        }
        text.push('\n');
    }
    let _ = std::fs::remove_file(&path);
    let mut out = create_private(&path, like)?;
    out.write_all(text.as_bytes())?;
    out.sync_all()?;
    Ok(path)
}

fn sync_directory(file: &Path) -> std::io::Result<()> {
    File::open(folder_of(file))?.sync_all()
}

fn warn_if_readable_by_others(file: &Path) {
    let mode = std::fs::metadata(file).map_or(0, |metadata| metadata.permissions().mode());
    if mode & 0o077 != 0 {
        log::warn!(target: "turnpike", "the master key {} can be read by others: chmod 600", file.display());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_hex_or_base64_of_32_bytes() {
        let hex = "00ff".repeat(16);
        let base64 = BASE64_STANDARD.encode([0, 255].repeat(16));
        assert_eq!(parse(&hex, "k").unwrap(), parse(&format!(" {base64}\n"), "k").unwrap());
        for bad in ["", "00", &"zz".repeat(32), &"0f".repeat(31), &BASE64_STANDARD.encode([0; 31]), "täglich"]
        {
            let why = parse(bad, "store.encryption_key").unwrap_err().to_string();
            assert!(why.starts_with("store.encryption_key: "), "{why}");
            assert!(bad.len() < 10 || !why.contains(bad), "the key is not repeated: {why}");
        }
    }

    #[test]
    fn the_file_is_made_once_for_its_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("master.key");
        assert!(make_file(&file).unwrap());
        let first = std::fs::read(&file).unwrap();
        assert!(!make_file(&file).unwrap());
        assert_eq!(std::fs::read(&file).unwrap(), first);
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left");
        let old = read_file(&file).unwrap();
        let new = generate().unwrap();
        replace_file(&file, &[new, old[0]]).unwrap();
        assert_eq!(read_file(&file).unwrap(), [new, old[0]]);
    }
}
