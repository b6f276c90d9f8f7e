//! The duties of a bucket towards a writer of parts or copies.

use tidegate_origin::{CompletedPart, Guard, OriginError, PartSums, Payload, Sums};
use tidegate_plan::{ByteRange, ETag};

use crate::{Lack, MIB, Subject, damaged, headers, name, sample, source};

/// Numbers with gaps, a part sent again, and a small last one.
pub(super) async fn puts_parts_together(subject: &Subject) {
    let upload = subject.begin("parts/object").await;
    let (one, two, last) = (sample(3, 5 * MIB), sample(4, 5 * MIB), sample(5, 17));
    let stale = subject.part(&upload, 1, &two).await;
    let parts = [
        subject.part(&upload, 1, &one).await,
        subject.part(&upload, 5, &two).await,
        subject.part(&upload, 9, &last).await,
    ];
    let writing = subject.origin.writing();
    let uploads = writing.uploads(&upload.key).await.expect("a list");
    assert_eq!(uploads, std::slice::from_ref(&upload));
    assert_eq!(
        subject.origin.head(&upload.key).await,
        Err(OriginError::NotFound),
        "no object before its end"
    );
    if !subject.lacks.contains(&Lack::PartTags) {
        let wrong = vec![stale, parts[1].clone(), parts[2].clone()];
        let refused = writing.complete(&upload, wrong, Guard::None).await;
        assert_eq!(refused, Err(OriginError::InvalidPart));
    }
    let done = writing
        .complete(&upload, parts.to_vec(), Guard::Absent)
        .await;
    let (version, bytes) = subject.read("parts/object").await;
    assert_eq!(version.etag, done.expect("completed").etag);
    assert!(bytes == [one, two, last].concat());
    for (name, value) in headers() {
        assert_eq!(version.header(&name), value.to_str().ok(), "{name}");
    }
    let again = writing.complete(&upload, parts.to_vec(), Guard::None).await;
    assert_eq!(again, Err(OriginError::NoSuchUpload));
    assert_eq!(writing.uploads(&upload.key).await, Ok(vec![]));
}

/// Checks each part; a completion that lists parts without their checksums is refused.
pub(super) async fn puts_parts_of_a_named_checksum_together(subject: &Subject) {
    let upload = subject.begin_with("named", PartSums::Crc32c).await;
    assert_eq!(upload.sums, PartSums::Crc32c);
    let writing = subject.origin.writing();
    let pieces = [sample(3, 5 * MIB), sample(5, 17)];
    let mut parts = Vec::new();
    for (number, bytes) in (1..).zip(&pieces) {
        let (number, etag) = subject.part(&upload, number, bytes).await;
        parts.push(CompletedPart {
            number,
            etag,
            crc32c: Some(Sums::of(bytes).crc32c),
        });
    }
    if !subject.lacks.contains(&Lack::PartChecksums) {
        let refused = writing.part(&upload, 1, damaged()).await;
        assert_eq!(refused, Err(OriginError::Damaged));
        let bare = parts.iter().map(|it| (it.number, it.etag.clone()));
        let refused = writing.complete(&upload, bare, Guard::None).await;
        assert_eq!(refused, Err(OriginError::InvalidPart));
    }
    let done = writing.complete(&upload, parts, Guard::Absent).await;
    let (version, bytes) = subject.read("named").await;
    assert_eq!(version.etag, done.expect("completed").etag);
    assert!(bytes == pieces.concat());
}

pub(super) async fn guards_what_is_completed(subject: &Subject) {
    let before = subject
        .put("guard", "before", Guard::None)
        .await
        .expect("put");
    let upload = subject.begin("guard").await;
    let parts = vec![subject.part(&upload, 1, &sample(6, 100)).await];
    let writing = subject.origin.writing();
    let other = ETag::parse("\"other\"").expect("a tag");
    for guard in [Guard::Absent, Guard::Same(other)] {
        let refused = writing.complete(&upload, parts.clone(), guard).await;
        assert_eq!(refused, Err(OriginError::Changed));
    }
    assert_eq!(subject.read("guard").await.1, b"before");
    let done = writing.complete(&upload, parts, Guard::Same(before)).await;
    assert!(done.is_ok(), "a refusal leaves the upload: {done:?}");
    assert!(subject.read("guard").await.1 == sample(6, 100));
}

pub(super) async fn copies_parts_of_one_version(subject: &Subject) {
    let bytes = sample(7, 6 * MIB);
    let etag = subject
        .put("from/a b", bytes.clone(), Guard::None)
        .await
        .expect("put");
    let upload = subject.begin("copied").await;
    let writing = subject.origin.writing();
    let range = ByteRange::new(100, 100 + 5 * MIB as u64);
    let copied = writing
        .copy_part(&upload, 1, source("from/a b", &etag), range)
        .await;
    let parts = vec![
        (1, copied.expect("a part")),
        subject.part(&upload, 2, &sample(8, 10)).await,
    ];
    let other = ETag::parse("\"other\"").expect("a tag");
    for wrong in [source("from/a b", &other), source("from/none", &etag)] {
        let refused = writing.copy_part(&upload, 3, wrong, range).await;
        assert_eq!(refused, Err(OriginError::Changed));
    }
    writing
        .complete(&upload, parts, Guard::None)
        .await
        .expect("completed");
    let whole = [&bytes[100..100 + 5 * MIB], &sample(8, 10)].concat();
    assert!(subject.read("copied").await.1 == whole);
}

pub(super) async fn copies_whole_objects(subject: &Subject) {
    let etag = subject.put("one", "bytes", Guard::None).await.expect("put");
    let writing = subject.origin.writing();
    let copy = writing
        .copy(source("one", &etag), (&name("two"), Guard::None), None)
        .await;
    let (version, bytes) = subject.read("two").await;
    assert_eq!(
        (version.etag.clone(), &bytes[..]),
        (copy.expect("a copy").etag, &b"bytes"[..])
    );
    assert_eq!(
        version.headers.len(),
        headers().len(),
        "{:?}",
        version.headers
    );
    let other = vec![(
        http::header::CONTENT_TYPE,
        "text/plain".parse().expect("a value"),
    )];
    let mended = writing
        .copy(
            source("two", &version.etag),
            (&name("two"), Guard::None),
            Some(other),
        )
        .await;
    mended.expect("mended");
    let (version, bytes) = subject.read("two").await;
    assert_eq!(
        version.header(&http::header::CONTENT_TYPE),
        Some("text/plain")
    );
    assert_eq!(bytes, b"bytes");
    let wrong = ETag::parse("\"other\"").expect("a tag");
    for source in [source("one", &wrong), source("none", &etag)] {
        let refused = writing
            .copy(source, (&name("three"), Guard::None), None)
            .await;
        assert_eq!(refused, Err(OriginError::Changed));
    }
}

pub(super) async fn gives_uploads_up(subject: &Subject) {
    let upload = subject.begin("given/up").await;
    subject.part(&upload, 1, &sample(9, 10)).await;
    let writing = subject.origin.writing();
    writing.abort(&upload).await.expect("given up");
    writing
        .abort(&upload)
        .await
        .expect("which is no error twice");
    assert_eq!(writing.uploads(&upload.key).await, Ok(vec![]));
    let late = writing.part(&upload, 2, Payload::from(sample(9, 10))).await;
    assert_eq!(late, Err(OriginError::NoSuchUpload));
}
