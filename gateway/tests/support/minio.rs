//! A real MinIO, started for one test and stopped with it.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;
use tidegate_origin::Settings;
use tidegate_origin::settings::Credentials;

use crate::ports::free_addr;

/// A running MinIO over a folder of its own.
#[derive(Debug)]
pub(crate) struct Minio {
    child: Child,
    endpoint: String,
    _folder: TempDir,
}

/// The key of every server here, and its secret.
pub(crate) const USER: &str = "tidegate-test";
pub(crate) const SECRET: &str = "tidegate-test-secret";

impl Minio {
    /// Starts the binary that `$TIDEGATE_MINIO` names, or `minio` from the path, and waits until it
    /// answers. Panics without one: the feature `real-parts` requires it.
    pub(crate) async fn start() -> Self {
        Self::start_at(&free_addr().to_string(), &[]).await
    }

    /// Does the same at this address and with these variables.
    pub(crate) async fn start_at(address: &str, variables: &[(&str, &str)]) -> Self {
        let binary = std::env::var("TIDEGATE_MINIO").unwrap_or_else(|_| "minio".to_owned());
        let folder = tempfile::tempdir().expect("a folder");
        let child = Command::new(&binary)
            .args(["server", "--quiet", "--address", address])
            .arg(folder.path())
            .env("MINIO_ROOT_USER", USER)
            .env("MINIO_ROOT_PASSWORD", SECRET)
            .env("MINIO_BROWSER", "off")
            .envs(variables.iter().copied())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| {
                panic!("`{binary}` does not start ({error}): install MinIO or set TIDEGATE_MINIO")
            });
        let mut minio = Self {
            child,
            endpoint: format!("http://{address}"),
            _folder: folder,
        };
        minio.wait(address).await;
        minio
    }

    /// Returns settings for `bucket`, which need not exist.
    pub(crate) fn settings(&self, bucket: &str) -> Settings {
        let mut settings = Settings::new("minio", bucket);
        settings.endpoint = Some(self.endpoint.clone());
        settings.path_style = true;
        settings.credentials = Credentials::Static {
            access_key_id: USER.to_owned(),
            secret_access_key: SECRET.to_owned(),
            session_token: None,
        };
        settings
    }

    /// Polls, because MinIO does not report its readiness: it listens before its disks are ready.
    async fn wait(&mut self, address: &str) {
        for _ in 0..6000 {
            if let Some(status) = self.child.try_wait().expect("a child of ours") {
                panic!("minio ended at its start: {status}");
            }
            if is_ready(address).await.unwrap_or(false) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("minio does not become ready");
    }
}

impl Drop for Minio {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

async fn is_ready(address: &str) -> std::io::Result<bool> {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut stream = tokio::net::TcpStream::connect(address).await?;
    let request = format!(
        "GET /minio/health/cluster HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer.starts_with("HTTP/1.1 200"))
}
