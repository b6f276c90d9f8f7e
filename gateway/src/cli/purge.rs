//! `tidegate purge`: requests to the admin listener of a running gateway, one for a path, or for each part of a list.

use std::fmt::Write as _;
use std::io::Read as _;
use std::path::Path;

use anyhow::{Context as _, bail};
use http::Method;
use serde_json::{Value, json};

use super::PurgeArgs;
use super::client::{AdminRequest, Client, check_path, run};
use tidegate_config::{Admin, Environment};

/// Paths in one request.
const BATCH_PATHS: usize = 1000;

/// The longest list.
const MAX_LIST: u64 = 256 << 20;

/// Purges, and returns the purged names, or for a list their number.
pub(super) fn purge(admin: &Admin, env: &Environment, args: &PurgeArgs) -> anyhow::Result<String> {
    let client = Client::with_token(admin, env, "purge", "purged")?;
    match (&args.path, &args.from_list) {
        (Some(path), None) => {
            check_path(path)?;
            let body = json!({ "path": path, "prefix": args.prefix, "host": args.host });
            run(client.send(request(body)))
        }
        (None, Some(file)) => {
            let text = read(file)?;
            let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
            purge_list(&client, &lines.collect::<Vec<_>>(), args)
        }
        _ => bail!("say one of PATH and --from-list FILE"),
    }
}

fn purge_list(client: &Client<'_>, paths: &[&str], args: &PurgeArgs) -> anyhow::Result<String> {
    paths.iter().try_for_each(|path| check_path(path))?;
    let list = if args.prefix { "prefixes" } else { "paths" };
    let (mut purged, mut no_route) = (0, Vec::new());
    run(async {
        for part in paths.chunks(BATCH_PATHS) {
            let answer = client
                .send(request(json!({ list: part, "host": args.host })))
                .await?;
            let answer: Value = serde_json::from_str(&answer).context("the answer is no JSON")?;
            purged += answer["purged"].as_u64().unwrap_or(0);
            let missing = answer["no_route"].as_array().into_iter().flatten();
            no_route.extend(missing.filter_map(Value::as_str).map(str::to_owned));
        }
        Ok(())
    })?;
    let mut text = format!("purged {purged}\n");
    for path in no_route {
        writeln!(text, "no route has {}", path.escape_debug())?;
    }
    Ok(text)
}

fn request(body: Value) -> AdminRequest {
    AdminRequest {
        method: Method::POST,
        target: "/purge".to_owned(),
        body: Some(body),
    }
}

/// Reads a file, or standard input for `-`.
fn read(file: &Path) -> anyhow::Result<String> {
    let mut text = String::new();
    let of_file = || format!("cannot read {}", file.display());
    let from: Box<dyn std::io::Read> = match file == Path::new("-") {
        true => Box::new(std::io::stdin()),
        false => Box::new(std::fs::File::open(file).with_context(of_file)?),
    };
    from.take(MAX_LIST)
        .read_to_string(&mut text)
        .with_context(of_file)?;
    Ok(text)
}
