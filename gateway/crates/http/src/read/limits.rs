//! The limits of a route: refused requests, and bodies that wait.

use std::borrow::Cow;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Buf as _;
use tokio::time::{Instant, Sleep, sleep};

use crate::Frontend;
use crate::body::Content;
use crate::body::delivery::{BodyError, ByteSource};
use crate::body::pieces::Pieces;
use crate::request_error::RequestError;
use crate::settings::RouteLimits;
use tidegate_access::limits::{LimitKey, Limits, RequestPermit};

/// The share of a request in the limits of its route. It counts no reference to limits that all requests share, unless its
/// answer has to wait for them.
#[derive(Debug)]
pub(crate) struct Share<'l> {
    /// The limits of bytes.
    bytes: Vec<(Cow<'l, Arc<Limits>>, LimitKey)>,
    /// The first of them that have counted the next piece already.
    counted: usize,
    /// Held until the answer's last byte has left the process: a client that takes nothing keeps its places.
    places: HeldPlaces,
    /// The start of the limits' time.
    since: Instant,
    /// The time of the request since then.
    now: Duration,
}

/// The places of a request. It has one in most cases, which needs no memory of its own.
#[derive(Debug, Default)]
struct HeldPlaces {
    first: Option<RequestPermit>,
    others: Vec<RequestPermit>,
}

impl Frontend {
    /// Counts a request by limits of its route, one after the other. Adds to its `share`, which it has if its answer has to
    /// keep to limits. `by` is the name of the key or token that admitted it, as far as that is known by now.
    ///
    /// # Errors
    /// A limit is reached, which is counted. Those before it have counted the request.
    pub(super) fn enter<'l>(
        &self,
        limits: impl Iterator<Item = &'l RouteLimits>,
        (client, started): (Option<IpAddr>, Instant),
        by: Option<&str>,
        share: &mut Option<Share<'l>>,
    ) -> Result<(), Box<RequestError>> {
        for RouteLimits(limits) in limits {
            let now = started.saturating_duration_since(self.started);
            let key = limits.key(client.into(), by);
            let entered = limits.enter(key, now);
            let place = entered.map_err(|limited| {
                self.metrics.count_limited(limited);
                Box::new(RequestError::Limited(limited))
            })?;
            if place.is_some() || limits.limits_bytes() {
                let share = share.get_or_insert_with(|| Share::new(self.started, now));
                share.add(limits, key, place);
            }
        }
        Ok(())
    }
}

impl<'l> Share<'l> {
    fn new(since: Instant, now: Duration) -> Self {
        Self {
            bytes: Vec::new(),
            counted: 0,
            places: HeldPlaces::default(),
            since,
            now,
        }
    }

    fn add(&mut self, limits: &'l Arc<Limits>, key: LimitKey, place: Option<RequestPermit>) {
        match &self.places.first {
            None => self.places.first = place,
            Some(_) => self.places.others.extend(place),
        }
        if limits.limits_bytes() {
            self.bytes.push((Cow::Borrowed(limits), key));
        }
    }

    /// Returns the most bytes that go out in one piece.
    fn piece(&self) -> usize {
        let pieces = self.bytes.iter().map(|(limits, _)| limits.piece());
        pieces.min().unwrap_or(usize::MAX)
    }

    /// Counts a piece that goes out at `now` by each of the limits.
    ///
    /// # Errors
    /// The time after which the same piece is to be tried again; limits that have counted it do not count it twice.
    fn send(&mut self, now: Duration, bytes: usize) -> Result<(), Duration> {
        while let Some((limits, key)) = self.bytes.get(self.counted) {
            limits.send(*key, now, bytes)?;
            self.counted += 1;
        }
        self.counted = 0;
        Ok(())
    }

    /// Has the places held until the last of these bytes has left.
    fn hand_over(&mut self, last: &mut Pieces) {
        if self.places.first.is_some() {
            last.hold(std::mem::take(&mut self.places));
        }
    }

    /// Returns the same with references of its own.
    fn into_owned(self) -> Share<'static> {
        let Self {
            bytes,
            counted,
            places,
            since,
            now,
        } = self;
        let own = |(limits, key): (Cow<'_, Arc<Limits>>, _)| (Cow::Owned(limits.into_owned()), key);
        Share {
            bytes: bytes.into_iter().map(own).collect(),
            counted,
            places,
            since,
            now,
        }
    }

    /// Returns an answer's content that keeps to the limits.
    ///
    /// A short one whose turn it is, with all of its bytes here, is counted now and goes out as it is.
    pub(super) fn limit(mut self, mut content: Content) -> Content {
        match &mut content {
            Content::Nothing => return content,
            Content::Ready(pieces) => {
                let bytes = pieces.remaining();
                if bytes == 0 {
                    return content;
                }
                if bytes <= self.piece() && self.send(self.now, bytes).is_ok() {
                    self.hand_over(pieces);
                    return content;
                }
            }
            Content::Delivery(delivery) if delivery.left() == 0 => return content,
            Content::Delivery(_) => {}
        }
        Content::Delivery(Box::new(LimitedContent {
            content,
            held: Pieces::default(),
            share: self.into_owned(),
            sleep: None,
        }))
    }
}

/// Content that goes out in pieces, none of them before its time.
struct LimitedContent {
    content: Content,
    /// The rest of a piece of the content that is larger than one of ours.
    held: Pieces,
    share: Share<'static>,
    sleep: Option<Pin<Box<Sleep>>>,
}

impl LimitedContent {
    /// Waits until `bytes` may go out, and counts them.
    fn poll_turn(&mut self, cx: &mut Context<'_>, bytes: usize) -> Poll<()> {
        loop {
            if let Some(sleep) = &mut self.sleep {
                ready!(sleep.as_mut().poll(cx));
                self.sleep = None;
            }
            let now = self.share.since.elapsed();
            match self.share.send(now, bytes) {
                Ok(()) => return Poll::Ready(()),
                // tokio's clock has milliseconds: a shorter wait would end at once.
                Err(wait) => {
                    self.sleep = Some(Box::pin(sleep(wait.max(Duration::from_millis(1)))));
                }
            }
        }
    }
}

impl ByteSource for LimitedContent {
    fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Pieces, BodyError>>> {
        if self.held.remaining() == 0 {
            match ready!(self.content.poll_next(cx)) {
                Some(Ok(pieces)) => self.held = pieces,
                end => return Poll::Ready(end),
            }
        }
        let most = self.share.piece();
        let fits = self.held.remaining() <= most;
        // Bytes of two pieces would be copied, and no client's charge would count the copy.
        let bytes = match fits {
            true => self.held.remaining(),
            false => self.held.chunk().len().min(most),
        };
        ready!(self.poll_turn(cx, bytes));
        let mut piece = match fits {
            true => std::mem::take(&mut self.held),
            false => Pieces::from(self.held.copy_to_bytes(bytes)),
        };
        if self.left() == 0 {
            self.share.hand_over(&mut piece);
        }
        Poll::Ready(Some(Ok(piece)))
    }

    fn left(&self) -> u64 {
        self.held.remaining() as u64 + self.content.left()
    }

    fn register(&mut self, client: Option<IpAddr>) {
        self.content.register(client);
    }

    fn waits_for_client(&self) -> bool {
        self.sleep.is_none() && self.content.waits_for_client()
    }
}

#[cfg(test)]
mod tests {
    use std::num::{NonZeroU32, NonZeroU64};

    use bytes::Bytes;
    use tidegate_access::limits::{LimitRules, ReachedLimit};
    use tidegate_plan::Client;

    use super::*;

    /// Returns the share of a client in limits, as a request has it that has just come.
    fn share(limits: &Arc<Limits>) -> Result<Share<'_>, ReachedLimit> {
        let mut share = Share::new(Instant::now(), Duration::ZERO);
        let key = limits.key(Client::Own, None);
        share.add(limits, key, limits.enter(key, Duration::ZERO)?);
        Ok(share)
    }

    /// Returns the next bytes, which come in their time.
    async fn next(content: &mut Content) -> Option<Pieces> {
        let next = std::future::poll_fn(|cx| content.poll_next(cx)).await;
        next.map(|pieces| pieces.expect("no error"))
    }

    /// A copy would be memory that the client's charge does not know.
    #[tokio::test(start_paused = true)]
    async fn bytes_that_wait_are_not_copied() {
        let limits = Arc::new(Limits::new(LimitRules {
            bytes: NonZeroU64::new(100_000),
            ..LimitRules::default()
        }));
        let source = [7_000, 1, 4_000, 20_000].map(|size| Bytes::from(vec![7; size]));
        let mut pieces = Pieces::default();
        source.iter().for_each(|piece| pieces.push(piece.clone()));
        let share = share(&limits).expect("it is the first");
        let mut content = share.limit(Content::Ready(pieces));
        let mut sent = 0;
        while let Some(piece) = next(&mut content).await {
            assert!(piece.remaining() <= limits.piece());
            let place = piece.chunk().as_ptr_range();
            let is_part = |whole: &Bytes| {
                let whole = whole.as_ptr_range();
                whole.start <= place.start && place.end <= whole.end
            };
            assert!(source.iter().any(is_part), "{sent}");
            sent += piece.remaining();
        }
        assert_eq!(sent, 31_001);
    }

    #[tokio::test(start_paused = true)]
    async fn a_short_answer_whose_turn_it_is_goes_out_as_it_is_and_counts() {
        let limits = Arc::new(Limits::new(LimitRules {
            bytes: NonZeroU64::new(100_000),
            ..LimitRules::default()
        }));
        let answer = |len: usize| {
            let share = share(&limits).expect("no limit of requests");
            share.limit(Content::Ready(Bytes::from(vec![7; len]).into()))
        };
        let long = answer(limits.piece() + 1);
        assert!(matches!(long, Content::Delivery(_)), "it goes in pieces");
        let first = answer(limits.piece());
        assert!(matches!(first, Content::Ready(_)));
        let mut second = answer(limits.piece());
        assert!(matches!(second, Content::Delivery(_)), "it waits");
        let begun = Instant::now();
        let piece = next(&mut second).await.expect("bytes");
        assert_eq!(piece.remaining(), limits.piece());
        assert!(begun.elapsed() >= Duration::from_millis(49));
    }

    /// A short answer that the second limit of two holds up is counted once by the first.
    #[tokio::test(start_paused = true)]
    async fn of_several_limits_each_counts_a_piece_once() {
        let limits = |rate: u64| {
            Arc::new(Limits::new(LimitRules {
                bytes: NonZeroU64::new(rate),
                ..LimitRules::default()
            }))
        };
        let [wide, again, narrow] = [100_000, 100_000, 50_000].map(limits);
        let mut both = share(&wide).expect("no limit of requests");
        both.add(&narrow, narrow.key(Client::Own, None), None);
        let len = narrow.piece();
        assert_eq!(both.piece(), len);
        // The narrow one has no bytes left, the wide one has.
        let key = narrow.key(Client::Own, None);
        while narrow.send(key, Duration::ZERO, len).is_ok() {}
        let mut content = both.limit(Content::Ready(Bytes::from(vec![7; len]).into()));
        let begun = Instant::now();
        let piece = next(&mut content).await.expect("bytes");
        assert_eq!(piece.remaining(), len);
        let waited = begun.elapsed();
        assert!(waited >= Duration::from_millis(49), "{waited:?}");
        // The time until it has made up for what it has counted, beside one that has counted a piece.
        let owed = |limits: &Limits, bytes: usize| {
            let key = limits.key(Client::Own, None);
            limits.send(key, Duration::ZERO, bytes)
        };
        assert_eq!(owed(&again, len), Ok(()));
        assert_eq!(owed(&wide, len), owed(&again, len));
    }

    #[tokio::test]
    async fn a_place_is_held_until_the_last_bytes_have_left() {
        let limits = Arc::new(Limits::new(LimitRules {
            connections: NonZeroU32::new(1),
            ..LimitRules::default()
        }));
        for several in [false, true] {
            let mut pieces = Pieces::from(Bytes::from_static(b"first"));
            if several {
                pieces.push(Bytes::from_static(b"last"));
            }
            let whole = pieces.remaining();
            let mut content = share(&limits)
                .expect("a place")
                .limit(Content::Ready(pieces));
            let mut sent = next(&mut content).await.expect("bytes");
            assert_eq!(content.left(), 0);
            drop(content);
            sent.advance(whole - 1);
            assert_eq!(share(&limits).err(), Some(ReachedLimit::Connections));
            drop(sent);
            assert!(share(&limits).is_ok(), "it is given back");
        }
        let cut_off = share(&limits).expect("a place");
        drop(cut_off.limit(Content::Ready(Bytes::from_static(b"bytes").into())));
        assert!(share(&limits).is_ok(), "its client has gone");
    }
}
