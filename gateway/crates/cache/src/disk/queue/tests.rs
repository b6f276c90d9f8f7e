//! Tests of `queue`.

use super::*;
use tidegate_plan::VersionId;

fn key(index: u32) -> ChunkKey {
    ChunkKey {
        version: VersionId(1),
        index,
    }
}

fn chunk(len: usize) -> Bytes {
    vec![1; len].into()
}

#[test]
fn it_is_bounded_and_places_come_back() {
    let queue = WriteQueue::new(12 << 10);
    assert_eq!(queue.push(key(1), chunk(5000), PinId::NONE), Ok(()));
    assert_eq!(
        queue.push(key(2), chunk(5000), PinId::NONE),
        Err(Refusal::QueueFull)
    );
    assert_eq!(
        queue.push(key(1), chunk(5000), PinId::NONE),
        Err(Refusal::Present)
    );
    assert_eq!(queue.push(key(3), chunk(10), PinId::NONE), Ok(()));
    assert_eq!(queue.bytes(), 12 << 10);
    let batch = queue.take(u64::MAX);
    assert_eq!(batch.len(), 2);
    assert!(queue.get(&key(1)).is_some(), "readable while it is written");
    for taken in &batch {
        assert!(queue.finish(&taken.key, taken.ticket).is_some());
    }
    assert_eq!(queue.bytes(), 0);
    assert_eq!(queue.get(&key(1)), None);
}

#[test]
fn a_batch_has_one_chunk_or_what_fits() {
    let queue = WriteQueue::new(1 << 20);
    for index in 0..5 {
        queue
            .push(key(index), chunk(8192), PinId::NONE)
            .expect("room");
    }
    assert_eq!(queue.take(1).len(), 1);
    assert_eq!(queue.take(20_000).len(), 2);
    assert_eq!(queue.take(1 << 20).len(), 2);
    assert!(queue.take(1 << 20).is_empty());
}

#[test]
fn what_was_removed_or_put_in_anew_is_no_longer_wanted() {
    let queue = WriteQueue::new(1 << 20);
    queue.push(key(1), chunk(10), PinId::NONE).expect("room");
    queue.push(key(2), chunk(10), PinId::NONE).expect("room");
    queue.remove(&key(2));
    let batch = queue.take(1 << 20);
    assert_eq!(batch.len(), 1, "removed before it was taken");
    let old = &batch[0];
    assert!(queue.is_wanted(&key(1), old.ticket));
    queue.remove(&key(1));
    queue.push(key(1), chunk(20), PinId::NONE).expect("room");
    assert!(!queue.is_wanted(&key(1), old.ticket));
    assert_eq!(queue.finish(&key(1), old.ticket), None);
    assert_eq!(queue.get(&key(1)), Some(chunk(20)));
    assert_eq!(queue.take(1 << 20).len(), 1);
}

#[test]
fn what_is_marked_while_it_waits_or_is_written_is_so_in_the_end() {
    let queue = WriteQueue::new(1 << 20);
    let [first, second] = [1, 2].map(PinId::from_number);
    queue.push(key(1), chunk(10), PinId::NONE).expect("room");
    queue.set_pin(&key(1), first);
    let taken = &queue.take(1 << 20)[0];
    assert_eq!(taken.pin, first);
    queue.set_pin(&key(1), second);
    assert_eq!(queue.finish(&key(1), taken.ticket), Some(second));
}

#[test]
fn it_ends_and_does_not_begin_again() {
    let queue = WriteQueue::new(1 << 20);
    queue.push(key(1), chunk(10), PinId::NONE).expect("room");
    queue.advance(QueuePhase::Stopped);
    queue.advance(QueuePhase::Closing);
    assert_eq!(queue.phase(), QueuePhase::Stopped);
    assert_eq!(
        queue.push(key(2), chunk(10), PinId::NONE),
        Err(Refusal::Closed)
    );
    assert_eq!((queue.drop_all(), queue.bytes()), (1, 0));
    queue.wait(None);
    queue.wait(Some(Duration::ZERO));
}
