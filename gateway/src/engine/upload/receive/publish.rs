//! The end of what was received: it appears, or leaves nothing behind.

use std::time::Duration;

use http::header::CONTENT_TYPE;
use http::{HeaderName, HeaderValue};
use tokio::time::sleep;

use super::Receiving;
use crate::engine::upload::WriteError;
use crate::engine::upload::complete::confirm_length;
use crate::origin::write::Headers;
use crate::origin::{Guard, OriginError, Payload, Written};
use crate::plan::ETag;

/// How long an upload may take to be given up when the process ends.
const LAST: Duration = Duration::from_millis(500);

impl Receiving {
    /// Has the object appear.
    pub(super) async fn publish(&mut self) -> Result<Written, WriteError> {
        let guard = Guard::from(self.incoming.wanted.clone());
        if self.upload.is_none() {
            let payload = Payload::pieces(self.filling.take());
            let headers = self.incoming.headers.clone();
            let put = self
                .origin
                .writing()
                .put(&self.id.key, headers, payload, guard);
            return Ok(self.core.change_key(&self.id, put).await?);
        }
        self.parts.sort_by_key(|part| part.number);
        let upload = self.upload.clone().expect("looked at just above");
        let parts = self.parts.clone();
        let expected = ETag::of_parts(parts.iter().map(|part| &part.etag));
        let complete = self.origin.writing().complete(&upload, parts, guard);
        match self.core.change_key(&self.id, complete).await {
            Ok(written) => {
                self.upload = None;
                let (origin, key) = (&*self.origin, &self.id.key);
                confirm_length(origin, key, &written.etag, self.size).await?;
                Ok(written)
            }
            Err(error) if error.leaves_doubt() => self.find(error, expected).await,
            Err(error) => Err(error.into()),
        }
    }

    /// Nobody said what came of the completion: looks. What is there is as good as ours where it is the
    /// same, whoever wrote it; the upload is given up then, for it may be there still.
    async fn find(
        &self,
        error: OriginError,
        expected: Option<ETag>,
    ) -> Result<Written, WriteError> {
        let found = self.origin.head(&self.id.key).await;
        match (found, expected) {
            (Ok(version), Some(etag))
                if version.etag == etag
                    && version.size == self.size
                    && alike(&version.headers, &self.incoming.headers) =>
            {
                Ok(Written {
                    etag,
                    version_id: version.version_id,
                })
            }
            _ => Err(error.into()),
        }
    }
}

/// Whether an object was stored with these headers, and no others but the type that a store makes up.
fn alike(stored: &Headers, sent: &Headers) -> bool {
    let made_up = |(name, value): &(HeaderName, HeaderValue)| {
        *name == CONTENT_TYPE
            && value.as_bytes().ends_with(b"/octet-stream")
            && sent.iter().all(|(name, _)| *name != CONTENT_TYPE)
    };
    sent.iter().all(|header| stored.contains(header))
        && (stored.iter()).all(|header| sent.contains(header) || made_up(header))
}

impl Drop for Receiving {
    /// What is not an object by now leaves nothing behind.
    fn drop(&mut self) {
        let Some(upload) = self.upload.take() else {
            return;
        };
        let (origin, stop) = (self.origin.clone(), self.core.stop.clone());
        let mut sent = std::mem::take(&mut self.sent);
        self.core.spawn(async move {
            // A part that arrives after the abort would stay.
            sent.shutdown().await;
            let last = async {
                stop.cancelled().await;
                sleep(LAST).await;
            };
            let error = tokio::select! {
                aborted = origin.writing().abort(&upload) => match aborted {
                    Ok(()) => return,
                    Err(error) => error,
                },
                () = last => OriginError::Unavailable("we are ending"),
            };
            tracing::warn!(%error, "cannot give an upload up; the bucket's lifecycle rules may");
        });
    }
}
