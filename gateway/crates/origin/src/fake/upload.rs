//! Writes as in S3: whole objects, and objects in parts.
//!
//! Tags of parts follow from their bytes, and an object's tag from the tags of its parts and their number, as in S3. An
//! upload without parts is refused, and so is a part that is too small and not the last.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use futures_util::StreamExt;
use tokio::time::sleep;

use super::body::RunningRequest;
use super::{FakeOrigin, Fault};
use crate::write::Headers;
use crate::{
    CompletedPart, CopySource, Guard, OriginError, PartSums, Payload, Sums, Upload, Write,
    WriteOutcome, WrittenVersion,
};
use tidegate_plan::{ByteRange, ETag, ObjectKey, Version};

/// An upload under way.
#[derive(Debug, Clone)]
pub(super) struct FakeUpload {
    pub(super) key: ObjectKey,
    headers: Headers,
    pub(super) sums: PartSums,
    parts: BTreeMap<u32, UploadedPart>,
}

#[derive(Debug, Clone)]
struct UploadedPart {
    bytes: Bytes,
    etag: ETag,
    /// `None` for a copied part.
    crc32c: Option<u32>,
}

impl FakeUpload {
    /// Checks what stores require after a checksum was named: AWS numbers without gaps (500), and MinIO a checksum with
    /// each listed part and no copied part.
    fn compare_sums(&self, parts: &[CompletedPart]) -> Result<(), OriginError> {
        if !parts.iter().zip(1..).all(|(part, at)| part.number == at) {
            return Err(OriginError::Unavailable("server error"));
        }
        let sum = |part: &CompletedPart| self.parts.get(&part.number)?.crc32c;
        let alike = |part: &CompletedPart| sum(part).is_some() && sum(part) == part.crc32c;
        match parts.iter().all(alike) {
            true => Ok(()),
            false => Err(OriginError::InvalidPart),
        }
    }
}

/// The record of writes, and the settings of the store.
impl FakeOrigin {
    /// Returns the kinds of all write requests so far, in order.
    #[must_use]
    pub fn writes(&self) -> Vec<&'static str> {
        self.state().writes_log.clone()
    }

    /// Returns the number of write requests of this kind.
    #[must_use]
    pub fn count(&self, kind: &str) -> usize {
        self.writes().iter().filter(|write| **write == kind).count()
    }

    /// Returns the number of payload bytes that arrived.
    #[must_use]
    pub fn arrived(&self) -> u64 {
        self.0.counts.arrived.load(Ordering::SeqCst)
    }

    /// Forgets all uploads under way, as a clean-up job does.
    pub fn forget_uploads(&self) {
        self.state().uploads.clear();
    }

    /// Returns the keys of all uploads under way.
    #[must_use]
    pub fn uploads_under_way(&self) -> Vec<String> {
        let state = self.state();
        let keys = state.uploads.values().map(|begun| begun.key.as_str());
        keys.map(str::to_owned).collect()
    }

    /// Returns the keys of all objects, in order.
    #[must_use]
    pub fn keys(&self) -> Vec<String> {
        let state = self.state();
        let there = state
            .objects
            .iter()
            .filter(|(_, history)| history.last().is_some_and(|stored| stored.bytes.is_some()));
        let mut keys: Vec<_> = there.map(|(key, _)| key.as_str().to_owned()).collect();
        keys.sort();
        keys
    }

    /// Returns the number of stored versions of all keys, delete markers included.
    #[must_use]
    pub fn kept(&self) -> usize {
        self.state().objects.values().map(Vec::len).sum()
    }

    /// Returns the present object of this key.
    ///
    /// # Panics
    /// The key is invalid: a mistake of the test.
    #[must_use]
    pub fn object(&self, key: &str) -> Option<(Arc<Version>, Bytes)> {
        let key = ObjectKey::new(key).expect("a valid key");
        let stored = self.current(&key)?;
        Some((stored.version, stored.bytes?))
    }

    /// Accepts parts of this size that are not the last, although S3 requires 5 MiB.
    #[must_use]
    pub fn with_min_part(self, bytes: u64) -> Self {
        self.state().min_part = Some(bytes);
        self
    }

    /// Gives parts, their objects and copies tags that do not follow from bytes, as S3 does with KMS keys.
    pub fn hide_tags(&self) {
        self.state().hidden_tags = true;
    }

    /// Accepts only parts of one size in an upload and a smaller last one, as R2 does.
    pub fn want_equal_parts(&self) {
        self.state().equal_parts = true;
    }
}

impl FakeOrigin {
    pub(super) async fn carry_out(&self, write: Write) -> Result<WriteOutcome, OriginError> {
        let _running = RunningRequest::new(self.0.counts.running.clone());
        self.came_in(write.kind());
        let faults = self.apply().await?;
        if faults.contains(&Fault::RefuseConditions) && write.is_guarded() {
            return Err(OriginError::Unsupported);
        }
        let outcome = self.apply_write(write, &faults).await;
        let lost = match outcome {
            Ok(_) => Fault::LoseAnswer,
            Err(_) => Fault::LoseRefusal,
        };
        if faults.contains(&lost) {
            return Err(OriginError::Unavailable("connection lost"));
        }
        outcome
    }

    async fn apply_write(
        &self,
        write: Write,
        faults: &[Fault],
    ) -> Result<WriteOutcome, OriginError> {
        match write {
            Write::Put {
                key,
                headers,
                payload,
                guard,
            } => {
                let bytes = self.receive(&payload, faults).await?;
                let etag = tag(&bytes);
                self.install(&key, bytes, etag, headers, &guard)
            }
            Write::Begin { key, headers, sums } => Ok(self.begin(key, headers, sums)),
            Write::Part {
                upload,
                number,
                payload,
            } => {
                let bytes = self.receive(&payload, faults).await?;
                self.keep(&upload, number, bytes, Some(payload.sums().crc32c))
            }
            Write::CopyPart {
                upload,
                number,
                source,
                range,
            } => {
                let (_, bytes) = self.source(&source)?;
                let range = range.unwrap_or(ByteRange::new(0, bytes.len() as u64));
                let bytes = cut(&bytes, range).ok_or(OriginError::BadAnswer("beyond the end"))?;
                self.keep(&upload, number, bytes, None)
            }
            Write::Complete {
                upload,
                parts,
                guard,
            } => {
                let lacks = usize::from(faults.contains(&Fault::Damage));
                self.complete(&upload, &parts, &guard, lacks)
            }
            write => self.apply_without_bytes(write, faults),
        }
    }

    async fn receive(&self, payload: &Payload, faults: &[Fault]) -> Result<Bytes, OriginError> {
        let rate = faults.iter().find_map(|fault| match fault {
            Fault::Rate(rate) => Some(*rate as f64),
            _ => None,
        });
        let mut frames = payload.open();
        let mut bytes = Vec::new();
        while let Some(frame) = frames.next().await {
            let frame = frame?;
            for fault in faults {
                match fault {
                    Fault::Reset(after) if bytes.len() as u64 >= *after => {
                        return Err(OriginError::Unavailable("connection lost"));
                    }
                    Fault::Stall(after) if bytes.len() as u64 >= *after => {
                        std::future::pending::<()>().await;
                    }
                    _ => {}
                }
            }
            if let Some(rate) = rate {
                sleep(std::time::Duration::from_secs_f64(
                    frame.len() as f64 / rate,
                ))
                .await;
            }
            let arrived = frame.len() as u64;
            self.0.counts.arrived.fetch_add(arrived, Ordering::SeqCst);
            bytes.extend_from_slice(&frame);
        }
        if bytes.len() as u64 != payload.len() {
            return Err(OriginError::Unavailable("connection lost"));
        }
        if Sums::of(&bytes) != payload.sums() || faults.contains(&Fault::Damage) {
            return Err(OriginError::Damaged);
        }
        Ok(bytes.into())
    }

    fn begin(&self, key: ObjectKey, headers: Headers, sums: PartSums) -> WriteOutcome {
        let mut state = self.state();
        state.begun += 1;
        let id = format!("upload-{}", state.begun);
        let begun = FakeUpload {
            key: key.clone(),
            headers,
            sums,
            parts: BTreeMap::new(),
        };
        state.uploads.insert(id.clone(), begun);
        WriteOutcome::Upload(Upload { key, id, sums })
    }

    fn keep(
        &self,
        upload: &Upload,
        number: u32,
        bytes: Bytes,
        crc32c: Option<u32>,
    ) -> Result<WriteOutcome, OriginError> {
        if !(1..=10_000).contains(&number) {
            return Err(OriginError::BadAnswer("no part has this number"));
        }
        let mut state = self.state();
        let etag = match state.hidden_tags {
            true => opaque(state.writes_log.len(), ""),
            false => tag(&bytes),
        };
        let begun = state.uploads.get_mut(&upload.id);
        let begun = begun.filter(|begun| begun.key == upload.key);
        let begun = begun.ok_or(OriginError::NoSuchUpload)?;
        let kept = UploadedPart {
            bytes,
            etag: etag.clone(),
            crc32c,
        };
        begun.parts.insert(number, kept);
        Ok(WriteOutcome::Part(etag))
    }

    fn complete(
        &self,
        upload: &Upload,
        parts: &[CompletedPart],
        guard: &Guard,
        lacks: usize,
    ) -> Result<WriteOutcome, OriginError> {
        // MinIO checks the condition first: a completed upload is then 412.
        self.hold(&upload.key, guard)?;
        let (begun, min_part, equal) = {
            let state = self.state();
            let begun = state.uploads.get(&upload.id);
            let min_part = state.min_part.unwrap_or(crate::write::MIN_PART);
            let begun = begun.ok_or(OriginError::NoSuchUpload)?.clone();
            (begun, min_part, state.equal_parts)
        };
        let mut bytes = Vec::new();
        let ascending = parts.is_sorted_by(|a, b| a.number < b.number);
        if parts.is_empty() || !ascending {
            return Err(OriginError::BadAnswer("no parts, or out of order"));
        }
        if begun.sums == PartSums::Crc32c {
            begun.compare_sums(parts)?;
        }
        let mut first = None;
        for (at, listed) in parts.iter().enumerate() {
            let kept = begun.parts.get(&listed.number);
            let kept = kept.filter(|kept| kept.etag == listed.etag);
            let kept = kept.ok_or(OriginError::InvalidPart)?;
            let part = &kept.bytes;
            let first = *first.get_or_insert(part.len());
            let is_last = at + 1 == parts.len();
            if equal && (part.len() > first || part.len() < first && !is_last) {
                return Err(OriginError::InvalidPart);
            }
            if at + 1 < parts.len() && (part.len() as u64) < min_part {
                return Err(OriginError::BadAnswer("a part is too small"));
            }
            bytes.extend_from_slice(part);
        }
        bytes.truncate(bytes.len() - lacks);
        let etag = match self.hidden_tags() {
            (true, count) => opaque(count, &format!("-{}", parts.len())),
            (false, _) => {
                ETag::of_parts(parts.iter().map(|part| &part.etag)).expect("tags of ours")
            }
        };
        let wrote = self.install(&begun.key, bytes.into(), etag, begun.headers, guard)?;
        self.state().uploads.remove(&upload.id);
        Ok(wrote)
    }

    /// Returns whether tags do not follow from bytes, and the number of writes so far.
    pub(super) fn hidden_tags(&self) -> (bool, usize) {
        let state = self.state();
        (state.hidden_tags, state.writes_log.len())
    }

    pub(super) fn source(&self, source: &CopySource) -> Result<(Arc<Version>, Bytes), OriginError> {
        let stored = self.current(&source.key).ok_or(OriginError::Changed)?;
        if !stored.version.etag.strong_eq(&source.etag) {
            return Err(OriginError::Changed);
        }
        Ok((stored.version, stored.bytes.expect("a current object")))
    }

    pub(super) fn hold(&self, key: &ObjectKey, guard: &Guard) -> Result<(), OriginError> {
        let current = self.current(key).map(|stored| stored.version.etag.clone());
        match (guard, &current) {
            (Guard::None, _) | (Guard::Absent, None) => Ok(()),
            (Guard::Same(wanted), Some(etag)) if etag.strong_eq(wanted) => Ok(()),
            _ => Err(OriginError::Changed),
        }
    }

    pub(super) fn install(
        &self,
        key: &ObjectKey,
        bytes: Bytes,
        etag: ETag,
        headers: Headers,
        guard: &Guard,
    ) -> Result<WriteOutcome, OriginError> {
        self.hold(key, guard)?;
        let version = Version {
            etag,
            size: bytes.len() as u64,
            last_modified: None,
            version_id: None,
            headers,
        };
        let version = self.store(key.as_str(), version, Some(bytes));
        Ok(WriteOutcome::Object(WrittenVersion {
            etag: version.etag.clone(),
            version_id: version.version_id.clone(),
            answered: version.last_modified,
        }))
    }
}

/// Returns a tag that no bytes have.
pub(super) fn opaque(number: usize, parts: &str) -> ETag {
    ETag::parse(&format!("\"opaque-{number}{parts}\"")).expect("a valid tag")
}

pub(super) fn tag(bytes: &[u8]) -> ETag {
    ETag::of_bytes([bytes])
}

fn cut(bytes: &Bytes, range: ByteRange) -> Option<Bytes> {
    let start = usize::try_from(range.start).ok()?;
    let end = usize::try_from(range.end).ok()?;
    (start < end && end <= bytes.len()).then(|| bytes.slice(start..end))
}
