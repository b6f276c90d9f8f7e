//! s3s-fs with corrections that a gateway relies on.
//!
//! By itself (0.14.1), s3s-fs ignores conditions on GET and HEAD, and fails on suffixes longer than the object and on
//! ranges of empty objects. It answers for folders as if they were objects, and keeps bytes and ETag in two files that
//! change one after the other. It also claims that it encoded the keys of a listing, which it did not. So here
//!
//! - each key has a lock: reading and replacing it exclude each other until the file is open;
//! - conditions are checked first and then the range, on the one version that the lock holds;
//! - a copy appears whole, as what is put does: s3s-fs writes it in place, and a listing would show a part of it;
//! - a file that was placed or changed by hand (see [`Seals`]) is put again, once, so that its ETag fits its bytes.
//!
//! One limit stays: a file system must be able to hold the key (no empty segments, at most about 160 bytes, because
//! s3s-fs names a file after it in base64).

use std::fs::Metadata;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use http::{HeaderMap, Method, Uri};
use s3s::dto::{
    DeleteObjectInput, DeleteObjectOutput, ETag, GetObjectInput, GetObjectOutput, HeadObjectInput,
    HeadObjectOutput, ListObjectsV2Input, ListObjectsV2Output, PutObjectInput, PutObjectOutput,
    StreamingBlob,
};
use s3s::{S3 as _, S3Error, S3ErrorCode, S3Request, S3Response, S3Result, s3_error};
use s3s_fs::FileSystem;
use tokio::sync::{RwLock, RwLockReadGuard};

use super::condition::{Conditions, satisfy, unsatisfiable};
use super::seal::Seals;
mod copies;
mod uploads;

use uploads::Uploads;

/// The number of locks that the keys share: enough that they seldom collide.
const LOCK_COUNT: usize = 64;

/// A folder of buckets.
#[derive(Debug)]
pub(super) struct Bucket {
    files: FileSystem,
    root: PathBuf,
    seals: Seals,
    uploads: Uploads,
    locks: [RwLock<()>; LOCK_COUNT],
}

impl Bucket {
    pub(super) fn open(root: &Path) -> io::Result<Self> {
        Ok(Self {
            seals: Seals::open(root)?,
            files: FileSystem::new(root).map_err(|error| io::Error::other(format!("{error:?}")))?,
            root: root.to_owned(),
            uploads: Uploads::default(),
            locks: std::array::from_fn(|_| RwLock::new(())),
        })
    }

    /// Returns s3s-fs itself, for the operations that need no correction.
    pub(super) fn files(&self) -> &FileSystem {
        &self.files
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    pub(super) async fn has(&self, bucket: &str, key: &str) -> bool {
        self.file(bucket, key).await.is_ok()
    }

    /// Puts an object from inside the process, unsigned.
    pub(super) async fn store(
        self: Arc<Self>,
        bucket: &str,
        key: &str,
        content_type: &str,
        body: StreamingBlob,
    ) -> S3Result<()> {
        let input = PutObjectInput {
            bucket: bucket.to_owned(),
            key: key.to_owned(),
            content_type: Some(content_type.to_owned()),
            body: Some(body),
            ..PutObjectInput::default()
        };
        self.put(local(input)).await.map(drop)
    }

    pub(super) async fn get(
        &self,
        mut request: S3Request<GetObjectInput>,
    ) -> S3Result<S3Response<GetObjectOutput>> {
        let (_held, file) = self
            .lock_sealed(&request.input.bucket, &request.input.key)
            .await?;
        let conditions = Conditions::from(&request.input);
        let asked = request.input.range.take();
        let range = asked.and_then(|range| satisfy(range, file.len()));
        request.input.range = range;
        let response = self.files.get_object(request).await?;
        conditions.check(response.output.e_tag.as_ref(), &file)?;
        if asked.is_some() && range.is_none() {
            return Err(unsatisfiable(file.len()));
        }
        Ok(response)
    }

    pub(super) async fn head(
        &self,
        request: S3Request<HeadObjectInput>,
    ) -> S3Result<S3Response<HeadObjectOutput>> {
        let (_held, file) = self
            .lock_sealed(&request.input.bucket, &request.input.key)
            .await?;
        let conditions = Conditions::from(&request.input);
        let response = self.files.head_object(request).await?;
        conditions.check(response.output.e_tag.as_ref(), &file)?;
        Ok(response)
    }

    pub(super) async fn put(
        self: Arc<Self>,
        request: S3Request<PutObjectInput>,
    ) -> S3Result<S3Response<PutObjectOutput>> {
        let input = &request.input;
        must_be_plain(input.key.trim_end_matches('/'))?;
        let _held = self.lock(&input.bucket, &input.key).write().await;
        let (bucket, key) = (input.bucket.clone(), input.key.clone());
        let response = self.files.put_object(request).await?;
        if !key.ends_with('/') {
            self.seal(&bucket, &key).await?;
        }
        Ok(response)
    }

    pub(super) async fn list(
        &self,
        mut request: S3Request<ListObjectsV2Input>,
    ) -> S3Result<S3Response<ListObjectsV2Output>> {
        // s3s-fs encodes no keys, but claims to.
        request.input.encoding_type = None;
        self.files.list_objects_v2(request).await
    }

    pub(super) async fn delete(
        self: Arc<Self>,
        request: S3Request<DeleteObjectInput>,
    ) -> S3Result<S3Response<DeleteObjectOutput>> {
        let input = &request.input;
        let _held = self.lock(&input.bucket, &input.key).write().await;
        if let Err(error) = self.file(&input.bucket, &input.key).await {
            return match error.code() {
                S3ErrorCode::NoSuchKey => Ok(S3Response::new(DeleteObjectOutput::default())),
                _ => Err(error),
            };
        }
        self.files.delete_object(request).await
    }

    /// Locks an object for reading and makes sure that its ETag fits its bytes.
    pub(super) async fn lock_sealed(
        &self,
        bucket: &str,
        key: &str,
    ) -> S3Result<(RwLockReadGuard<'_, ()>, Metadata)> {
        let lock = self.lock(bucket, key);
        let held = lock.read().await;
        let file = self.file(bucket, key).await?;
        if self.seals.holds(bucket, key, &file).await {
            return Ok((held, file));
        }
        drop(held);
        let held = lock.write().await;
        let file = self.sealed_file(bucket, key).await?;
        Ok((held.downgrade(), file))
    }

    /// Returns the object's ETag; the caller holds its lock.
    pub(super) async fn tag(&self, bucket: &str, key: &str) -> S3Result<ETag> {
        let head = HeadObjectInput::builder()
            .bucket(bucket.to_owned())
            .key(key.to_owned())
            .build()
            .map_err(S3Error::internal_error)?;
        let head = self.files.head_object(local(head)).await?.output;
        head.e_tag.ok_or_else(|| s3_error!(InternalError))
    }

    /// Records that the object's present file came through S3.
    pub(super) async fn seal(&self, bucket: &str, key: &str) -> S3Result<()> {
        let file = self.file(bucket, key).await?;
        self.seals
            .set(bucket, key, &file)
            .await
            .map_err(S3Error::internal_error)
    }

    /// Returns the metadata of an object's file.
    async fn file(&self, bucket: &str, key: &str) -> S3Result<Metadata> {
        match tokio::fs::metadata(self.path(bucket, key)).await {
            Ok(file) if file.is_file() && is_plain(key) => Ok(file),
            _ if !self.root.join(bucket).is_dir() => Err(s3_error!(NoSuchBucket)),
            _ => Err(s3_error!(NoSuchKey)),
        }
    }

    fn path(&self, bucket: &str, key: &str) -> PathBuf {
        self.root.join(bucket).join(key)
    }

    pub(super) fn lock(&self, bucket: &str, key: &str) -> &RwLock<()> {
        &self.locks[self.stripe(bucket, key)]
    }

    fn stripe(&self, bucket: &str, key: &str) -> usize {
        let mut hasher = DefaultHasher::new();
        (bucket, key).hash(&mut hasher);
        usize::try_from(hasher.finish() % LOCK_COUNT as u64).expect("less than the number of locks")
    }
}

/// Returns whether a key names a file exactly: other keys would resolve to another key's file.
fn is_plain(key: &str) -> bool {
    !key.contains('\0') && key.split('/').all(|part| !matches!(part, "" | "." | ".."))
}

pub(super) fn must_be_plain(key: &str) -> S3Result<()> {
    if is_plain(key) {
        Ok(())
    } else {
        Err(s3_error!(InvalidArgument, "no file can have this key"))
    }
}

/// Creates a request that did not come over HTTP.
fn local<T>(input: T) -> S3Request<T> {
    S3Request {
        input,
        method: Method::PUT,
        uri: Uri::from_static("/"),
        headers: HeaderMap::new(),
        extensions: http::Extensions::new(),
        credentials: None,
        region: None,
        service: None,
        trailing_headers: None,
    }
}
