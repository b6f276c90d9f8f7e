//! Test methods that fill and change a bucket in memory.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderName, HeaderValue};

use super::{FakeOrigin, StoredVersion};
use tidegate_plan::{ETag, ObjectKey, Timestamp, Version};

/// The methods that write.
impl FakeOrigin {
    /// Creates an empty bucket without versions.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the same bucket as an access of this name sees it.
    #[must_use]
    pub fn seen_by(&self, identity: &'static str) -> Self {
        Self(self.0.clone(), Some(identity))
    }

    /// Keeps replaced versions, each under its own id.
    #[must_use]
    pub fn with_versions(self) -> Self {
        self.state().versions = true;
        self
    }

    /// Keeps replaced versions, and lists the folders in which there is nothing but removed objects, as MinIO does.
    #[must_use]
    pub fn with_remnants(self) -> Self {
        self.state().remnants = true;
        self.with_versions()
    }

    /// Sends bodies in frames of this many bytes.
    #[must_use]
    pub fn with_frames(self, bytes: usize) -> Self {
        self.state().frame = bytes;
        self
    }

    /// Lists this many keys and folders on a page, or fewer.
    #[must_use]
    pub fn with_page_keys(self, keys: u16) -> Self {
        self.state().page_keys = keys;
        self
    }

    /// Begins each listing with this many empty pages.
    #[must_use]
    pub fn with_empty_pages(self, pages: u64) -> Self {
        self.state().empty_pages = pages;
        self
    }

    /// Writes an object without headers; replaces an existing one.
    pub fn put(&self, key: &str, bytes: impl Into<Bytes>) -> Arc<Version> {
        self.put_with(key, bytes, &[])
    }

    /// Writes an object with headers. As in S3 the ETag follows from the bytes alone.
    ///
    /// # Panics
    /// The key or a header is invalid: a mistake of the test.
    pub fn put_with(
        &self,
        key: &str,
        bytes: impl Into<Bytes>,
        headers: &[(&str, &str)],
    ) -> Arc<Version> {
        let bytes = bytes.into();
        let etag = ETag::of_bytes([&bytes[..]]);
        self.put_whole(key, etag, bytes, headers)
    }

    /// Writes an object with this tag, as a store does whose tags repeat.
    ///
    /// # Panics
    /// The key or the tag is invalid: a mistake of the test.
    pub fn put_tagged(&self, key: &str, tag: &str, bytes: impl Into<Bytes>) -> Arc<Version> {
        let etag = ETag::parse(tag).expect("a tag");
        self.put_whole(key, etag, bytes.into(), &[])
    }

    fn put_whole(
        &self,
        key: &str,
        etag: ETag,
        bytes: Bytes,
        headers: &[(&str, &str)],
    ) -> Arc<Version> {
        let version = Version {
            etag,
            size: bytes.len() as u64,
            last_modified: None,
            version_id: None,
            headers: headers.iter().map(|(n, v)| header(n, v)).collect(),
        };
        self.store(key, version, Some(bytes))
    }

    /// Copies an object onto itself with other headers: the ETag stays, `Last-Modified` changes.
    ///
    /// # Panics
    /// There is no such object.
    pub fn mend(&self, key: &str, headers: &[(&str, &str)]) -> Arc<Version> {
        let now = self.current(&valid(key)).expect("an object to mend");
        self.put_with(key, now.bytes.expect("not a delete marker"), headers)
    }

    /// Writes the object `from` under the key `to` as well. Both share their bytes in memory.
    ///
    /// # Panics
    /// There is no such object.
    pub fn copy(&self, from: &str, to: &str) {
        let from = self.current(&valid(from)).expect("an object to copy");
        self.store(to, Version::clone(&from.version), from.bytes);
    }

    /// Removes an object. With versions, a delete marker takes its place.
    pub fn delete(&self, key: &str) {
        let key = valid(key);
        let mut state = self.state();
        if !state.versions {
            state.objects.remove(&key);
        } else if let Some(history) = state.objects.get_mut(&key)
            && let Some(last) = history.last().cloned()
        {
            history.push(StoredVersion {
                bytes: None,
                ..last
            });
        }
    }

    pub(super) fn delete_version(&self, key: &ObjectKey, id: &str) {
        let mut state = self.state();
        if let Some(history) = state.objects.get_mut(key) {
            history.retain(|stored| stored.version.version_id.as_deref() != Some(id));
        }
    }

    pub(super) fn store(
        &self,
        key: &str,
        mut version: Version,
        bytes: Option<Bytes>,
    ) -> Arc<Version> {
        let mut state = self.state();
        state.writes += 1;
        version.last_modified = Some(Timestamp(state.writes * 1000));
        version.version_id = state.versions.then(|| format!("v{}", state.writes));
        let version = Arc::new(version);
        let keep = state.versions;
        let history = state.objects.entry(valid(key)).or_default();
        if !keep {
            history.clear();
        }
        history.push(StoredVersion {
            version: version.clone(),
            bytes,
        });
        version
    }
}

fn valid(key: &str) -> ObjectKey {
    ObjectKey::new(key).expect("a valid key")
}

fn header(name: &str, value: &str) -> (HeaderName, HeaderValue) {
    (
        HeaderName::try_from(name).expect("a valid header name"),
        HeaderValue::try_from(value).expect("a valid header value"),
    )
}
