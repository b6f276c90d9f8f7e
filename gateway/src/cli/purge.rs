//! `tidegate purge`: one request to the admin listener of a running gateway.

use http::Method;
use serde_json::json;

use super::PurgeArgs;
use super::client::{AdminRequest, Client, check_path, run};
use tidegate_config::{Admin, Environment};

/// Purges, and returns the purged names.
pub(super) fn purge(admin: &Admin, env: &Environment, args: &PurgeArgs) -> anyhow::Result<String> {
    let client = Client::with_token(admin, env, "purge", "purged")?;
    check_path(&args.path)?;
    run(client.send(AdminRequest {
        method: Method::POST,
        target: "/purge".to_owned(),
        body: Some(json!({ "path": args.path, "prefix": args.prefix, "host": args.host })),
    }))
}
