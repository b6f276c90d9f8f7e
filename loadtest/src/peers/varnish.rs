//! Varnish: a memory cache in front of the bucket.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result};

use super::{Origin, Peer};
use crate::child::{Server, find_program, free_addr};

/// Caches the bucket in 512 MiB of memory.
///
/// # Errors
/// If varnish is missing or does not start.
pub fn start(dir: &Path, origin: &Origin) -> Result<Peer> {
    let program = find_program("TIDEGATE_VARNISHD", &["varnishd", "/usr/sbin/varnishd"])
        .context("varnish is missing; `loadtest setup` installs it")?;
    let home = dir.join("varnish");
    std::fs::create_dir_all(&home)?;
    let addr = free_addr();
    let vcl = format!(
        "vcl 4.1;\nbackend bucket {{ .host = \"{}\"; .port = \"{}\"; }}\nsub vcl_recv {{\n  \
         set req.url = \"/{}\" + req.url;\n  return (hash);\n}}\n\
         sub vcl_backend_response {{ set beresp.ttl = 1h; }}\n",
        origin.addr.ip(),
        origin.addr.port(),
        origin.bucket
    );
    let file = home.join("bucket.vcl");
    std::fs::write(&file, &vcl)?;
    let mut command = Command::new(program);
    command
        .args(["-F", "-a", &addr.to_string(), "-s", "malloc,512m"])
        .arg("-n")
        .arg(home.join("work"))
        .arg("-f")
        .arg(&file);
    let server = Server::start(command, &home.join("varnish.log"), addr)?;
    let config = format!("varnishd -s malloc,512m -f bucket.vcl\n\n{vcl}");
    Ok(Peer::new("varnish", addr, config, server))
}
