//! The text that the demo prints: URLs to open, and commands for curl.
//!
//! Every URL in it answers a plain GET with 200. The purge, which is no GET, is written without a scheme, as curl takes
//! it too.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::samples::{ALL, CHANGING_PAGE, LARGE_OBJECT, PICTURE, RECORDING, Sample};

/// The characters of a path that need no escape: unreserved ones (RFC 3986, 2.3), the slash, and the plus, which stands
/// for itself.
const PATH_UNESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~')
    .remove(b'/')
    .remove(b'+');

/// The guide to a running demo; `Display` is its text.
#[derive(Debug, Clone)]
pub struct Guide {
    http: SocketAddr,
    admin: SocketAddr,
    folder: PathBuf,
}

impl Guide {
    /// Returns a guide to a gateway on these addresses, with its files in `folder`.
    #[must_use]
    pub fn new(http: SocketAddr, admin: SocketAddr, folder: &Path) -> Self {
        Self {
            http,
            admin,
            folder: folder.to_owned(),
        }
    }

    /// Returns every URL that the text names, once.
    #[must_use]
    pub fn urls(&self) -> Vec<String> {
        let samples = ALL.iter().map(|sample| self.url(sample));
        samples.chain([self.metrics(), self.console()]).collect()
    }

    /// Returns the URL of the console.
    fn console(&self) -> String {
        format!("http://{}/", self.admin)
    }

    fn url(&self, sample: &Sample) -> String {
        let path = utf8_percent_encode(sample.key, PATH_UNESCAPED);
        format!("http://{}/{path}", self.http)
    }

    fn metrics(&self) -> String {
        format!("http://{}/metrics", self.admin)
    }

    fn try_answers(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let picture = self.url(&PICTURE);
        let tag = quoted(&self.folder.join("etag"));
        entry(
            f,
            "Ask twice: first it comes from the bucket, then from memory",
        )?;
        let twice = format!("curl -s -o /dev/null -D - {picture} | grep -i cache-status");
        writeln!(f, "    {twice}\n    {twice}")?;
        entry(f, "The headers alone")?;
        writeln!(f, "    curl -I {picture}")?;
        entry(f, "Only if it changed: 200, then 304")?;
        let status = "curl -s -o /dev/null -w '%{http_code}\\n'";
        writeln!(f, "    {status} --etag-save {tag} {picture}")?;
        writeln!(f, "    {status} --etag-compare {tag} {picture}")
    }

    fn try_ranges(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let large = self.url(&LARGE_OBJECT);
        entry(
            f,
            "Ranges from a file whose lines say where they stand; it is not fetched whole",
        )?;
        writeln!(f, "    curl -r 1048576-1048639 {large}")?;
        writeln!(f, "    curl -r -32 {large}")?;
        writeln!(f, "    curl -r 0-15,134217728-134217743 {large}")?;
        entry(f, "Seek in the waltz, as a player does")?;
        writeln!(
            f,
            "    curl -s -r 4000000- {} | wc -c",
            self.url(&RECORDING)
        )
    }

    fn try_changes(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let note = self.url(&CHANGING_PAGE);
        let file = quoted(&self.folder.join("origin/media").join(CHANGING_PAGE.key));
        let token = quoted(&self.folder.join("token"));
        entry(
            f,
            "Change an object: the old text stays until its time is up, or until it is purged",
        )?;
        writeln!(f, "    curl {note}")?;
        writeln!(f, "    echo 'High tide.' > {file}")?;
        writeln!(
            f,
            "    curl -X POST -H \"Authorization: Bearer $(cat {token})\" \\"
        )?;
        writeln!(
            f,
            "        '{}/purge?path=/{}'",
            self.admin, CHANGING_PAGE.key
        )?;
        writeln!(f, "    curl {note}")?;
        entry(f, "What it counted meanwhile")?;
        writeln!(f, "    curl -s {} | grep '^tidegate_'", self.metrics())?;
        entry(
            f,
            "The same as a page; to change something there, log in with the token",
        )?;
        writeln!(f, "    {}", self.console())?;
        writeln!(f, "    cat {token}")
    }
}

impl fmt::Display for Guide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "\nTidegate serves a bucket of sample media. Look at:\n")?;
        for sample in ALL {
            writeln!(f, "    {:<48} {}", self.url(&sample), sample.about)?;
        }
        self.try_answers(f)?;
        self.try_ranges(f)?;
        self.try_changes(f)?;
        writeln!(f, "\nEverything lies in {}", self.folder.display())?;
        write!(f, "Ctrl-C ends it.")
    }
}

fn entry(f: &mut fmt::Formatter<'_>, title: &str) -> fmt::Result {
    writeln!(f, "\n{title}:")
}

/// Quotes a path for a shell.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_every_url_it_says_and_no_other() {
        let address = |port| SocketAddr::from(([127, 0, 0, 1], port));
        let guide = Guide::new(address(8080), address(8081), Path::new("/tmp/it's"));
        let text = guide.to_string();
        let mut said: Vec<_> = text
            .split([' ', '\n', '\'', '"'])
            .filter(|word| word.contains("://"))
            .collect();
        said.sort_unstable();
        said.dedup();
        let mut named = guide.urls();
        named.sort_unstable();
        assert_eq!(said, named);
        assert!(named.contains(&"http://127.0.0.1:8080/odd%20names/a+b.txt".into()));
        assert!(text.contains(r"'/tmp/it'\''s/token'"));
    }
}
