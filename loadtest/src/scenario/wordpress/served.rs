//! `rclone serve http` behind nginx: images from a bucket for visitors, without a mount.

use std::net::SocketAddr;

use anyhow::Result;

use super::pages;
use crate::bucket::Bucket;
use crate::context::Context;
use crate::peers::cloud::Cloud;
use crate::peers::rclone::{self, Cache};
use crate::peers::{Origin, Peer};
use crate::wordpress::{Places, Web};

/// The name in tables and in `--peers`.
pub(super) const NAME: &str = "rclone-serve";

/// A running server; dropped in this order.
pub(super) struct Served {
    pub(super) addr: SocketAddr,
    pub(super) config: String,
    _web: Web,
    _rclone: Peer,
    _cloud: Cloud,
    _places: Places,
}

/// Starts a server with its cache on disk (`full`), on a bucket with the images of both pages.
pub(super) async fn start(context: &Context) -> Result<Served> {
    let dir = context.dir().join(NAME);
    let places = Places::lay_out(&dir.join("site"))?;
    let bucket = Bucket::create(context.origin().addr, NAME).await?;
    pages::put(&bucket, "").await?;
    let cloud = Cloud::start(&dir, context.origin().addr).await?;
    let origin = Origin {
        addr: cloud.addr(),
        bucket: NAME.to_owned(),
    };
    let rclone = rclone::serve(&dir, &origin, Cache::Full)?;
    let web = Web::start(&places, &nginx(places.addr, rclone.addr()))?;
    Ok(Served {
        addr: places.addr,
        config: rclone.config().to_owned(),
        _web: web,
        _rclone: rclone,
        _cloud: cloud,
        _places: places,
    })
}

/// Returns nginx's `http` block, like the recipe's for Tidegate.
fn nginx(addr: SocketAddr, rclone: SocketAddr) -> String {
    format!(
        "upstream rclone {{\nserver {rclone};\nkeepalive 64;\n}}\nserver {{\nlisten {addr};\n\
         location ^~ /wp-content/uploads/ {{\nproxy_pass http://rclone/;\nproxy_http_version 1.1;\n\
         proxy_set_header Connection \"\";\nproxy_buffer_size 64k;\n\
         proxy_buffers 16 64k;\nproxy_busy_buffers_size 512k;\nproxy_max_temp_file_size 0;\n}}\n}}\n"
    )
}
