//! The check of every answer against its request.
//!
//! A wrong byte in a cache is served for as long as the cache lives. So this wrapper stops an
//! answer of another range or version than requested, and a body of another length than announced.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_core::Stream;
use futures_core::future::BoxFuture;

use crate::{
    Answer, Body, Condition, Content, Get, Guard, List, Listing, Origin, OriginError, OriginWrite,
    PageStart, Write, WriteOutcome,
};
use tidegate_plan::{Bucket, ByteRange, ObjectKey, OriginId, RangeSpec, Version};

/// An origin whose answers match their requests.
#[derive(Debug)]
pub(crate) struct CheckedOrigin {
    inner: Arc<dyn Origin>,
}

impl CheckedOrigin {
    /// Checks the answers of `inner`.
    pub(crate) fn new(inner: Arc<dyn Origin>) -> Self {
        Self { inner }
    }
}

impl Origin for CheckedOrigin {
    fn id(&self) -> OriginId {
        self.inner.id()
    }

    fn bucket(&self) -> Bucket {
        self.inner.bucket()
    }

    fn get(&self, request: Get) -> BoxFuture<'_, Result<Answer, OriginError>> {
        Box::pin(async move {
            let (range, condition) = (request.range, request.condition.clone());
            match self.inner.get(request).await {
                Ok(Answer::Content(content)) => check_content(range, &condition, content),
                Ok(Answer::NotModified { .. }) if !matches!(condition, Condition::NoneMatch(_)) => {
                    Err(OriginError::BadAnswer("304 to an unconditional request"))
                }
                Ok(answer) => Ok(answer),
                Err(error) => Err(check_error(range, &condition, error)),
            }
        })
    }

    fn head(&self, key: &ObjectKey) -> BoxFuture<'_, Result<Version, OriginError>> {
        self.inner.head(key)
    }

    fn peek(&self, key: &ObjectKey) -> BoxFuture<'_, Result<Option<Version>, OriginError>> {
        self.inner.peek(key)
    }

    fn list(&self, request: List) -> BoxFuture<'_, Result<Listing, OriginError>> {
        Box::pin(async move {
            let page = self.inner.list(request.clone()).await?;
            match check_page(&request, &page) {
                Ok(()) => Ok(page),
                Err(what) => Err(OriginError::BadAnswer(what)),
            }
        })
    }

    fn probe(&self) -> BoxFuture<'_, Result<(), OriginError>> {
        self.inner.probe()
    }
}

/// Compares a page with its request. A folder walk relies on the prefix, on the order, and on
/// progress.
fn check_page(asked: &List, page: &Listing) -> Result<(), &'static str> {
    let keys = || page.objects.iter().map(|object| object.key.as_str());
    let folders = || page.folders.iter().map(String::as_str);
    let prefix = asked.prefix.as_str();
    if !keys().chain(folders()).all(|key| key.starts_with(prefix)) {
        return Err("a key with another prefix than asked for");
    }
    let rolled_up =
        |folder: &str| folder[prefix.len()..].find('/') == Some(folder.len() - 1 - prefix.len());
    if !folders().all(|folder| asked.delimiter && folder.len() > prefix.len() && rolled_up(folder))
    {
        return Err("a folder that is none");
    }
    if asked.delimiter && keys().any(|key| key[prefix.len()..].contains('/')) {
        return Err("a key that belongs into a folder");
    }
    if !keys().is_sorted_by(|a, b| a < b) || !folders().is_sorted_by(|a, b| a < b) {
        return Err("keys out of order");
    }
    if let Some(PageStart::Key(after)) = &asked.after
        && keys().any(|key| key <= after.as_str())
    {
        return Err("a key from before where the page begins");
    }
    if page.next.is_some() && page.next == asked.after {
        return Err("a page that is followed by itself");
    }
    Ok(())
}

impl OriginWrite for CheckedOrigin {
    fn write(&self, write: Write) -> BoxFuture<'_, Result<WriteOutcome, OriginError>> {
        Box::pin(async move {
            let unguarded = matches!(
                write,
                Write::Put {
                    guard: Guard::None,
                    ..
                } | Write::Complete {
                    guard: Guard::None,
                    ..
                }
            );
            match self.inner.write(write).await {
                Err(OriginError::Changed) if unguarded => {
                    Err(OriginError::BadAnswer("412 to an unconditional request"))
                }
                answer => answer,
            }
        })
    }
}

/// Compares the offered bytes with the request.
fn check_content(
    asked: Option<RangeSpec>,
    condition: &Condition,
    content: Content,
) -> Result<Answer, OriginError> {
    let Content {
        version,
        range: sent,
        body,
    } = content;
    if let Condition::Match { etag, .. } = condition
        && version.etag != *etag
    {
        // Not every store honours `If-Match`; the meaning is that of a 412.
        return Err(OriginError::Changed);
    }
    let whole = ByteRange::new(0, version.size);
    let meant = match asked {
        // No range of an empty object can be satisfied; if a store still answers, it sends no
        // bytes.
        Some(_) if version.size == 0 => whole,
        Some(spec) => spec.resolve(version.size).ok_or(OriginError::BadAnswer(
            "content for a range outside of the object",
        ))?,
        None => whole,
    };
    // A store that ignores `Range` sends the whole object (RFC 9110, 14.2). If that begins with the
    // requested bytes, they are used and the rest is dropped.
    let surplus = sent != meant && sent == whole && meant.start == 0;
    if sent != meant && !surplus {
        return Err(OriginError::BadAnswer("another range than asked for"));
    }
    Ok(Answer::Content(Content {
        version,
        range: meant,
        body: Box::pin(CheckedBody {
            body: Some(body),
            left: meant.len(),
            surplus,
            verdict: None,
        }),
    }))
}

/// Replaces an error that is impossible for this request by [`OriginError::BadAnswer`].
fn check_error(asked: Option<RangeSpec>, condition: &Condition, error: OriginError) -> OriginError {
    match (&error, asked) {
        (OriginError::Changed, _) if !matches!(condition, Condition::Match { .. }) => {
            OriginError::BadAnswer("412 to an unconditional request")
        }
        (OriginError::Unsatisfiable { .. }, None) => {
            OriginError::BadAnswer("416 to a request without a range")
        }
        (OriginError::Unsatisfiable { size: Some(size) }, Some(spec))
            if spec.resolve(*size).is_some() =>
        {
            OriginError::BadAnswer("416 for a range inside of the object")
        }
        _ => error,
    }
}

/// A body of exactly the announced number of bytes.
struct CheckedBody {
    /// `None` once the body has ended, with or without error.
    body: Option<Body>,
    /// The number of bytes still to come.
    left: u64,
    /// Whether bytes after those are permitted, because the store ignored the range.
    surplus: bool,
    /// The error to return after the good bytes.
    verdict: Option<OriginError>,
}

impl CheckedBody {
    /// Cuts a frame down to the answer's bytes.
    fn take(&mut self, mut frame: Bytes) -> Bytes {
        let length = frame.len() as u64;
        if length > self.left {
            frame.truncate(usize::try_from(self.left).expect("less than a frame's length"));
            if !self.surplus {
                self.verdict = Some(OriginError::BadAnswer("more bytes than announced"));
            }
        }
        self.left -= frame.len() as u64;
        if self.verdict.is_some() || (self.left == 0 && self.surplus) {
            self.body = None;
        }
        frame
    }
}

impl Stream for CheckedBody {
    type Item = Result<Bytes, OriginError>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            let Some(body) = &mut self.body else {
                return Poll::Ready(self.verdict.take().map(Err));
            };
            let end = match ready!(body.as_mut().poll_next(cx)) {
                Some(Ok(frame)) => {
                    let frame = self.take(frame);
                    if frame.is_empty() {
                        continue;
                    }
                    return Poll::Ready(Some(Ok(frame)));
                }
                None if self.left > 0 => Some(Err(OriginError::Unavailable("cut short"))),
                end => end,
            };
            self.body = None;
            return Poll::Ready(end);
        }
    }
}

#[cfg(test)]
mod tests;
