use proptest::prelude::*;

use super::*;

fn records() -> impl Strategy<Value = Record> {
    let headers = proptest::collection::vec(("[a-z-]{1,12}", "[ -~]{0,40}"), 0..5);
    let options = (any::<Option<u64>>(), any::<Option<String>>());
    (
        any::<(u128, u64, u64, bool)>(),
        "[!#-~]{0,40}",
        options,
        headers,
        any::<Option<(u64, u64)>>(),
    )
        .prop_map(
            |(
                (id, size, confirmed, must_confirm),
                etag,
                (modified, version_id),
                headers,
                written,
            )| {
                Record {
                    version: Arc::new(Version {
                        etag: ETag::parse(&format!("\"{etag}\"")).expect("a valid tag"),
                        size,
                        last_modified: modified.map(Timestamp),
                        version_id,
                        headers: headers
                            .into_iter()
                            .map(|(n, v)| (n.parse().expect("name"), v.parse().expect("value")))
                            .collect(),
                    }),
                    id: VersionId(id),
                    confirmed: Timestamp(confirmed),
                    must_confirm,
                    written: written.map(|(answered, took)| WriteSpan {
                        answered: Timestamp(answered),
                        took: Duration::from_millis(took),
                    }),
                }
            },
        )
}

proptest! {
    #[test]
    fn comes_back_as_it_went_in(record in records(), run: u64) {
        prop_assert_eq!(decode(&encode(&record, run)), Some((record, run)));
    }

    /// The row of an earlier release has no bounds of a write.
    #[test]
    fn rows_of_earlier_releases_are_read(record in records(), run: u64) {
        let record = Record { written: None, ..record };
        let span = WriteSpan { answered: Timestamp(1), took: Duration::ZERO };
        let with_span = Record { written: Some(span), ..record.clone() };
        let row = encode(&with_span, run);
        prop_assert_eq!(decode(&row[..row.len() - 16]), Some((record, run)));
    }

    #[test]
    fn any_bytes_decode_or_do_not(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode(&bytes);
    }

    #[test]
    fn a_seal_holds_for_its_key_and_for_every_bit(
        payload in proptest::collection::vec(any::<u8>(), 0..40),
        bit: prop::sample::Index,
    ) {
        let row = seal(b"key", &payload);
        prop_assert_eq!(unseal(b"key", &row), Some(&payload[..]));
        prop_assert_eq!(unseal(b"kex", &row), None);
        let mut flipped = row.clone();
        let bit = bit.index(row.len() * 8);
        flipped[bit / 8] ^= 1 << (bit % 8);
        prop_assert_eq!(unseal(b"key", &flipped), None);
        prop_assert_eq!(unseal(b"key", &row[..row.len() - 1]), None);
    }
}
