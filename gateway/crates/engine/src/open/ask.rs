//! The question to the origin: which version a key has.

use std::sync::Arc;

use tokio::time::Instant;

use super::unconfirmed::dated;
use crate::{Core, ReadContext};
use tidegate_cache::Record;
use tidegate_origin::{Answer, Condition, Content, Get, OriginError, Priority};
use tidegate_plan::{ObjectId, RangeSpec, Timestamp, Version};

/// The version that the origin has.
pub(super) enum OriginVersion {
    /// The known version still stands.
    Same(Box<Record>),
    /// Another version, perhaps with some of its bytes.
    Version(Arc<Version>, Option<Content>),
}

/// Asks the origin which version a key has.
pub(super) async fn ask(
    core: &Core,
    source: &ReadContext,
    id: &ObjectId,
    known: Option<&Record>,
    first: Option<RangeSpec>,
    bare: bool,
    quiet: bool,
) -> Result<OriginVersion, OriginError> {
    let Some(first) = first else {
        return if bare {
            peek(source, id, known).await
        } else {
            head(source, id, known).await
        };
    };
    let get = Get {
        key: id.key.clone(),
        range: Some(first),
        condition: known.map_or(Condition::None, |record| {
            Condition::NoneMatch(record.version.etag.clone())
        }),
        priority: match quiet {
            true => Priority::Spare,
            false => Priority::Demand,
        },
    };
    core.metrics.resolves.inc();
    let sent = Instant::now();
    let answer = source.origin.get(get).await;
    if is_answered(&answer) {
        core.origin_rate(id.origin)
            .record_first_byte(sent.elapsed());
    }
    match answer {
        Ok(Answer::Content(content)) => Ok(OriginVersion::Version(
            content.version.clone(),
            Some(content),
        )),
        Ok(Answer::NotModified { last_modified }) => match known {
            Some(record) => match unmodified(record, last_modified) {
                Some(record) => Ok(OriginVersion::Same(Box::new(record))),
                None => head(source, id, None).await,
            },
            None => Err(OriginError::BadAnswer("304 to an unconditional request")),
        },
        // Shorter than the range: the object is empty, or the client asks beyond the end. S3 sends neither ETag nor
        // headers with a 416, so the version costs a second request.
        Err(OriginError::Unsatisfiable { .. }) => head(source, id, known).await,
        Err(error) => Err(error),
    }
}

/// Returns whether the store looked for the object: a refusal comes sooner, and a failure later or without a request.
fn is_answered(answer: &Result<Answer, OriginError>) -> bool {
    matches!(
        answer,
        Ok(_) | Err(OriginError::NotFound | OriginError::Unsatisfiable { .. })
    )
}

/// Returns the record that a 304 confirms. `None`: a copy of the object onto itself keeps the ETag and moves only
/// `Last-Modified`; its headers may differ.
fn unmodified(record: &Record, time: Option<Timestamp>) -> Option<Record> {
    let version = match time {
        Some(told) => dated(record, told)?,
        None => record.version.clone(),
    };
    Some(Record {
        version,
        ..record.clone()
    })
}

async fn head(
    source: &ReadContext,
    id: &ObjectId,
    known: Option<&Record>,
) -> Result<OriginVersion, OriginError> {
    let version = source.origin.head(&id.key).await?;
    Ok(compared(version, known))
}

/// Sends a HEAD whose bare 404 is believed.
async fn peek(
    source: &ReadContext,
    id: &ObjectId,
    known: Option<&Record>,
) -> Result<OriginVersion, OriginError> {
    let version = source.origin.peek(&id.key).await?;
    Ok(compared(version.ok_or(OriginError::NotFound)?, known))
}

fn compared(version: Version, known: Option<&Record>) -> OriginVersion {
    match known {
        Some(record) if *record.version == version => OriginVersion::Same(Box::new(record.clone())),
        _ => OriginVersion::Version(Arc::new(version), None),
    }
}
