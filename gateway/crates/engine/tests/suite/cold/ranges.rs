//! The first read of an object by a range: a suffix, a bounded one, an open one, and one beyond its end.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_suffix_of_an_unknown_object_is_one_request() {
    for size in [1, CHUNK, CHUNK + 1, 3 * MIB + 17] {
        for length in [1, 100, CHUNK, CHUNK + 1, MIB] {
            let world = World::plain();
            let bytes = sample(1, size);
            world.bucket.put(KEY, bytes.clone());
            let got = world.range(KEY, RangeSpec::Suffix(length)).await;
            let start = size.saturating_sub(length);
            same(
                &got.expect("read"),
                &slice(&bytes, ByteRange::new(start, size)),
            );
            assert_eq!(world.asked(), (1, 0), "suffix {length} of {size}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_suffix_larger_than_a_part_is_right_too() {
    let world = World::plain();
    let bytes = sample(1, 12 * MIB + 5);
    world.bucket.put(KEY, bytes.clone());
    let got = world.range(KEY, RangeSpec::Suffix(10 * MIB)).await;
    same(&got.expect("read"), &bytes.slice((2 << 20) + 5..));
    assert_eq!(world.bucket.heads(), 0);
    assert!(world.bucket.bytes() <= 11 * MIB, "{}", world.bucket.bytes());
}

#[tokio::test(start_paused = true)]
async fn a_bounded_range_of_an_unknown_object_is_one_request() {
    let size = 20 * MIB + 3;
    let bytes = sample(1, size);
    for (start, end) in [
        (0, 1),
        (CHUNK - 1, CHUNK + 1),
        (5 * MIB + 7, 6 * MIB),
        (size - 1, size),
    ] {
        let world = World::plain();
        world.bucket.put(KEY, bytes.clone());
        let spec = RangeSpec::Bounded {
            first: start,
            last: end - 1,
        };
        let got = world.range(KEY, spec).await.expect("read");
        same(&got, &slice(&bytes, ByteRange::new(start, end)));
        assert_eq!(world.asked(), (1, 0), "{start}..{end}");
        assert!(world.bucket.bytes() <= end - start + 2 * CHUNK);
    }
}

#[tokio::test(start_paused = true)]
async fn an_open_range_far_inside_is_one_request_for_its_first_bytes() {
    let size = 20 * MIB + 3;
    let bytes = sample(1, size);
    let world = World::plain();
    world.bucket.put(KEY, bytes.clone());
    let object = world
        .open(KEY, first(RangeSpec::From(7 * MIB + 1)))
        .await
        .expect("open");
    let mut reader = object.read_at(ByteRange::new(7 * MIB + 1, size));
    let got = take(&mut reader, 100).await;
    same(&got, &bytes.slice((7 << 20) + 1..(7 << 20) + 1 + got.len()));
    assert_eq!(world.asked(), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn ranges_at_the_end_of_the_number_line_are_beyond_every_object() {
    let world = World::plain();
    world.bucket.put(KEY, sample(1, 100));
    for spec in [
        RangeSpec::From(u64::MAX),
        RangeSpec::Bounded {
            first: u64::MAX,
            last: u64::MAX,
        },
        RangeSpec::Bounded {
            first: u64::MAX - MIB,
            last: u64::MAX,
        },
    ] {
        world.purge(KEY).await;
        let object = world.open(KEY, first(spec)).await.expect("it is there");
        assert_eq!(spec.resolve(object.version().size), None);
    }
    let everything = RangeSpec::Bounded {
        first: 0,
        last: u64::MAX,
    };
    world.purge(KEY).await;
    same(
        &world.range(KEY, everything).await.expect("read"),
        &sample(1, 100),
    );
}
