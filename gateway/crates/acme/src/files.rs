//! The folder with keys and certificates: mode 0700, each file 0600, written whole or not at all.
//!
//! Each directory has a folder of its own, so that certificates of a staging directory are not taken for real ones.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::AcmeSettings;
use tidegate_tls::{IssuedCertificate, TlsError};

/// The longest file that is read.
const MAX_FILE: u64 = 1 << 20;

/// The file of the account.
pub(crate) const ACCOUNT: &str = "account.json";

/// The files of one directory.
#[derive(Debug, Clone)]
pub(crate) struct Files {
    folder: PathBuf,
}

/// The failures of a name, kept so that a process which is started again does not forget them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Failures {
    /// The attempts that have failed since the last certificate.
    pub(crate) count: u32,
    /// The time before which there is no other one, in seconds since 1970.
    pub(crate) next: u64,
}

impl Failures {
    pub(crate) fn new(count: u32, next: SystemTime) -> Self {
        let since = next.duration_since(SystemTime::UNIX_EPOCH);
        Self {
            count,
            next: since.map_or(0, |since| since.as_secs()),
        }
    }

    /// Returns the time of the next attempt.
    pub(crate) fn next(self) -> SystemTime {
        let next = SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(self.next));
        next.unwrap_or(SystemTime::UNIX_EPOCH)
    }
}

impl Files {
    pub(crate) fn new(settings: &AcmeSettings) -> Self {
        let host = settings.directory.split("://").nth(1).unwrap_or_default();
        let host = host.split(['/', ':']).next().unwrap_or_default();
        let is_plain = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-');
        let host: String = host.chars().filter(is_plain).collect();
        let digest = Sha256::digest(settings.directory.as_bytes());
        let [a, b, c, d] = [digest[0], digest[1], digest[2], digest[3]];
        let id = u32::from_be_bytes([a, b, c, d]);
        Self {
            folder: settings.folder.join(format!("{host}-{id:08x}")),
        }
    }

    /// Returns the file of a name's certificate and key.
    pub(crate) fn certificate(&self, name: &str) -> PathBuf {
        self.folder.join(certificate_of(name))
    }

    /// Reads the certificate of a name; `None` if there is none that listeners could show.
    ///
    /// # Errors
    /// The disk does not tell whether there is one.
    pub(crate) fn read_issued(&self, name: &str) -> io::Result<Option<IssuedCertificate>> {
        let is_none = |error: &io::Error| {
            let kind = error.kind();
            kind == io::ErrorKind::NotFound || kind == io::ErrorKind::FileTooLarge
        };
        match IssuedCertificate::read(&self.certificate(name)) {
            Err(TlsError::File { error, .. }) if !is_none(&error) => Err(error),
            read => Ok(read.ok()),
        }
    }

    /// Reads the failures of a name; `None` if there is no note of any that can be used.
    ///
    /// # Errors
    /// The disk does not tell whether there is one.
    pub(crate) fn read_failures(&self, name: &str) -> io::Result<Option<Failures>> {
        let bytes = self.read(&failures_of(name))?;
        Ok(bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
    }

    pub(crate) fn write_failures(&self, name: &str, failures: Failures) -> io::Result<()> {
        let bytes = serde_json::to_vec(&failures)?;
        self.write(&failures_of(name), &bytes)
    }

    /// Reads a file; `None` if it is not there.
    pub(crate) fn read(&self, name: &str) -> io::Result<Option<Vec<u8>>> {
        let file = match File::open(self.folder.join(name)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let mut bytes = Vec::new();
        file.take(MAX_FILE).read_to_end(&mut bytes)?;
        Ok(Some(bytes))
    }

    /// Writes a file whole: after a crash it is the old one or the new one.
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let mut folder = DirBuilder::new();
        folder.recursive(true).mode(0o700).create(&self.folder)?;
        let new = self.folder.join(format!(".{name}.new"));
        remove(&new)?;
        let mut options = OpenOptions::new();
        let mut file = options
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&new)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&new, self.folder.join(name))?;
        File::open(&self.folder)?.sync_all()
    }

    pub(crate) fn remove(&self, name: &str) -> io::Result<()> {
        remove(&self.folder.join(name))
    }
}

/// Returns the name of the file with a name's certificate and key.
pub(crate) fn certificate_of(name: &str) -> String {
    format!("{name}.pem")
}

/// Returns the name of the file with the failures of a name.
pub(crate) fn failures_of(name: &str) -> String {
    format!("{name}.retry")
}

/// Removes a file that may not be there.
fn remove(path: &std::path::Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn files_are_for_the_gateway_alone_and_each_directory_has_its_own() {
        let folder = tempfile::tempdir().expect("a folder");
        let settings = |directory: &str| AcmeSettings {
            directory: directory.to_owned(),
            directory_ca: None,
            external_account: None,
            contact: vec![],
            names: vec!["a.example".to_owned()],
            folder: folder.path().join("acme"),
        };
        let one = Files::new(&settings("https://ca.example/directory"));
        let other = Files::new(&settings("https://ca.example/staging"));
        assert_ne!(one.certificate("a"), other.certificate("a"));
        for bytes in [b"one".as_slice(), b"two"] {
            one.write("x", bytes).expect("written");
            assert_eq!(one.read("x").expect("read").as_deref(), Some(bytes));
        }
        assert_eq!(other.read("x").expect("read"), None);
        let mode = |path: PathBuf| fs::metadata(path).expect("there").permissions().mode() & 0o777;
        assert_eq!(mode(one.folder.join("x")), 0o600);
        assert_eq!(mode(one.folder.clone()), 0o700);
        assert_eq!(mode(folder.path().join("acme")), 0o700);
        let names = fs::read_dir(&one.folder).expect("there").count();
        assert_eq!(names, 1, "nothing is left behind");
        one.remove("x").expect("removed");
        one.remove("x").expect("it may be gone");
    }

    #[test]
    fn failures_are_kept() {
        let folder = tempfile::tempdir().expect("a folder");
        let files = Files {
            folder: folder.path().to_owned(),
        };
        let read = || files.read_failures("a").expect("the disk answers");
        assert_eq!(read(), None);
        let next = SystemTime::UNIX_EPOCH + Duration::from_secs(77);
        files
            .write_failures("a", Failures::new(3, next))
            .expect("written");
        let kept = read().expect("kept");
        assert_eq!((kept.count, kept.next()), (3, next));
        files.write("a.retry", b"no JSON").expect("written");
        assert_eq!(read(), None);
    }
}
