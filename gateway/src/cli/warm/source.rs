//! The sources of paths: the bucket's own listing below a route's path, a list, or access logs.

use std::fmt::Write;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use anyhow::{Context, bail};
use http::Method;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use xxhash_rust::xxh3::Xxh3;

use super::super::WarmArgs;
use super::super::client::{Ask, Client, check_path, in_query};
use crate::plan::access_log::Tally;

/// Paths in a batch: as many as a bucket lists at once.
const BATCH: usize = 1000;

/// The longest line that is read; a longer one is not a path.
const LONGEST_LINE: u64 = 64 << 10;

/// Some paths, and the position behind them; `None` at the end.
pub(super) struct Batch {
    pub(super) paths: Vec<String>,
    pub(super) end: Option<String>,
}

/// The paths that are still to be warmed.
pub(super) enum Paths {
    Below {
        path: String,
        /// The beginning of the next page; `None` at the end.
        after: Option<Option<String>>,
        unreachable: u64,
    },
    Listed {
        paths: Vec<String>,
        next: usize,
        notes: Vec<String>,
    },
}

impl Paths {
    /// Returns the paths that the command line names.
    ///
    /// # Errors
    /// If they cannot be read, or are not paths.
    pub(super) fn of(args: &WarmArgs) -> anyhow::Result<Self> {
        match (&args.path, &args.from_list, &args.from_access_log) {
            (Some(path), None, None) => {
                check_path(path)?;
                Ok(Self::Below {
                    path: path.clone(),
                    after: Some(None),
                    unreachable: 0,
                })
            }
            (None, Some(file), None) => list(open(file)?),
            (None, None, Some(file)) => access_log(open(file)?),
            _ => bail!("say one of PATH, --from-list FILE and --from-access-log FILE"),
        }
    }

    /// Returns an identity of these paths, for the state file.
    pub(super) fn identity(&self) -> String {
        match self {
            Self::Below { path, .. } => format!("below {path}"),
            Self::Listed { paths, .. } => {
                let mut hash = Xxh3::new();
                for path in paths {
                    hash.update(path.as_bytes());
                    hash.update(b"\n");
                }
                format!("list {:016x}", hash.digest())
            }
        }
    }

    /// Returns the number of paths left, if it is known beforehand.
    pub(super) fn known(&self) -> Option<u64> {
        match self {
            Self::Below { .. } => None,
            Self::Listed { paths, next, .. } => u64::try_from(paths.len() - next).ok(),
        }
    }

    /// Goes on at the position of a state.
    ///
    /// # Errors
    /// If the position makes no sense.
    pub(super) fn resume(&mut self, at: &str) -> anyhow::Result<()> {
        match self {
            Self::Below { after, .. } => *after = Some(Some(at.to_owned())),
            Self::Listed { paths, next, .. } => {
                *next = at.parse().context("the state file")?;
                *next = (*next).min(paths.len());
            }
        }
        Ok(())
    }

    /// Returns the next batch; `None` at the end.
    ///
    /// # Errors
    /// If the gateway does not list them.
    pub(super) async fn next(
        &mut self,
        client: &Client<'_>,
        args: &WarmArgs,
    ) -> anyhow::Result<Option<Batch>> {
        match self {
            Self::Below {
                path,
                after,
                unreachable,
            } => {
                let Some(at) = after else {
                    return Ok(None);
                };
                let page = page(client, path, args.host.as_deref(), at.as_deref()).await?;
                *unreachable += page["unreachable"].as_u64().unwrap_or(0);
                let next = page["after"].as_str().map(str::to_owned);
                *after = next.clone().map(Some);
                let objects = page["objects"].as_array().into_iter().flatten();
                let paths = objects.filter_map(|object| object["path"].as_str());
                Ok(Some(Batch {
                    paths: paths.map(str::to_owned).collect(),
                    end: next,
                }))
            }
            Self::Listed { paths, next, .. } => {
                let begin = *next;
                *next = paths.len().min(begin + BATCH);
                Ok((begin < *next).then(|| Batch {
                    paths: paths[begin..*next].to_vec(),
                    end: Some(next.to_string()),
                }))
            }
        }
    }

    /// Notes on paths that were left out.
    pub(super) fn notes(&self) -> Vec<String> {
        match self {
            Self::Below { unreachable: 0, .. } => Vec::new(),
            Self::Below { unreachable, .. } => vec![format!(
                "{unreachable} keys were passed over: no request can get them through this route"
            )],
            Self::Listed { notes, .. } => notes.clone(),
        }
    }
}

async fn page(
    client: &Client<'_>,
    path: &str,
    host: Option<&str>,
    after: Option<&str>,
) -> anyhow::Result<Value> {
    let mut target = format!("/list?path={}&limit={BATCH}", in_query(path));
    if let Some(host) = host {
        write!(target, "&host={}", in_query(host))?;
    }
    if let Some(after) = after {
        write!(
            target,
            "&after={}",
            utf8_percent_encode(after, NON_ALPHANUMERIC)
        )?;
    }
    let ask = Ask {
        method: Method::GET,
        target,
        body: None,
    };
    let body = client.ask(ask).await?;
    serde_json::from_str(&body).context("the gateway answers no JSON")
}

/// Opens the file, or standard input for `-`.
fn open(file: &Path) -> anyhow::Result<Box<dyn BufRead>> {
    if file == Path::new("-") {
        return Ok(Box::new(BufReader::new(io::stdin())));
    }
    let opened = File::open(file).with_context(|| format!("cannot open {}", file.display()))?;
    Ok(Box::new(BufReader::new(opened)))
}

/// Calls `each` for every line, as text; a line that is too long is cut, and bytes that are not text are replaced.
fn lines(mut from: Box<dyn BufRead>, mut each: impl FnMut(&str)) -> anyhow::Result<()> {
    let mut line = Vec::new();
    loop {
        line.clear();
        if from
            .by_ref()
            .take(LONGEST_LINE)
            .read_until(b'\n', &mut line)?
            == 0
        {
            return Ok(());
        }
        if line.last() != Some(&b'\n') {
            from.skip_until(b'\n')?;
        }
        each(&String::from_utf8_lossy(&line));
    }
}

/// Reads a path a line, as it stands in the URL; empty lines and those that begin with `#` are skipped.
fn list(from: Box<dyn BufRead>) -> anyhow::Result<Paths> {
    let (mut paths, mut unread) = (Vec::new(), 0);
    lines(from, |line| {
        let line = line.trim();
        let path = line.split(['?', '#']).next().unwrap_or_default();
        if path.starts_with('/') && !path.contains(char::is_whitespace) {
            paths.push(path.to_owned());
        } else if !line.is_empty() && !line.starts_with('#') {
            unread += 1;
        }
    })?;
    let note = (unread > 0).then(|| {
        format!("{unread} lines were passed over: they are no paths as they stand in a URL")
    });
    Ok(listed(paths, note))
}

fn access_log(from: Box<dyn BufRead>) -> anyhow::Result<Paths> {
    let mut tally = Tally::default();
    lines(from, |line| tally.add(line))?;
    let (unread, others) = (tally.unread, tally.others);
    let note = (unread + others > 0).then(|| {
        format!(
            "{unread} lines could not be read, and {others} were of other requests than a GET that \
             was answered"
        )
    });
    Ok(listed(tally.paths(), note))
}

fn listed(paths: Vec<String>, note: Option<String>) -> Paths {
    Paths::Listed {
        paths,
        next: 0,
        notes: note.into_iter().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(
        how: fn(Box<dyn BufRead>) -> anyhow::Result<Paths>,
        bytes: &'static [u8],
    ) -> (Vec<String>, Vec<String>) {
        match how(Box::new(bytes)).expect("it can be read") {
            Paths::Listed { paths, notes, .. } => (paths, notes),
            Paths::Below { .. } => panic!("it is a list"),
        }
    }

    #[test]
    fn a_list_has_a_path_a_line() {
        let text = b"/a%20b?x=1\n\n# comment\r\n/c\r\nno path\n/d e\n/\xff\n/last";
        let (paths, notes) = read(list, text);
        assert_eq!(paths, ["/a%20b", "/c", "/\u{fffd}", "/last"]);
        assert!(notes[0].starts_with("2 lines"), "{notes:?}");
    }

    #[test]
    fn a_log_is_read_for_what_was_asked_for_most() {
        let text = b"::1 - - [x] \"GET /a HTTP/1.1\" 200 1\n\
                     ::1 - - [x] \"GET /b?x HTTP/1.1\" 304 1\n\
                     ::1 - - [x] \"GET /b HTTP/1.1\" 206 1\n\
                     ::1 - - [x] \"PUT /c HTTP/1.1\" 200 1\nnonsense\n";
        let (paths, notes) = read(access_log, text);
        assert_eq!(paths, ["/b", "/a"]);
        assert!(
            notes[0].starts_with("1 lines could not be read, and 1 were"),
            "{notes:?}"
        );
    }

    #[test]
    fn what_is_another_list_has_another_identity() {
        let of = |bytes: &'static [u8]| list(Box::new(bytes)).expect("read").identity();
        assert_eq!(of(b"/a\n/b"), of(b"/a\n\n/b\n"));
        assert_ne!(of(b"/a\n/b"), of(b"/ab"));
        let mut paths = list(Box::new(&b"/a\n/b\n/c"[..])).expect("read");
        paths.resume("2").expect("a number");
        assert_eq!(paths.known(), Some(1));
        paths.resume("x").expect_err("no number");
    }
}
