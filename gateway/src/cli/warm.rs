//! `tidegate warm`: fills the cache of a running gateway ahead of use, through its admin listener.
//!
//! Paths come in batches, from the bucket's own listing or a list. Each batch is requested until every path of it is
//! answered, for one request ends after some minutes at the latest. Run again, it fetches only what is not cached.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use anyhow::{Context, bail};
use http::Method;
use serde_json::{Value, json};

use self::progress::WarmProgress;
use self::source::Paths;
use super::WarmArgs;
use super::client::{AdminRequest, Client, run};
use super::stat::plain;
use tidegate_config::{Config, Environment};

mod progress;
mod source;

/// The number of requests in a row that may end without progress.
const MAX_IDLE_ROUNDS: u32 = 3;

/// Errors that are shown; the rest is counted.
const MAX_SHOWN_FAILURES: u64 = 20;

/// Warms, and returns a summary.
///
/// # Errors
/// If it cannot go on, or could not warm everything.
pub(super) fn warm(config: &Config, env: &Environment, args: &WarmArgs) -> anyhow::Result<String> {
    let client = Client::with_token(config, env, "warm", "warmed")?;
    let mut paths = Paths::from_args(args)?;
    let mut warming = WarmRun {
        client,
        args,
        progress: WarmProgress::new(paths.known()),
    };
    run(async {
        while let Some(batch) = paths.next(&warming.client, args).await? {
            warming.batch(batch).await?;
        }
        Ok(())
    })?;
    let left = paths.notes();
    warming.progress.end(&left)
}

struct WarmRun<'a> {
    client: Client<'a>,
    args: &'a WarmArgs,
    progress: WarmProgress,
}

impl WarmRun<'_> {
    /// Warms some paths, and asks again for those without an answer.
    async fn batch(&mut self, paths: Vec<String>) -> anyhow::Result<()> {
        let mut seen = HashSet::new();
        let mut paths: Vec<_> = paths
            .into_iter()
            .filter(|path| seen.insert(path.clone()))
            .collect();
        let mut idle = 0;
        while !paths.is_empty() {
            let before = (paths.len(), self.progress.fetched_bytes());
            self.warm_paths(&mut paths).await?;
            idle = if (paths.len(), self.progress.fetched_bytes()) == before {
                idle + 1
            } else {
                0
            };
            if idle == MAX_IDLE_ROUNDS {
                bail!(
                    "the gateway stopped answering; run it again: what is cached is not fetched again"
                );
            }
        }
        Ok(())
    }

    /// Sends one request; takes the answered paths out of `paths`.
    async fn warm_paths(&mut self, paths: &mut Vec<String>) -> anyhow::Result<()> {
        let body = json!({
            "paths": paths,
            "host": self.args.host,
            "rate": self.args.rate.map(|rate| rate.0),
            "concurrency": self.args.concurrency,
        });
        let request = AdminRequest {
            method: Method::POST,
            target: "/warm".to_owned(),
            body: Some(body),
        };
        let mut answered = HashSet::new();
        let mut under_way: HashMap<String, u64> = HashMap::new();
        let progress = &mut self.progress;
        let all = paths.len();
        let take_line = |line: &str| {
            let line: Value = serde_json::from_str(line).context("the gateway answers no JSON")?;
            let path = line["path"].as_str().unwrap_or_default();
            let bytes = |key: &str| line[key].as_u64().unwrap_or(0);
            let reported = under_way.entry(path.to_owned()).or_default();
            if line["done"] == true {
                answered.insert(path.to_owned());
                match line["error"].as_str() {
                    Some(error) => progress.record_failure(path, error),
                    None => {
                        progress.add_fetched(bytes("fetched").saturating_sub(*reported));
                        progress.record_object(bytes("cached"), bytes("left_out"));
                    }
                }
            } else {
                progress.add_fetched(bytes("fetched").saturating_sub(*reported));
                *reported = bytes("fetched").max(*reported);
            }
            progress.show();
            Ok(if answered.len() == all {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            })
        };
        self.client.lines(request, take_line).await?;
        paths.retain(|path| !answered.contains(path));
        Ok(())
    }
}

/// Returns the message for a path that could not be warmed.
fn complaint(path: &str, error: &str) -> String {
    format!("{}: {}", plain(path), plain(error))
}
