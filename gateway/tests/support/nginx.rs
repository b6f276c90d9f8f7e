//! A real nginx with a configuration made for the test, on a free port, in a directory of its own.
//!
//! The suites behind the feature `real-parts` include it with `#[path = "support/nginx.rs"] mod
//! nginx;`. The program is `TIDEGATE_NGINX`, else in `PATH`, else `/usr/sbin/nginx`.

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use tempfile::TempDir;

#[path = "process.rs"]
mod process;

use process::Process;

use crate::ports::free_addr;

/// A running nginx.
#[derive(Debug)]
pub(crate) struct Nginx {
    addr: SocketAddr,
    // Declared before the directory, so that it stops before its files go.
    _process: Process,
    _dir: TempDir,
}

impl Nginx {
    /// Starts an nginx whose `http` block has the lines `http` (such as `proxy_cache_path`, which
    /// may name `{dir}`, a directory of this server's own) and whose only server has those of
    /// `server`.
    pub(crate) fn start(http: &str, server: &str) -> Self {
        let dir = tempfile::Builder::new()
            .prefix("tidegate-nginx-")
            .tempdir()
            .expect("a directory");
        let addr = free_addr();
        let own = |lines: &str| lines.replace("{dir}", &dir.path().display().to_string());
        let file = dir.path().join("nginx.conf");
        std::fs::write(&file, config(dir.path(), addr, &own(http), &own(server)))
            .expect("a writable directory");
        let mut command = Command::new(program());
        command.arg("-p").arg(dir.path()).arg("-c").arg(&file);
        let process = Process::start(command, &dir.path().join("nginx.log"), addr);
        Self {
            addr,
            _process: process,
            _dir: dir,
        }
    }

    /// Returns the address of its listener.
    pub(crate) fn addr(&self) -> SocketAddr {
        self.addr
    }
}

fn program() -> std::ffi::OsString {
    let debian = Path::new("/usr/sbin/nginx");
    match std::env::var_os("TIDEGATE_NGINX") {
        Some(program) => program,
        // On Debian it is not in every user's PATH.
        None if debian.is_file() => debian.into(),
        None => "nginx".into(),
    }
}

fn config(dir: &Path, addr: SocketAddr, http: &str, server: &str) -> String {
    let dir = dir.display();
    // Under root, the workers would be another user without access to the directory.
    let user = if rustix::process::geteuid().is_root() {
        "user root;"
    } else {
        ""
    };
    let temporary: String = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
        .iter()
        .map(|kind| format!("  {kind}_temp_path {dir}/{kind};\n"))
        .collect();
    format!(
        "{user}\ndaemon off;\npid {dir}/nginx.pid;\nerror_log stderr warn;\n\
         events {{ worker_connections 1024; }}\nhttp {{\n  access_log off;\n{temporary}{http}\n  \
         server {{\n    listen {addr};\n{server}\n  }}\n}}\n"
    )
}
