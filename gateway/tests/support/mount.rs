//! A gateway whose bucket is mounted, and programs that use the mount.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use http::Method;
use rustix::mount::UnmountFlags;
use tempfile::TempDir;
use tidegate_origin::Settings;
use tidegate_origin::settings::Credentials;

use crate::gateway::{Got, Whole, ask};

/// The token of the admin listener.
pub(crate) const TOKEN: &str = "let-me-in-for-tests";

/// A folder to mount on, unmounted when it is dropped in any case.
#[derive(Debug)]
pub(crate) struct Folder(TempDir);

impl Folder {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.0.path().to_owned()
    }

    /// Unmounts it, also from a process that was killed.
    pub(crate) fn let_go(&self) {
        let _ = rustix::mount::unmount(self.0.path(), UnmountFlags::DETACH);
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        self.let_go();
    }
}

/// Returns the configuration of an origin.
pub(crate) fn origin(settings: &Settings) -> String {
    let Credentials::Static {
        access_key_id,
        secret_access_key,
        ..
    } = &settings.credentials
    else {
        panic!("tests have a key");
    };
    format!(
        "[admin]\ntoken = \"{TOKEN}\"\n\
         [[origin]]\nname = \"o\"\nbucket = \"{}\"\npath_style = true\nendpoint = \"{}\"\n\
         access_key_id = \"{access_key_id}\"\nsecret_access_key = \"{secret_access_key}\"\n",
        settings.bucket,
        settings.endpoint.as_ref().expect("an endpoint"),
    )
}

/// A gateway with a mount.
pub(crate) struct Mounted {
    pub(crate) gateway: Whole,
    pub(crate) folder: Folder,
}

impl Mounted {
    /// Starts a gateway; `more` has further lines for the `[[mount]]`, and any sections after it.
    pub(crate) async fn start(settings: &Settings, more: &str) -> Self {
        let folder = Folder::new();
        let path = folder.path();
        let (origin, path) = (origin(settings), path.display());
        let toml = format!("{origin}[[mount]]\npath = \"{path}\"\n{more}");
        let gateway = Whole::start(&toml).await;
        Self { gateway, folder }
    }

    pub(crate) fn path(&self, key: &str) -> PathBuf {
        self.folder.path().join(key)
    }

    /// Purges a key through the admin listener.
    pub(crate) async fn purge(&self, key: &str) -> Got {
        let path = format!("/purge?path=/{key}");
        self.order(Method::POST, &path).await
    }

    /// Sends a request to the admin listener, with its token.
    pub(crate) async fn order(&self, method: Method, path: &str) -> Got {
        let bearer = format!("Bearer {TOKEN}");
        let headers = [("authorization", bearer.as_str())];
        ask(self.gateway.admin, method, path, &headers).await
    }

    /// Runs a program in the mounted folder.
    pub(crate) async fn run(&self, line: &[&str]) -> Output {
        run_in(&self.folder.path(), line).await
    }

    /// Runs a program that must succeed, and returns its output.
    pub(crate) async fn says(&self, line: &[&str]) -> String {
        let output = self.run(line).await;
        assert!(output.status.success(), "{line:?}: {output:?}");
        String::from_utf8(output.stdout).expect("text")
    }
}

pub(crate) async fn run_in(folder: &Path, line: &[&str]) -> Output {
    let mut command = Command::new(line[0]);
    command.args(&line[1..]).current_dir(folder);
    command.stdin(Stdio::null());
    blocking(move || command.output()).await.expect("it runs")
}

/// Runs blocking work off the threads that answer the kernel.
pub(crate) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.expect("no panic")
}
