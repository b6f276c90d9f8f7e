//! A bucket that a test can write to, over any kind of store.

use aws_sdk_s3::Client;
use aws_sdk_s3::config::{
    BehaviorVersion, Builder, Credentials as Key, Region, RequestChecksumCalculation,
    SharedCredentialsProvider,
};
use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_s3::types::{BucketVersioningStatus, VersioningConfiguration};
use aws_smithy_http_client::Builder as HttpBuilder;
use tidegate_origin::settings::Credentials;
use tidegate_origin::{FakeOrigin, Settings};

/// The way in which a test writes.
pub(crate) enum Bucket {
    /// Directly into memory.
    Fake(FakeOrigin),
    /// Through the S3 API.
    S3 { client: Client, name: String },
}

impl Bucket {
    /// Creates the bucket that `settings` name, and writes to it through the API.
    pub(crate) async fn create(settings: &Settings) -> Self {
        let Credentials::Static {
            access_key_id,
            secret_access_key,
            ..
        } = &settings.credentials
        else {
            panic!("tests write with a key");
        };
        let key = Key::new(access_key_id, secret_access_key, None, None, "test");
        let config = Builder::new()
            .behavior_version(BehaviorVersion::v2026_01_12())
            .region(Region::new(settings.region.clone()))
            .endpoint_url(settings.endpoint.clone().expect("an endpoint"))
            .force_path_style(true)
            .http_client(HttpBuilder::new().build_http())
            .request_checksum_calculation(RequestChecksumCalculation::WhenRequired)
            .credentials_provider(SharedCredentialsProvider::new(key))
            .build();
        let client = Client::from_conf(config);
        let name = settings.bucket.clone();
        client
            .create_bucket()
            .bucket(&name)
            .send()
            .await
            .expect("a bucket");
        Self::S3 { client, name }
    }

    /// Makes the bucket keep versions.
    pub(crate) async fn keep_versions(&self) {
        match self {
            Self::Fake(fake) => drop(fake.clone().with_versions()),
            Self::S3 { client, name } => {
                let config = VersioningConfiguration::builder()
                    .status(BucketVersioningStatus::Enabled)
                    .build();
                let put = client.put_bucket_versioning().bucket(name);
                put.versioning_configuration(config)
                    .send()
                    .await
                    .expect("versioning");
            }
        }
    }

    pub(crate) async fn put(&self, key: &str, bytes: impl Into<Vec<u8>>) {
        match self {
            Self::Fake(fake) => drop(fake.put(key, bytes.into())),
            Self::S3 { client, name } => {
                let put = client.put_object().bucket(name).key(key);
                let body = ByteStream::from(bytes.into());
                put.body(body).send().await.expect("written");
            }
        }
    }

    /// Writes an object with the headers that [`HEADERS`] lists.
    pub(crate) async fn put_with_headers(&self, key: &str, bytes: impl Into<Vec<u8>>) {
        match self {
            Self::Fake(fake) => drop(fake.put_with(key, bytes.into(), &HEADERS)),
            Self::S3 { client, name } => {
                let [kind, caching, disposition, (_, title)] = HEADERS;
                let put = client.put_object().bucket(name).key(key);
                put.body(ByteStream::from(bytes.into()))
                    .content_type(kind.1)
                    .cache_control(caching.1)
                    .content_disposition(disposition.1)
                    .metadata("title", title)
                    .send()
                    .await
                    .expect("written");
            }
        }
    }

    pub(crate) async fn delete(&self, key: &str) {
        match self {
            Self::Fake(fake) => fake.delete(key),
            Self::S3 { client, name } => {
                let delete = client.delete_object().bucket(name).key(key);
                delete.send().await.expect("deleted");
            }
        }
    }
}

/// The headers that [`Bucket::put_with_headers`] writes.
pub(crate) const HEADERS: [(&str, &str); 4] = [
    ("content-type", "audio/mpeg"),
    ("cache-control", "max-age=5"),
    ("content-disposition", "inline; filename=\"a b.mp3\""),
    ("x-amz-meta-title", "Momo"),
];
