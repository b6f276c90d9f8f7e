//! The first bytes of an object: how many an open requests, and the memory for them.

use crate::budget::Charge;
use crate::fetch::{FIRST_REQUEST, MAX_PART};
use crate::{Core, Error};
use tidegate_plan::{Geometry, RangeSpec};

/// Reserves memory for the first bytes, if any, and shortens their range if memory is short; a quiet caller only uses
/// memory that demand leaves free.
///
/// The memory comes before the request. In the other order, callers that wait for memory would hold requests that
/// callers with memory need.
pub(super) async fn pay(
    core: &Core,
    first: Option<RangeSpec>,
    quiet: bool,
) -> Result<Option<(RangeSpec, Charge)>, Error> {
    let Some(first) = first.map(|first| widen(first, core.geometry)) else {
        return Ok(None);
    };
    let chunk = core.geometry.chunk();
    let (from, mut length) = match first {
        RangeSpec::Bounded { first, last } => (first, last - first + 1),
        RangeSpec::Suffix(length) => return Ok(Some((first, core.budget.demand(length).await?))),
        RangeSpec::From(_) => unreachable!("an open range is bounded by now"),
    };
    let charge = loop {
        let charge = match quiet {
            true => Some(
                core.budget
                    .ahead(length)
                    .ok_or(Error::Overloaded { retry_after: None })?,
            ),
            false => core.budget.try_demand(length),
        };
        match charge {
            Some(charge) => break charge,
            None if length <= chunk => break core.budget.demand(length).await?,
            None => length = (length / 2).next_multiple_of(chunk),
        }
    };
    let last = from.saturating_add(length - 1);
    Ok(Some((RangeSpec::Bounded { first: from, last }, charge)))
}

/// Widens the client's range to whole chunks, and cuts an open range to its beginning.
///
/// A suffix grows by a chunk less a byte, so that its chunks come whole wherever the unknown end lies.
fn widen(first: RangeSpec, geometry: Geometry) -> RangeSpec {
    let chunk = geometry.chunk();
    let down = |at: u64| at - at % chunk;
    let bounded = |first: u64, length: u64| RangeSpec::Bounded {
        first,
        last: first.saturating_add(length - 1),
    };
    match first {
        RangeSpec::From(from) => bounded(down(from), FIRST_REQUEST.max(chunk)),
        RangeSpec::Bounded { first, last } => {
            let first = down(first);
            let length = (last.max(first) - first).saturating_add(1);
            let length = length.checked_next_multiple_of(chunk).unwrap_or(MAX_PART);
            bounded(first, length.min(MAX_PART.max(chunk)))
        }
        RangeSpec::Suffix(length) if length <= MAX_PART => RangeSpec::Suffix(length + chunk - 1),
        // Too much for one part: ask for the last chunk first, which also tells the size.
        RangeSpec::Suffix(_) => RangeSpec::Suffix(2 * chunk - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn spec() -> impl Strategy<Value = RangeSpec> {
        prop_oneof![
            (0u64..20 << 20, 0u64..20 << 20).prop_map(|(first, more)| RangeSpec::Bounded {
                first,
                last: first + more
            }),
            (0u64..20 << 20).prop_map(RangeSpec::From),
            (1u64..20 << 20).prop_map(RangeSpec::Suffix),
            Just(RangeSpec::Bounded {
                first: 0,
                last: u64::MAX
            }),
            Just(RangeSpec::Bounded {
                first: u64::MAX,
                last: u64::MAX
            }),
            Just(RangeSpec::From(u64::MAX)),
        ]
    }

    proptest! {
        /// Whole chunks cover at least the first wanted byte, or the last ones of a large suffix.
        #[test]
        fn what_is_asked_holds_the_first_byte_in_whole_chunks(spec in spec(), size in 1u64..30 << 20) {
            let geometry = Geometry::default();
            let chunk = geometry.chunk();
            if let (Some(wanted), Some(asked)) =
                (spec.resolve(size), widen(spec, geometry).resolve(size))
            {
                let whole = asked.start.next_multiple_of(chunk)..asked.end;
                let first = if matches!(spec, RangeSpec::Suffix(n) if n > MAX_PART) {
                    size - 1
                } else {
                    wanted.start
                };
                prop_assert!(whole.contains(&first));
                prop_assert!(asked.end == size || asked.end.is_multiple_of(chunk));
                prop_assert!(asked.len() <= MAX_PART + chunk);
            } else {
                prop_assert!(spec.resolve(size).is_none());
            }
        }
    }
}
