//! The bucket that all peers read from, and its filling.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, Result};
use aws_credential_types::Credentials;
use aws_sdk_s3::Client;
use aws_sdk_s3::config::{BehaviorVersion, Region, RequestChecksumCalculation};
use aws_sdk_s3::error::DisplayErrorContext;
use aws_sdk_s3::operation::put_object::builders::PutObjectFluentBuilder;
use aws_sdk_s3::presigning::PresigningConfig;
use aws_sdk_s3::types::{Event, NotificationConfiguration, QueueConfiguration};
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt, stream};

pub mod endless;
pub mod parts;

use crate::pattern::Pattern;
use crate::peers::minio::{ACCESS_KEY, SECRET_KEY};

/// The number of uploads at once.
const UPLOADS: usize = 16;

/// A bucket with public read access, so that peers that cannot sign requests can be compared too.
#[derive(Debug, Clone)]
pub struct Bucket {
    client: Client,
    name: String,
}

impl Bucket {
    /// Makes a bucket on the S3 server at `addr`.
    ///
    /// # Errors
    /// If the server refuses.
    pub async fn create(addr: SocketAddr, name: &str) -> Result<Self> {
        let bucket = Self {
            client: client(addr, (ACCESS_KEY, SECRET_KEY)),
            name: name.to_owned(),
        };
        bucket
            .client
            .create_bucket()
            .bucket(name)
            .send()
            .await
            .map_err(plainly)?;
        let policy = format!(
            r#"{{"Version":"2012-10-17","Statement":[{{"Effect":"Allow","Principal":"*",
                "Action":["s3:GetObject"],"Resource":["arn:aws:s3:::{name}/*"]}}]}}"#
        );
        let put = bucket
            .client
            .put_bucket_policy()
            .bucket(name)
            .policy(policy);
        put.send().await.map_err(plainly)?;
        Ok(bucket)
    }

    /// Returns the bucket's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the same bucket, reached through the server or proxy at `addr`.
    #[must_use]
    pub fn behind(&self, addr: SocketAddr) -> Self {
        Self {
            client: client(addr, (ACCESS_KEY, SECRET_KEY)),
            name: self.name.clone(),
        }
    }

    /// Writes one object, replacing any earlier one, and returns its ETag.
    ///
    /// # Errors
    /// If the server refuses.
    pub async fn put(&self, key: &str, bytes: Bytes) -> Result<String> {
        self.put_with(key, bytes, |put| put).await
    }

    /// Writes one object as a request with what `with` adds to it, and returns its ETag.
    async fn put_with(
        &self,
        key: &str,
        bytes: Bytes,
        with: impl FnOnce(PutObjectFluentBuilder) -> PutObjectFluentBuilder,
    ) -> Result<String> {
        let put = self.client.put_object().bucket(&self.name).key(key);
        let answer = with(put).body(bytes.into()).send().await.map_err(plainly);
        let answer = answer.with_context(|| format!("put {key}"))?;
        Ok(answer.e_tag().unwrap_or_default().to_owned())
    }

    /// Configures the server to report all that is created and removed to the target of this name.
    ///
    /// # Errors
    /// If the server refuses.
    pub async fn report_to(&self, target: &str) -> Result<()> {
        let queue = QueueConfiguration::builder().queue_arn(target);
        let queue = queue.events(Event::S3ObjectCreated);
        let queue = queue.events(Event::S3ObjectRemoved).build()?;
        let all = NotificationConfiguration::builder().queue_configurations(queue);
        let put = self.client.put_bucket_notification_configuration();
        let put = put
            .bucket(&self.name)
            .notification_configuration(all.build());
        put.send().await.map_err(plainly).map(drop)
    }

    /// Writes one object with a media type.
    ///
    /// # Errors
    /// If the server refuses.
    pub async fn put_as(&self, key: &str, content_type: &str, bytes: Bytes) -> Result<()> {
        let put = self.put_with(key, bytes, |put| put.content_type(content_type));
        put.await.map(drop)
    }

    /// Returns a signed URL that reads an object within an hour.
    ///
    /// # Errors
    /// If it cannot be signed.
    pub async fn signed_url(&self, key: &str) -> Result<String> {
        let get = self.client.get_object().bucket(&self.name).key(key);
        let until = PresigningConfig::expires_in(Duration::from_secs(3600))?;
        let signed = get.presigned(until).await.map_err(plainly)?;
        Ok(signed.uri().to_owned())
    }

    /// Returns an object's bytes.
    ///
    /// # Errors
    /// If there is none, or the server refuses.
    pub async fn get(&self, key: &str) -> Result<Bytes> {
        let get = self.client.get_object().bucket(&self.name).key(key);
        let answer = get.send().await.map_err(plainly);
        let answer = answer.with_context(|| format!("get {key}"))?;
        Ok(answer.body.collect().await?.into_bytes())
    }

    /// Copies an object on the server; both keys need no escaping.
    ///
    /// # Errors
    /// If the server refuses.
    pub async fn copy(&self, from: &str, to: &str) -> Result<()> {
        let copy = self.client.copy_object().bucket(&self.name).key(to);
        let copy = copy.copy_source(format!("{}/{from}", self.name));
        copy.send().await.map_err(plainly).map(drop)
    }

    /// Writes many objects, several at once.
    ///
    /// # Errors
    /// If the server refuses one.
    pub async fn put_all(
        &self,
        objects: impl IntoIterator<Item = (String, Pattern)>,
    ) -> Result<()> {
        let put = objects
            .into_iter()
            .map(|(key, pattern)| async move { self.put(&key, pattern.all()).await.map(drop) });
        several_at_once(put).await
    }

    /// Writes many objects with a tag, by which a gateway may be told to purge them, several at once.
    ///
    /// # Errors
    /// If the server refuses one.
    pub async fn put_all_tagged(
        &self,
        tag: &str,
        objects: impl IntoIterator<Item = (String, Pattern)>,
    ) -> Result<()> {
        let put = objects.into_iter().map(|(key, pattern)| async move {
            let tagged = |put: PutObjectFluentBuilder| put.metadata("cache-tags", tag);
            self.put_with(&key, pattern.all(), tagged).await.map(drop)
        });
        several_at_once(put).await
    }

    /// Returns the keys below a prefix in key order, each with its size.
    ///
    /// # Errors
    /// If the server refuses.
    pub async fn list(&self, prefix: &str) -> Result<Vec<(String, u64)>> {
        let ask = self.client.list_objects_v2().bucket(&self.name);
        let mut pages = ask.prefix(prefix).into_paginator().send();
        let mut found = vec![];
        while let Some(page) = pages.next().await {
            for object in page.map_err(plainly)?.contents.unwrap_or_default() {
                let size = object.size.and_then(|size| u64::try_from(size).ok());
                found.extend(object.key.zip(size));
            }
        }
        Ok(found)
    }

    /// Deletes one object.
    ///
    /// # Errors
    /// If the server refuses.
    pub async fn delete(&self, key: &str) -> Result<()> {
        let delete = self.client.delete_object().bucket(&self.name).key(key);
        let deleted = delete.send().await.map_err(plainly);
        deleted.with_context(|| format!("delete {key}")).map(drop)
    }

    /// Deletes all keys below a prefix.
    ///
    /// # Errors
    /// If the server refuses.
    pub async fn delete_all(&self, prefix: &str) -> Result<()> {
        let found = self.list(prefix).await?.into_iter();
        several_at_once(found.map(|(key, _)| async move { self.delete(&key).await })).await
    }
}

/// Carries out requests, [`UPLOADS`] at a time.
async fn several_at_once(
    requests: impl Iterator<Item = impl Future<Output = Result<()>>>,
) -> Result<()> {
    let requests = stream::iter(requests).buffer_unordered(UPLOADS);
    requests.try_collect().await
}

/// Returns a client of the S3 server at `addr`, with the id and the secret of a key.
pub fn client(addr: SocketAddr, (id, secret): (&str, &str)) -> Client {
    let config = aws_sdk_s3::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("us-east-1"))
        .endpoint_url(format!("http://{addr}"))
        .force_path_style(true)
        .credentials_provider(Credentials::new(id, secret, None, None, "loadtest"))
        .request_checksum_calculation(RequestChecksumCalculation::WhenRequired)
        .http_client(aws_smithy_http_client::Builder::new().build_http())
        .build();
    Client::from_conf(config)
}

/// Shows the whole chain of causes: the SDK's own message says only "service error".
fn plainly<E: std::error::Error + Send + Sync + 'static>(error: E) -> anyhow::Error {
    anyhow::anyhow!("{}", DisplayErrorContext(error))
}
