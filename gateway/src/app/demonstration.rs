//! The gateway of the demo.

use super::{Gateway, Sockets};
use crate::demo;
use tidegate_config::{Config, ConsoleAccess, Environment, Loaded, Overrides, Secret, WrittenKeys};
use tidegate_plan::ByteSize;
use tidegate_socket::Listener;

/// Starts a gateway with default settings, and a small disk tier.
///
/// # Errors
/// As [`Gateway::start`]; and if the folder cannot be emptied.
pub async fn start(launch: demo::Launch) -> anyhow::Result<Gateway> {
    // The origin's address changes with each start, so an earlier cache is useless.
    std::fs::remove_dir_all(&launch.folder)?;
    std::fs::create_dir_all(&launch.folder)?;
    let config = Config {
        admin: tidegate_config::Admin {
            token: Some(Secret::File(launch.token_file)),
            console: ConsoleAccess::Read,
            ..tidegate_config::Admin::default()
        },
        cache: tidegate_config::Cache {
            disk: vec![tidegate_config::Disk {
                path: launch.folder.join("cache"),
                capacity: ByteSize(1 << 30),
                min_free: ByteSize(256 << 20),
            }],
            ..tidegate_config::Cache::default()
        },
        origin: vec![tidegate_config::Origin {
            name: "demo".to_owned(),
            bucket: launch.bucket.to_owned(),
            endpoint: Some(launch.endpoint),
            path_style: true,
            access_key_id: Some(launch.credentials.access_key_id),
            secret_access_key: Some(Secret::Literal(launch.credentials.secret_access_key)),
            ..tidegate_config::Origin::default()
        }],
        // Pages that are dropped into the demo's folder come without a type, and are its own user's.
        route: vec![tidegate_config::Route {
            origin: "demo".to_owned(),
            guess_types: tidegate_plan::media_type::GuessTypes::All,
            index: Some("index.html".to_owned()),
            ..tidegate_config::Route::default()
        }],
        ..Config::default()
    };
    let sockets = Sockets {
        http: vec![Listener::from_std(launch.http)?],
        admin: Listener::from_std(launch.admin)?,
    };
    let loaded = Loaded {
        config,
        file: None,
        warnings: Vec::new(),
        written: WrittenKeys::default(),
        settings: Vec::new(),
        overrides: Overrides::default(),
    };
    Gateway::start(loaded, &Environment::default(), sockets).await
}

impl demo::Running for Gateway {
    async fn stop(self) -> anyhow::Result<()> {
        Self::stop(self).await;
        Ok(())
    }
}
