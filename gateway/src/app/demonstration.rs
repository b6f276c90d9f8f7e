//! The gateway of the demo.

use std::path::Path;

use anyhow::Context as _;

use super::{Gateway, Sockets};
use crate::demo;
use tidegate_config::Environment;
use tidegate_socket::Listener;

/// Starts a gateway with default settings, and a small disk tier. Its configuration is a file like any other, so that it
/// can be read, changed and reloaded.
///
/// # Errors
/// As [`Gateway::start`]; and if the folder cannot be emptied and written.
pub async fn start(launch: demo::Launch) -> anyhow::Result<Gateway> {
    // The origin's address changes with each start, so an earlier cache is useless.
    std::fs::remove_dir_all(&launch.folder)?;
    std::fs::create_dir_all(&launch.folder)?;
    // The origin's secret stands in it.
    let file = launch.folder.join("tidegate.toml");
    demo::write_private(&file, &configuration(&launch)?)?;
    // The variables of a gateway on the same machine are not meant for the demo.
    let env = Environment::default();
    let loaded = tidegate_config::load(Some(&file), &env)?;
    let sockets = Sockets {
        http: vec![Listener::from_std(launch.http)?],
        admin: Listener::from_std(launch.admin)?,
    };
    Gateway::start(loaded, &env, sockets).await
}

fn configuration(launch: &demo::Launch) -> anyhow::Result<String> {
    let credentials = &launch.credentials;
    Ok(format!(
        r#"# The demo's own configuration. The addresses that it listens on are those of the command line.

[admin]
token = {{ file = {token} }}
console = "read"

[[cache.disk]]
path = {disk}
capacity = "1GiB"
min_free = "256MiB"

[[origin]]
name = "demo"
bucket = {bucket}
endpoint = {endpoint}
path_style = true
access_key_id = {key}
secret_access_key = {secret}

[[route]]
origin = "demo"
# Pages that are dropped into the bucket's folder come without a type, and are its own user's.
guess_types = "all"
index = "index.html"
"#,
        token = quoted_path(&launch.token_file)?,
        disk = quoted_path(&launch.folder.join("cache"))?,
        bucket = quoted(launch.bucket)?,
        endpoint = quoted(&launch.endpoint)?,
        key = quoted(&credentials.access_key_id)?,
        secret = quoted(&credentials.secret_access_key)?,
    ))
}

fn quoted_path(path: &Path) -> anyhow::Result<String> {
    let text = path.to_str();
    quoted(text.with_context(|| format!("{} is not UTF-8: name another folder", path.display()))?)
}

/// Quotes a text: what JSON escapes, TOML reads alike. TOML wants one character more to be escaped.
fn quoted(text: &str) -> anyhow::Result<String> {
    Ok(serde_json::to_string(text)?.replace('\u{7f}', "\\u007f"))
}

impl demo::RunningGateway for Gateway {
    async fn stop(self) -> anyhow::Result<()> {
        Self::stop(self).await;
        Ok(())
    }
}
