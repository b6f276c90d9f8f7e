use std::sync::Mutex;
use std::time::Duration;

use futures_util::stream::{self, BoxStream, StreamExt};
use http_body::Body as _;
use http_body_util::BodyExt as _;
use proptest::prelude::*;

use super::*;
use crate::body::client_memory::ClientMemory;
use crate::body::{Body, Content};

mod copies;

/// An object in memory whose reader can be told to misbehave.
#[derive(Clone)]
pub(crate) struct Fake {
    pub(crate) bytes: Bytes,
    /// The length of frames.
    pub(crate) frame: usize,
    pub(crate) cached: bool,
    /// The bytes that each frame keeps alive; `None`: its own.
    pub(crate) pinned: Option<usize>,
    /// The reader's behaviour after this many bytes, instead of the rest.
    pub(crate) fault: Option<(usize, Fault)>,
    pub(crate) reads: Arc<Mutex<Vec<ByteRange>>>,
}

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Fault {
    Ends,
    Fails,
    Overflows,
    Hangs,
}

impl Fake {
    pub(crate) fn new(size: usize, frame: usize) -> Self {
        let bytes: Vec<u8> = (0..size).map(|at| (at * 31 % 251) as u8).collect();
        Self {
            bytes: bytes.into(),
            frame,
            cached: true,
            pinned: None,
            fault: None,
            reads: Arc::default(),
        }
    }

    pub(crate) fn all(&self) -> ByteRange {
        ByteRange::new(0, self.bytes.len() as u64)
    }
}

impl Readable for Fake {
    type Reader = BoxStream<'static, Result<Bytes, Error>>;

    fn read_at(&self, range: ByteRange) -> Self::Reader {
        self.reads.lock().expect("not poisoned").push(range);
        let [start, end] = [range.start, range.end].map(|at| usize::try_from(at).expect("small"));
        let wanted = self.bytes.slice(start..end);
        let (kept, fault) = match self.fault {
            Some((at, fault)) => (wanted.slice(..at.min(wanted.len())), Some(fault)),
            None => (wanted, None),
        };
        let frames: Vec<_> = (0..kept.len())
            .step_by(self.frame)
            .map(|at| Ok(kept.slice(at..(at + self.frame).min(kept.len()))))
            .collect();
        let tail = match fault {
            None | Some(Fault::Ends) => stream::empty().boxed(),
            Some(Fault::Fails) => stream::iter([Err(Error::Unavailable)]).boxed(),
            Some(Fault::Overflows) => stream::iter([Ok(Bytes::from(vec![0; 1 << 20]))]).boxed(),
            Some(Fault::Hangs) => stream::pending().boxed(),
        };
        stream::iter(frames).chain(tail).boxed()
    }

    fn is_cached(&self, _: ByteRange) -> bool {
        self.cached
    }

    fn pinned_bytes(&self, _: &Self::Reader, piece: &Bytes) -> usize {
        self.pinned.unwrap_or(piece.len())
    }
}

fn single(fake: &Fake, range: ByteRange, limit: usize) -> (Body, Arc<ClientMemory>) {
    let memory = Arc::new(ClientMemory::new(limit));
    let reader = fake.read_at(range);
    let delivery = Delivery::new(fake.clone(), reader, range, memory.clone());
    (unrecorded(Content::Delivery(Box::new(delivery))), memory)
}

/// Returns the body of an answer that no record counts.
fn unrecorded(content: Content) -> Body {
    Body {
        content,
        record: None,
    }
}

/// Polls the body like hyper.
async fn next_frame(body: &mut Body) -> Option<Result<Bytes, BodyError>> {
    let frame = body.frame().await?;
    Some(frame.map(|frame| frame.into_data().expect("only data").into_bytes()))
}

/// Returns the next bytes, which must come.
async fn next(body: &mut Body) -> Bytes {
    next_frame(body).await.expect("more").expect("whole")
}

async fn frames(mut body: Body) -> Result<Vec<Bytes>, BodyError> {
    let mut frames = Vec::new();
    let mut left = body.size_hint().exact().expect("known");
    while let Some(bytes) = next_frame(&mut body).await {
        let bytes = bytes?;
        left -= bytes.len() as u64;
        assert_eq!(body.size_hint().exact(), Some(left), "exact at each step");
        frames.push(bytes);
    }
    assert!(body.is_end_stream() && left == 0);
    Ok(frames)
}

#[tokio::test]
async fn hands_the_engines_bytes_on_uncopied() {
    let fake = Fake::new(600_000, 256 << 10);
    let (body, memory) = single(&fake, ByteRange::new(10, 600_000), usize::MAX);
    let frames = frames(body).await.expect("whole");
    assert_eq!(frames.concat(), fake.bytes[10..]);
    assert_eq!(frames[1].as_ptr(), fake.bytes[10 + (256 << 10)..].as_ptr());
    assert_eq!(
        memory.used(),
        599_990,
        "charged while the server holds them"
    );
    drop(frames);
    assert_eq!(memory.used(), 0);
}

/// Returns the body of a range as an answer has it.
async fn answered(fake: &Fake, range: ByteRange, memory: &Arc<ClientMemory>) -> Body {
    let content = Delivery::single(fake, range, memory).await;
    unrecorded(content.expect("its first frame"))
}

#[tokio::test]
async fn a_short_answer_that_is_ready_goes_out_at_once() {
    let fake = Fake::new((1 << 20) + 1, 256 << 10);
    let short = ByteRange::new(0, 1 << 20);
    let memory = Arc::new(ClientMemory::new(usize::MAX));
    let mut body = answered(&fake, short, &memory).await;
    assert_eq!(body.size_hint().exact(), Some(1 << 20));
    let frame = body.frame().await.expect("more").expect("whole");
    assert!(body.is_end_stream());
    let mut frame = frame.into_data().expect("only data");
    let mut slices = [std::io::IoSlice::new(&[]); 8];
    assert_eq!(frame.chunks_vectored(&mut slices), 4);
    assert_eq!(slices[3].as_ptr(), fake.bytes[3 * (256 << 10)..].as_ptr());
    assert_eq!(memory.used(), 1 << 20, "charged while the server holds it");
    frame.advance(300 << 10);
    assert_eq!(memory.used(), 768 << 10, "released as it is taken");
    assert_eq!(frame.into_bytes(), fake.bytes[300 << 10..1 << 20]);
    assert_eq!(memory.used(), 0);

    for (limit, range) in [(usize::MAX, fake.all()), (400 << 10, short)] {
        let memory = Arc::new(ClientMemory::new(limit));
        let (bytes, lengths) = taken(answered(&fake, range, &memory).await).await;
        assert_eq!(lengths[0], 256 << 10, "long, or clients hold too much");
        assert_eq!(bytes, fake.bytes[..bytes.len()]);
    }
}

#[tokio::test]
async fn a_short_answer_that_is_not_ready_follows_as_it_comes() {
    let mut fake = Fake::new(100_000, 10_000);
    fake.fault = Some((30_000, Fault::Hangs));
    let memory = Arc::new(ClientMemory::new(usize::MAX));
    let mut body = answered(&fake, fake.all(), &memory).await;
    assert_eq!(next(&mut body).await, fake.bytes[..30_000]);
    let mut cx = Context::from_waker(std::task::Waker::noop());
    assert!(Pin::new(&mut body).poll_frame(&mut cx).is_pending());
    for fault in [Fault::Ends, Fault::Fails, Fault::Overflows] {
        fake.fault = Some((30_000, fault));
        let body = answered(&fake, fake.all(), &memory).await;
        frames(body).await.expect_err("not whole");
    }
}

#[tokio::test]
async fn a_reader_that_breaks_its_word_breaks_the_body() {
    for (fault, expected) in [
        (Fault::Ends, "the object's length is not what was said"),
        (Fault::Overflows, "the object's length is not what was said"),
        (Fault::Fails, "the origin is unavailable"),
    ] {
        let mut fake = Fake::new(100_000, 30_000);
        fake.fault = Some((50_000, fault));
        let (body, _) = single(&fake, fake.all(), usize::MAX);
        let error = frames(body).await.expect_err("cut off");
        assert_eq!(error.to_string(), expected);
    }
}

#[tokio::test]
async fn several_ranges_have_headings_and_an_exact_length() {
    let fake = Fake::new(9000, 1000);
    let pieces = [
        ByteRange::new(8000, 9000),
        ByteRange::new(0, 1),
        ByteRange::new(5, 4000),
    ];
    let mut plan = Multipart::new(&pieces, 9000, None, 7);
    let parts = Multipart::new(&pieces, 9000, None, 7);
    let mut expected = Vec::new();
    while let Some((text, range)) = plan.next() {
        expected.extend_from_slice(&text);
        if let Some(range) = range {
            let [start, end] = [range.start, range.end].map(|at| usize::try_from(at).expect("ok"));
            expected.extend_from_slice(&fake.bytes[start..end]);
        }
    }
    let memory = Arc::new(ClientMemory::new(usize::MAX));
    let content = Delivery::several(&fake, pieces[0], parts, &memory).await;
    let body = unrecorded(content.expect("its first frame"));
    assert_eq!(body.size_hint().exact(), Some(expected.len() as u64));
    assert_eq!(frames(body).await.expect("whole").concat(), expected);
    assert_eq!(
        *fake.reads.lock().expect("not poisoned"),
        pieces,
        "each read once, in order"
    );
}

/// Reads the body like a client that releases each frame before it polls the next.
async fn taken(mut body: Body) -> (Vec<u8>, Vec<usize>) {
    let (mut bytes, mut lengths) = (Vec::new(), Vec::new());
    while let Some(frame) = next_frame(&mut body).await {
        let frame = frame.expect("whole");
        bytes.extend_from_slice(&frame);
        lengths.push(frame.len());
    }
    (bytes, lengths)
}

proptest! {
    #[test]
    fn bytes_arrive_whole_whatever_the_weather(
        size in 1usize..200_000,
        frame in 1usize..90_000,
        limit in 0usize..100_000,
        cached: bool,
        gathers: bool,
        waits in prop::collection::vec(0u64..4000, 1..20),
        ends in (0.0..1.0, 0.0..1.0),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime");
        let mut fake = Fake::new(size, frame.max(size / 50));
        fake.cached = cached;
        let cut = |part: f64| ((size as f64) * part) as u64;
        let range = ByteRange::new(cut(ends.0).min(cut(ends.1)), cut(ends.0).max(cut(ends.1)) + 1);
        let (mut body, memory) = single(&fake, range, limit);
        let sent = runtime.block_on(async {
            if gathers {
                body = answered(&fake, range, &memory).await;
            }
            let (mut sent, mut waits) = (Vec::new(), waits.iter().cycle());
            while let Some(frame) = next_frame(&mut body).await {
                sent.extend_from_slice(&frame.expect("whole"));
                let wait = waits.next().copied().unwrap_or(0);
                tokio::time::advance(Duration::from_millis(wait)).await;
            }
            sent
        });
        prop_assert_eq!(memory.used(), 0);
        prop_assert_eq!(&sent[..], &fake.bytes[range.start as usize..range.end as usize]);
    }
}
