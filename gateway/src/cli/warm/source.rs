//! The sources of paths: the bucket's own listing below a route's path, or a list.

use std::fmt::Write;
use std::io::BufRead;

use anyhow::{Context, bail, ensure};
use http::Method;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use super::super::WarmArgs;
use super::super::client::{AdminRequest, Client, check_path, escape_query};
use super::super::lines::{lines, open};

/// Paths in a batch: as many as a bucket lists at once.
const BATCH_PATHS: usize = 1000;

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
    pub(super) fn from_args(args: &WarmArgs) -> anyhow::Result<Self> {
        match (&args.path, &args.from_list) {
            (Some(path), None) => {
                check_path(path)?;
                Ok(Self::Below {
                    path: path.clone(),
                    after: Some(None),
                    unreachable: 0,
                })
            }
            (None, Some(file)) => list(open(file)?),
            _ => bail!("say one of PATH and --from-list FILE"),
        }
    }

    /// Returns the number of paths left, if it is known beforehand.
    pub(super) fn known(&self) -> Option<u64> {
        match self {
            Self::Below { .. } => None,
            Self::Listed { paths, next, .. } => u64::try_from(paths.len() - next).ok(),
        }
    }

    /// Returns the next batch; `None` at the end.
    ///
    /// # Errors
    /// If the gateway does not list them.
    pub(super) async fn next(
        &mut self,
        client: &Client<'_>,
        args: &WarmArgs,
    ) -> anyhow::Result<Option<Vec<String>>> {
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
                let next = page["after"].as_str().map(|next| Some(next.to_owned()));
                ensure!(
                    next.is_none() || next != *after,
                    "the gateway lists the same keys again"
                );
                *after = next;
                let objects = page["objects"].as_array().into_iter().flatten();
                let paths = objects.filter_map(|object| object["path"].as_str());
                Ok(Some(paths.map(str::to_owned).collect()))
            }
            Self::Listed { paths, next, .. } => {
                let begin = *next;
                *next = paths.len().min(begin + BATCH_PATHS);
                Ok((begin < *next).then(|| paths[begin..*next].to_vec()))
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
    let mut target = format!("/list?path={}&limit={BATCH_PATHS}", escape_query(path));
    if let Some(host) = host {
        write!(target, "&host={}", escape_query(host))?;
    }
    if let Some(after) = after {
        write!(
            target,
            "&after={}",
            utf8_percent_encode(after, NON_ALPHANUMERIC)
        )?;
    }
    let ask = AdminRequest {
        method: Method::GET,
        target,
        body: None,
    };
    let body = client.send(ask).await?;
    serde_json::from_str(&body).context("the gateway answers no JSON")
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
    Ok(from_list(paths, note))
}

fn from_list(paths: Vec<String>, note: Option<String>) -> Paths {
    Paths::Listed {
        paths,
        next: 0,
        notes: note.into_iter().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_a_path_a_line() {
        let text = b"/a%20b?x=1\n\n# comment\r\n/c\r\nno path\n/d e\n/\xff\n/last";
        let Paths::Listed { paths, notes, .. } = list(Box::new(&text[..])).expect("readable")
        else {
            panic!("it is a list");
        };
        assert_eq!(paths, ["/a%20b", "/c", "/\u{fffd}", "/last"]);
        assert!(notes[0].starts_with("2 lines"), "{notes:?}");
    }
}
