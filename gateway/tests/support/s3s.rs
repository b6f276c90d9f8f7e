//! s3s-fs on loopback: an embedded S3 by another author.

use hyper::server::conn::http1::Builder;
use hyper_util::rt::TokioIo;
use s3s::auth::SimpleAuth;
use s3s::service::S3ServiceBuilder;
use s3s_fs::FileSystem;
use tempfile::TempDir;
use tidegate_origin::Settings;
use tidegate_origin::settings::Credentials;
use tokio::net::TcpListener;
use tokio::task::{JoinHandle, JoinSet};

/// A running store over a folder of its own; it ends when dropped.
#[derive(Debug)]
pub(crate) struct S3sFs {
    address: std::net::SocketAddr,
    server: JoinHandle<()>,
    _folder: TempDir,
}

const USER: &str = "id";
const SECRET: &str = "secret";

impl S3sFs {
    pub(crate) async fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let files = FileSystem::new(folder.path()).expect("a folder to serve");
        let mut service = S3ServiceBuilder::new(files);
        service.set_auth(SimpleAuth::from_single(USER, SECRET));
        let service = service.build();
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
        let address = listener.local_addr().expect("bound");
        let server = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                let service = service.clone();
                connections.spawn(async move {
                    let http = Builder::new();
                    let _ = http.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Self {
            address,
            server,
            _folder: folder,
        }
    }

    pub(crate) fn settings(&self, bucket: &str) -> Settings {
        let mut settings = Settings::new("s3s-fs", bucket);
        settings.endpoint = Some(format!("http://{}", self.address));
        settings.path_style = true;
        settings.credentials = Credentials::Static {
            access_key_id: USER.to_owned(),
            secret_access_key: SECRET.to_owned(),
            session_token: None,
        };
        settings
    }
}

impl Drop for S3sFs {
    fn drop(&mut self) {
        self.server.abort();
    }
}
