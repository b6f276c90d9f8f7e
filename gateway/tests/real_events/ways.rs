//! The ways from MinIO to the gateway: their servers, and the settings of both ends.

use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use async_nats::jetstream;
use aws_sdk_s3::types::{Event, NotificationConfiguration, QueueConfiguration};
use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use crate::bucket::Bucket;
use crate::gateway::Whole;
use crate::minio::{Minio, SECRET, USER};
use crate::nats::Nats;
use crate::{LONG, TOKEN};

/// The subject of the bucket's events, and the stream that keeps them.
pub(super) const SUBJECT: &str = "media-events";
pub(super) const STREAM: &str = "MEDIA";

/// The way from MinIO to the gateway.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    Webhook,
    /// By a `queue_dir`, in which MinIO looks for events each 3 s.
    Queue,
    Nats,
    /// By TLS, with an authority of its own.
    Tls,
    /// The same, with a credentials file in place of a user and a password.
    Credentials,
    JetStream,
}

pub(super) async fn start_nats(way: Way, address: SocketAddr, folder: &TempDir) -> Nats {
    let (certificate, key) = (fixture("server.pem"), fixture("server.key"));
    let operator = fixture("operator.conf");
    let mut options = match way {
        Way::Credentials => vec!["-c", &operator],
        _ => vec!["--user", "gate", "--pass", "s3cret-of-nats"],
    };
    if matches!(way, Way::Tls | Way::Credentials) {
        options.extend(["--tls", "--tlscert", &certificate, "--tlskey", &key]);
    }
    Nats::start(address, &folder.path().join("nats"), &options).await
}

pub(super) fn fixture(name: &str) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/crates/events/fixtures/nats/");
    format!("{folder}{name}")
}

/// Connects to the server as a publisher of the bucket's events does.
pub(super) async fn connect(address: SocketAddr) -> async_nats::Client {
    let since = Instant::now();
    // A server that is still starting resets its first connections.
    loop {
        let options = async_nats::ConnectOptions::new();
        let options = options.user_and_password("gate".to_owned(), "s3cret-of-nats".to_owned());
        match options.connect(address.to_string()).await {
            Ok(client) => return client,
            Err(error) => assert!(since.elapsed() < LONG, "{error}"),
        }
        sleep(Duration::from_millis(20)).await;
    }
}

/// Publishes a message on a subject; it has left this process at the end.
pub(super) async fn publish(client: &async_nats::Client, subject: &'static str, message: &str) {
    let sent = client.publish(subject, message.to_owned().into()).await;
    sent.expect("sent");
    client.flush().await.expect("sent");
}

/// Returns the number of a bucket's records that a gateway has counted with a result that begins so.
pub(super) async fn counted(gateway: &Whole, result: &str) -> u64 {
    let result = format!("result=\"{result}");
    let events = ["tidegate_bucket_events_total{", &result];
    gateway.metric(&events).await
}

pub(super) async fn create_stream(address: SocketAddr) {
    let client = connect(address).await;
    let config = jetstream::stream::Config {
        name: STREAM.to_owned(),
        subjects: vec![SUBJECT.to_owned()],
        ..jetstream::stream::Config::default()
    };
    let made = jetstream::new(client).create_stream(config).await;
    made.expect("a stream");
}

/// Returns a gateway's configuration, with these lines more.
pub(super) fn configuration(
    way: Way,
    minio: &str,
    nats: SocketAddr,
    folder: &TempDir,
    more: &str,
) -> String {
    // A heartbeat that waits in the queue has to come back in time.
    let every = match way {
        Way::Queue => "10s",
        _ => "1s",
    };
    let way = match way {
        Way::Webhook | Way::Queue => format!("token = \"{TOKEN}\"\n"),
        Way::Nats | Way::Tls | Way::Credentials | Way::JetStream => {
            let scheme = match way {
                Way::Tls | Way::Credentials => "tls",
                _ => "nats",
            };
            let login = match way {
                Way::Credentials => {
                    format!("credentials = {{ file = \"{}\" }}\n", fixture("gate.creds"))
                }
                _ => "user = \"gate\"\npassword = \"s3cret-of-nats\"\n".to_owned(),
            };
            let more = match way {
                Way::Tls | Way::Credentials => format!("ca = \"{}\"\n", fixture("authority.pem")),
                Way::JetStream => format!("stream = \"{STREAM}\"\nconsumer = \"gate-1\"\n"),
                _ => String::new(),
            };
            format!(
                "kind = \"nats\"\nservers = [\"{scheme}://{nats}\"]\nsubject = \"{SUBJECT}\"\n{more}{login}"
            )
        }
    };
    format!(
        "[[origin]]\nname = \"media\"\nbucket = \"media\"\npath_style = true\n\
         endpoint = \"http://{minio}\"\naccess_key_id = \"{USER}\"\n\
         secret_access_key = \"{SECRET}\"\n[profile.web]\nttl = \"1h\"\nnegative_ttl = \"1h\"\n\
         [state]\npath = \"{}\"\n{more}[[events]]\nname = \"bucket\"\norigin = \"media\"\n\
         heartbeat = {{ prefix = \".tidegate/\", every = \"{every}\" }}\n{way}",
        folder.path().join("state").display(),
    )
}

pub(super) async fn start_gateway(
    way: Way,
    minio: &str,
    nats: SocketAddr,
    folder: &TempDir,
    more: &str,
) -> Whole {
    Whole::start(&configuration(way, minio, nats, folder, more)).await
}

pub(super) async fn start_minio(
    way: Way,
    address: &str,
    (gateway, nats): (SocketAddr, SocketAddr),
    queue: &Path,
) -> Minio {
    // The name is one that the admin listener does not know.
    let endpoint = format!("http://127.0.0.1:{}/events/bucket", gateway.port());
    let nats = nats.to_string();
    let authority = fixture("authority.pem");
    let tls = [
        ("MINIO_NOTIFY_NATS_TLS_GATE", "on"),
        ("MINIO_NOTIFY_NATS_CERT_AUTHORITY_GATE", &authority),
    ];
    let queue = [(
        "MINIO_NOTIFY_WEBHOOK_QUEUE_DIR_GATE",
        queue.to_str().expect("text"),
    )];
    let variables: &[(&str, &str)] = match way {
        Way::Webhook | Way::Queue => &[
            ("MINIO_NOTIFY_WEBHOOK_ENABLE_GATE", "on"),
            ("MINIO_NOTIFY_WEBHOOK_ENDPOINT_GATE", &endpoint),
            ("MINIO_NOTIFY_WEBHOOK_AUTH_TOKEN_GATE", TOKEN),
        ],
        _ => &[
            ("MINIO_NOTIFY_NATS_ENABLE_GATE", "on"),
            ("MINIO_NOTIFY_NATS_ADDRESS_GATE", &nats),
            ("MINIO_NOTIFY_NATS_SUBJECT_GATE", SUBJECT),
        ],
    };
    let credentials = fixture("gate.creds");
    let login = match way {
        Way::Credentials => &[("MINIO_NOTIFY_NATS_USER_CREDENTIALS_GATE", &*credentials)][..],
        Way::Webhook | Way::Queue => &[],
        _ => &[
            ("MINIO_NOTIFY_NATS_USERNAME_GATE", "gate"),
            ("MINIO_NOTIFY_NATS_PASSWORD_GATE", "s3cret-of-nats"),
        ],
    };
    let is_secured = matches!(way, Way::Tls | Way::Credentials);
    let tls = tls.iter().filter(|_| is_secured);
    let queue = queue.iter().filter(|_| way == Way::Queue);
    let variables: Vec<_> = variables
        .iter()
        .chain(login)
        .chain(tls)
        .chain(queue)
        .copied()
        .collect();
    Minio::start_at(address, &variables).await
}

/// Configures the bucket to report each object that is created or removed.
pub(super) async fn report_all(bucket: &Bucket, way: Way) {
    let Bucket::S3 { client, name } = bucket else {
        panic!("MinIO speaks S3")
    };
    let target = match way {
        Way::Webhook | Way::Queue => "webhook",
        _ => "nats",
    };
    let queue = QueueConfiguration::builder()
        .queue_arn(format!("arn:minio:sqs::GATE:{target}"))
        .events(Event::S3ObjectCreated)
        .events(Event::S3ObjectRemoved)
        .build()
        .expect("a queue");
    let all = NotificationConfiguration::builder().queue_configurations(queue);
    let put = client.put_bucket_notification_configuration().bucket(name);
    let put = put.notification_configuration(all.build()).send().await;
    put.expect("the bucket reports");
}
