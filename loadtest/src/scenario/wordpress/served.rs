//! `rclone serve http` behind nginx: images from a bucket for visitors, without a mount. Pages are the local site's.

use std::net::SocketAddr;
use std::path::Path;

use anyhow::Result;

use crate::bucket::Bucket;
use crate::context::Context;
use crate::peers::cloud::Cloud;
use crate::peers::rclone::{self, Cache};
use crate::peers::{Origin, Peer};
use crate::wordpress::{Places, Site, Web};

/// The name in tables and in `--peers`.
pub(super) const NAME: &str = "rclone-serve";

/// A running server; dropped in this order.
pub(super) struct Served {
    pub(super) addr: SocketAddr,
    pub(super) config: String,
    _web: Web,
    _rclone: Peer,
    _cloud: Cloud,
}

/// Starts a server with its cache on disk (`full`), on a bucket with the uploads of `local`.
pub(super) async fn start(context: &Context, local: &Site) -> Result<Served> {
    let dir = context.dir().join(NAME);
    std::fs::create_dir_all(&dir)?;
    let bucket = Bucket::create(context.origin().addr, NAME).await?;
    let uploads = local.places.uploads();
    put(&bucket, &uploads, &uploads).await?;
    let cloud = Cloud::start(&dir, context.origin().addr).await?;
    let origin = Origin {
        addr: cloud.addr(),
        bucket: NAME.to_owned(),
    };
    let rclone = rclone::serve(&dir, &origin, Cache::Full)?;
    let places = local.places.another();
    let web = Web::start(&places, &nginx(&places, rclone.addr()))?;
    Ok(Served {
        addr: places.addr,
        config: rclone.config().to_owned(),
        _web: web,
        _rclone: rclone,
        _cloud: cloud,
    })
}

/// Puts the files of a folder and of those in it into the bucket.
async fn put(bucket: &Bucket, uploads: &Path, folder: &Path) -> Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            Box::pin(put(bucket, uploads, &path)).await?;
            continue;
        }
        let key = path.strip_prefix(uploads)?.to_string_lossy();
        bucket.put(&key, std::fs::read(&path)?.into()).await?;
    }
    Ok(())
}

/// Returns nginx's `http` block: uploads like the recipe's for Tidegate, all else like the local site's.
fn nginx(places: &Places, rclone: SocketAddr) -> String {
    let uploads = "location ^~ /wp-content/uploads/ {\nproxy_pass http://rclone/;\nproxy_http_version 1.1;\n\
         proxy_set_header Connection \"\";\nproxy_buffer_size 64k;\n\
         proxy_buffers 16 64k;\nproxy_busy_buffers_size 512k;\nproxy_max_temp_file_size 0;\n}";
    format!(
        "upstream rclone {{\nserver {rclone};\nkeepalive 64;\n}}\n{}",
        places.http(uploads)
    )
}
