//! The speed of an origin: the first byte, one connection, and as many as bring more.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, bail};
use futures_util::StreamExt as _;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::Progress;
use tidegate_origin::cause::run_for;
use tidegate_origin::{Answer, Body, Cause, Condition, Get, Origin, OriginError, Priority};
use tidegate_plan::diagnosis::{self, Rate};
use tidegate_plan::readahead::PART_BOUNDS;
use tidegate_plan::{ObjectKey, RangeSpec};

/// Objects from this size on are large enough to measure rates with.
const LARGE_OBJECT: u64 = 64 << 20;

/// The numbers of connections that are tried, as long as more bring more.
const CONNECTIONS: [u32; 6] = [1, 2, 4, 8, 16, 32];

/// The least growth: a step below it has brought nothing.
const MIN_GROWTH: f64 = 1.1;

/// The steps in a row without growth after which it stops: one may be bad luck.
const MAX_FLAT_STEPS: usize = 2;

/// The most bytes that one step fetches, however fast the origin is.
const MAX_STEP_BYTES: u64 = 1 << 30;

/// The measurements of the first byte, not counting the first one, which has to connect.
const FIRST_BYTE_SAMPLES: u64 = 15;

/// Measures an origin with the first large one of `keys`, or else the largest.
///
/// # Errors
/// If it does not answer, or there is no object to measure it with.
pub(super) async fn measure(
    origin: &Arc<dyn Origin>,
    (name, limit): (&str, u32),
    keys: &[ObjectKey],
    time: Duration,
    progress: &mut Progress,
) -> anyhow::Result<diagnosis::MeasuredOrigin> {
    let asked = Instant::now();
    progress.begin(format_args!("origin {name:?}: asking for its bucket"));
    let answered = run_for(Cause::Probe, origin.probe()).await;
    let answered = answered.map(|()| format!("{:.1} ms", millis(asked.elapsed())));
    let answered = progress.end(answered)?;
    if keys.is_empty() {
        bail!("it answers in {answered}; to measure its rate name a large object with --object");
    }
    let object = Arc::new(Object::choose(origin, keys, time).await?);

    progress.begin(format_args!(
        "origin {name:?}: first byte of {:?}",
        object.key.as_str()
    ));
    let first_byte = object.first_byte().await;
    let shown = first_byte
        .clone()
        .map(|time| format!("{:.1} ms", millis(time)));
    progress.end(shown)?;
    let mut rates = Vec::new();
    let mut flat = 0;
    for connections in CONNECTIONS.into_iter().filter(|n| *n <= limit.max(1)) {
        let s = if connections == 1 { "" } else { "s" };
        progress.begin(format_args!("origin {name:?}: {connections} connection{s}"));
        let rate = match progress.end(object.rate(connections).await) {
            Ok(rate) => rate,
            // The results with fewer connections still count.
            Err(_) if !rates.is_empty() => break,
            Err(error) => return Err(error),
        };
        let best = rates.iter().map(|(_, rate): &(u32, Rate)| rate.0);
        let grew = rate.0 >= best.fold(0.0, f64::max) * MIN_GROWTH;
        flat = if grew { 0 } else { flat + 1 };
        rates.push((connections, rate));
        if flat == MAX_FLAT_STEPS {
            break;
        }
    }
    Ok(diagnosis::MeasuredOrigin {
        name: name.to_owned(),
        first_byte: first_byte?,
        rates,
    })
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// The object that an origin is measured with.
#[derive(Debug)]
struct Object {
    origin: Arc<dyn Origin>,
    key: ObjectKey,
    size: u64,
    /// This version and no other, asked for as the gateway asks: keys without `s3:GetObjectVersion` are found out here.
    version: Condition,
    time: Duration,
}

impl Object {
    async fn choose(
        origin: &Arc<dyn Origin>,
        keys: &[ObjectKey],
        time: Duration,
    ) -> anyhow::Result<Self> {
        let mut best: Option<Self> = None;
        for key in keys {
            let version = run_for(Cause::Probe, origin.head(key)).await;
            let version = version.with_context(|| format!("the object {:?}", key.as_str()))?;
            if best.as_ref().is_none_or(|best| version.size > best.size) {
                best = Some(Self {
                    origin: Arc::clone(origin),
                    key: key.clone(),
                    size: version.size,
                    version: Condition::Match {
                        etag: version.etag.clone(),
                        version_id: version.version_id.clone(),
                    },
                    time,
                });
            }
            if version.size >= LARGE_OBJECT {
                break;
            }
        }
        let best = best.context("no object is named")?;
        if best.size == 0 {
            bail!("the object {:?} is empty", best.key.as_str());
        }
        Ok(best)
    }

    /// Gets the bytes `first..first + length`, fewer at the object's end.
    async fn get(&self, first: u64, length: u64) -> Result<Body, OriginError> {
        let request = Get {
            key: self.key.clone(),
            range: Some(RangeSpec::Bounded {
                first,
                last: (first + length).min(self.size) - 1,
            }),
            condition: self.version.clone(),
            priority: Priority::Demand,
        };
        // No reader takes these bytes.
        match run_for(Cause::Probe, self.origin.get(request)).await? {
            Answer::Content(content) => Ok(content.body),
            Answer::NotModified { .. } => Err(OriginError::BadAnswer("304 to an If-Match")),
        }
    }

    /// Returns the median time to a first byte, at several places in the object.
    async fn first_byte(&self) -> Result<Duration, OriginError> {
        let deadline = Instant::now() + self.time;
        let mut times = Vec::new();
        for nth in 0..=FIRST_BYTE_SAMPLES {
            let first = self.size / (FIRST_BYTE_SAMPLES + 1) * nth;
            let asked = Instant::now();
            let mut body = self.get(first, PART_BOUNDS.0).await?;
            body.next().await.transpose()?;
            times.push(asked.elapsed());
            if Instant::now() >= deadline && times.len() > 1 {
                break;
            }
        }
        let counted = &mut times[1..];
        counted.sort_unstable();
        Ok(counted[counted.len() / 2])
    }

    /// Returns the rate of so many connections together.
    async fn rate(self: &Arc<Self>, connections: u32) -> anyhow::Result<Rate> {
        let part = (self.size / u64::from(connections)).clamp(PART_BOUNDS.0, PART_BOUNDS.1);
        let counts = Arc::new(Counts::default());
        let began = Instant::now();
        let mut fetching = JoinSet::new();
        for _ in 0..connections {
            let (object, counts) = (Arc::clone(self), Arc::clone(&counts));
            fetching.spawn(async move { object.fetch(part, &counts).await });
        }
        // Even if the time is short, a rate needs a byte. The origin's own deadlines bound that
        // wait.
        let over = async {
            sleep_until(began + self.time).await;
            counts.first.notified().await;
        };
        tokio::pin!(over);
        loop {
            tokio::select! {
                () = &mut over => break,
                ended = fetching.join_next() => match ended {
                    Some(ended) => ended??,
                    None => break,
                },
            }
        }
        let bytes = counts.bytes.load(Ordering::Relaxed);
        Ok(Rate::new(bytes, began.elapsed()))
    }

    /// Fetches one part after the other, from the start again after the last.
    async fn fetch(&self, part: u64, counts: &Counts) -> Result<(), OriginError> {
        let parts = self.size.div_ceil(part);
        while counts.bytes.load(Ordering::Relaxed) < MAX_STEP_BYTES {
            let nth = counts.parts.fetch_add(1, Ordering::Relaxed) % parts;
            let mut body = self.get(nth * part, part).await?;
            while let Some(piece) = body.next().await {
                let length = piece?.len() as u64;
                if counts.bytes.fetch_add(length, Ordering::Relaxed) == 0 {
                    counts.first.notify_one();
                }
            }
        }
        Ok(())
    }
}

/// The state that the connections of one step share.
#[derive(Debug, Default)]
struct Counts {
    parts: AtomicU64,
    bytes: AtomicU64,
    /// Notified of the first byte.
    first: Notify,
}

#[cfg(test)]
mod tests {
    use tidegate_origin::FakeOrigin;

    use super::*;

    #[tokio::test]
    async fn a_versioned_bucket_is_asked_by_the_id_of_its_version() {
        let fake = FakeOrigin::new().with_versions();
        let stored = fake.put("large", vec![7; 1 << 20]);
        let origin: Arc<dyn Origin> = Arc::new(fake.clone());
        let key = ObjectKey::new("large").expect("a key");
        let mut progress = Progress::new(std::io::sink());
        let time = Duration::from_millis(1);
        let measured = measure(&origin, ("main", 1), &[key], time, &mut progress).await;
        measured.expect("it answers");
        let asked = fake.log();
        assert!(!asked.is_empty());
        for get in asked {
            let version_id = stored.version_id.clone();
            assert!(version_id.is_some(), "the bucket keeps versions");
            let etag = stored.etag.clone();
            assert_eq!(get.condition, Condition::Match { etag, version_id });
        }
    }
}
