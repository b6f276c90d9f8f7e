//! nginx as a server of local files (the figure to reach) and as a cache of the bucket.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use super::{Origin, Peer};
use crate::child::{Server, find_program, free_addr};

/// The shipped recipe for nginx in front of Tidegate.
const RECIPE: &str = include_str!("../../../config/nginx/tidegate.conf");

/// Serves the files below `root` with `sendfile` and `open_file_cache`.
///
/// # Errors
/// If nginx is missing or does not start.
pub fn static_files(dir: &Path, root: &Path) -> Result<Peer> {
    let location = format!(
        "    sendfile on;\n    tcp_nopush on;\n    open_file_cache max=100000 inactive=60s;\n    \
         open_file_cache_valid 60s;\n    location / {{ root {}; }}\n",
        root.display()
    );
    start("nginx", dir, "", &location)
}

/// Passes requests on to the Unix socket or the address of `other`, by the shipped recipe.
///
/// # Errors
/// If the recipe has changed beyond recognition, or nginx is missing or does not start.
pub fn in_front_of(dir: &Path, other: Peer, over_socket: bool) -> Result<Peer> {
    let server = match (over_socket, other.socket()) {
        (true, Some(socket)) => format!("unix:{}", socket.display()),
        (true, None) => bail!("{} has no socket", other.name()),
        (false, _) => other.addr().to_string(),
    };
    let http = format!("  upstream tidegate {{ server {server}; keepalive 64; }}\n");
    let (_, location) = RECIPE
        .split_once("    location / {")
        .context("the recipe has a location")?;
    let (location, _) = location
        .split_once("\n    }\n")
        .context("the location has an end")?;
    let location = format!("    location / {{{location}\n    }}\n");
    Ok(start("nginx-proxy", dir, &http, &location)?.in_front_of(other))
}

/// Caches the bucket in slices of `slice` (in nginx's size syntax), with one fetch at a time for
/// each slice.
///
/// # Errors
/// If nginx is missing or does not start.
pub fn slice(dir: &Path, origin: &Origin, slice: &str) -> Result<Peer> {
    let cache = dir.join("nginx-cache");
    let http = format!(
        "  proxy_cache_path {} levels=1:2 keys_zone=media:32m max_size=20g use_temp_path=off;\n  \
         upstream bucket {{ server {}; keepalive 64; }}\n",
        cache.display(),
        origin.addr
    );
    let location = format!(
        "    sendfile on;\n    tcp_nopush on;\n    location / {{\n      slice {slice};\n      \
         proxy_cache media;\n      proxy_cache_key $uri$slice_range;\n      \
         proxy_cache_valid 200 206 1m;\n      proxy_cache_lock on;\n      \
         proxy_set_header Range $slice_range;\n      proxy_set_header Connection \"\";\n      \
         proxy_http_version 1.1;\n      proxy_pass http://bucket/{}/;\n    }}\n",
        origin.bucket
    );
    start("nginx-slice", dir, &http, &location)
}

/// Caches whole objects of the bucket, the usual setup.
///
/// # Errors
/// If nginx is missing or does not start.
pub fn proxy_cache(dir: &Path, origin: &Origin) -> Result<Peer> {
    let cache = dir.join("nginx-cache-files");
    let http = format!(
        "  proxy_cache_path {} levels=1:2 keys_zone=media:32m max_size=20g use_temp_path=off;\n  \
         upstream bucket {{ server {}; keepalive 64; }}\n",
        cache.display(),
        origin.addr
    );
    let location = format!(
        "    sendfile on;\n    tcp_nopush on;\n    open_file_cache max=100000 inactive=60s;\n    \
         open_file_cache_valid 60s;\n    location / {{\n      proxy_cache media;\n      \
         proxy_cache_key $uri;\n      proxy_cache_valid 200 1h;\n      proxy_cache_lock on;\n      \
         proxy_set_header Connection \"\";\n      proxy_http_version 1.1;\n      \
         proxy_pass http://bucket/{}/;\n    }}\n",
        origin.bucket
    );
    start("nginx-cache", dir, &http, &location)
}

fn start(name: &'static str, dir: &Path, http: &str, server: &str) -> Result<Peer> {
    let program = find_program("TIDEGATE_NGINX", &["nginx", "/usr/sbin/nginx"])
        .context("nginx is missing; `loadtest setup` installs it")?;
    let home = dir.join(name);
    std::fs::create_dir_all(&home)?;
    let addr = free_addr();
    let socket = home.join("http.sock");
    let config = config(addr, &socket, &home, http, server);
    let file = home.join("nginx.conf");
    std::fs::write(&file, &config)?;
    let mut command = Command::new(program);
    command.arg("-p").arg(&home).arg("-c").arg(&file);
    let server = Server::start(command, &home.join("nginx.log"), addr)?;
    Ok(Peer::new(name, addr, config, server).with_socket(socket))
}

fn config(addr: SocketAddr, socket: &Path, home: &Path, http: &str, server: &str) -> String {
    // As root, nginx would read the files as a user without access to them.
    let user = if rustix::process::geteuid().is_root() {
        "user root;\n"
    } else {
        ""
    };
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .iter()
        .map(|kind| format!("  {kind}_temp_path {}/{kind};\n", home.display()))
        .collect();
    format!(
        "{user}daemon off;\nworker_processes auto;\nworker_rlimit_nofile 20000;\n\
         pid {home}/nginx.pid;\nerror_log stderr error;\n\
         events {{ worker_connections 16384; }}\nhttp {{\n  access_log off;\n  \
         keepalive_requests 1000000;\n  keepalive_timeout 600;\n  default_type application/octet-stream;\n{temporary}{http}  \
         server {{\n    listen {addr} reuseport backlog=4096;\n    \
         listen unix:{socket} backlog=4096;\n{server}  }}\n}}\n",
        home = home.display(),
        socket = socket.display()
    )
}
