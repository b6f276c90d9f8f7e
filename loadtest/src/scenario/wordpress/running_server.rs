//! Other servers of the uploads behind nginx; pages are the local site's. `rclone serve http` has the images from a bucket,
//! without a mount. A second nginx has the local files: no server behind nginx answers it sooner, so that is the floor.

use std::net::SocketAddr;
use std::path::Path;

use anyhow::Result;

use crate::bucket::Bucket;
use crate::context::Context;
use crate::peers::cloud::Cloud;
use crate::peers::rclone::{self, Cache};
use crate::peers::{Origin, Peer, nginx};
use crate::wordpress::{Places, Site, Web};

/// The names in tables and in `--peers`.
pub(super) const RCLONE: &str = "rclone-serve";
pub(super) const SECOND_NGINX: &str = "second-nginx";

/// A running server; dropped in this order.
pub(super) struct RunningServer {
    pub(super) addr: SocketAddr,
    pub(super) config: String,
    _web: Web,
    _server: Peer,
    _cloud: Option<Cloud>,
}

impl RunningServer {
    /// Starts the nginx before a server of the uploads of `local`.
    fn start(local: &Site, server: Peer, cloud: Option<Cloud>) -> Result<Self> {
        let places = local.places.another();
        let web = Web::start(&places, &front(&places, server.addr()))?;
        Ok(Self {
            addr: places.addr,
            config: server.config().to_owned(),
            _web: web,
            _server: server,
            _cloud: cloud,
        })
    }
}

/// Starts a second nginx on the uploads of `local`.
pub(super) fn second_nginx(context: &Context, local: &Site) -> Result<RunningServer> {
    let dir = context.dir().join(SECOND_NGINX);
    std::fs::create_dir_all(&dir)?;
    let server = nginx::static_files(&dir, &local.places.uploads())?;
    RunningServer::start(local, server, None)
}

/// Starts rclone with its cache on disk (`full`), on a bucket with the uploads of `local`.
pub(super) async fn rclone(context: &Context, local: &Site) -> Result<RunningServer> {
    let dir = context.dir().join(RCLONE);
    std::fs::create_dir_all(&dir)?;
    let bucket = Bucket::create(context.origin().addr, RCLONE).await?;
    let uploads = local.places.uploads();
    put(&bucket, &uploads, &uploads).await?;
    let cloud = Cloud::start(&dir, context.origin().addr).await?;
    let origin = Origin {
        addr: cloud.addr(),
        bucket: RCLONE.to_owned(),
    };
    let rclone = rclone::serve(&dir, &origin, Cache::Full)?;
    RunningServer::start(local, rclone, Some(cloud))
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
fn front(places: &Places, server: SocketAddr) -> String {
    let uploads = "location ^~ /wp-content/uploads/ {\nproxy_pass http://uploads/;\nproxy_http_version 1.1;\n\
         proxy_set_header Connection \"\";\nproxy_buffer_size 64k;\n\
         proxy_buffers 16 64k;\nproxy_busy_buffers_size 512k;\nproxy_max_temp_file_size 0;\n}";
    format!(
        "upstream uploads {{\nserver {server};\nkeepalive 64;\n}}\n{}",
        places.http(uploads)
    )
}
