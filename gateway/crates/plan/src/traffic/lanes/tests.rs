use super::*;
use proptest::prelude::*;

const ALL: [bool; 2] = [true, true];

fn client(number: u32) -> Client {
    Client::V4(number)
}

#[derive(Debug, Clone, Copy)]
enum Op {
    Push(u32, usize),
    Pop([bool; 2]),
    End,
    Room(u32, usize),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (0u32..4, 0usize..2).prop_map(|(client, class)| Op::Push(client, class)),
        3 => proptest::array::uniform2(any::<bool>()).prop_map(Op::Pop),
        2 => Just(Op::End),
        1 => (0u32..4, 0usize..2).prop_map(|(client, class)| Op::Room(client, class)),
    ]
}

proptest! {
    /// No request is lost or served twice, a client's requests keep their order, and an idle client leaves no lane.
    #[test]
    fn every_request_is_served_once_in_its_clients_order(ops in proptest::collection::vec(op(), 0..200)) {
        let mut lanes = Lanes::default();
        let mut waiting: Vec<(u32, usize, u32)> = Vec::new();
        let mut running = Vec::new();
        for (number, op) in (0u32..).zip(ops) {
            match op {
                Op::Push(of, class) => {
                    lanes.push(client(of), class, number);
                    waiting.push((of, class, number));
                }
                Op::Pop(open) => {
                    let due = waiting.iter().any(|(_, class, _)| open[*class]);
                    let popped = lanes.pop(open);
                    prop_assert_eq!(popped.is_some(), due);
                    if let Some((of, class, number)) = popped {
                        let first = waiting.iter().position(|(by, in_class, _)| client(*by) == of && *in_class == class);
                        let (_, _, oldest) = waiting.remove(first.expect("it waited"));
                        prop_assert_eq!(oldest, number);
                        prop_assert!(open[class]);
                        running.push(of);
                    }
                }
                Op::End => {
                    if let Some(of) = running.pop() {
                        lanes.end(of);
                    }
                }
                Op::Room(of, class) => {
                    let own = waiting.iter().filter(|(by, ..)| *by == of).count();
                    if let Some(gone) = lanes.make_room(client(of), class) {
                        let at = waiting.iter().position(|(_, _, number)| *number == gone).expect("it waited");
                        let (by, gone_class, _) = waiting.remove(at);
                        let left = waiting.iter().filter(|(other, ..)| *other == by).count();
                        // Never a request of a client with fewer waiting, and among equals never a reader's.
                        prop_assert!(left > own || (class == DEMAND && gone_class == READ_AHEAD && left + 1 >= own));
                    }
                }
            }
            let count = |class| waiting.iter().filter(|(_, own, _)| *own == class).count();
            prop_assert_eq!(lanes.waiting(), [count(DEMAND), count(READ_AHEAD)]);
        }
        lanes.retain(|_| false);
        for of in running {
            lanes.end(of);
        }
        prop_assert!(lanes.lanes.is_empty());
    }

    /// Clients that always have a waiting request are served equally, however many they have.
    #[test]
    fn those_that_wait_all_the_time_are_served_equally(depths in proptest::collection::vec(1usize..50, 2..6), turns in 1usize..200) {
        let mut lanes = Lanes::default();
        for (of, depth) in (0u32..).zip(&depths) {
            (0..*depth).for_each(|_| lanes.push(client(of), DEMAND, of));
        }
        let mut served = vec![0usize; depths.len()];
        for _ in 0..turns {
            let (_, _, of) = lanes.pop(ALL).expect("all have more");
            served[of as usize] += 1;
            lanes.push(client(of), DEMAND, of);
            let (least, most) = (served.iter().min(), served.iter().max());
            prop_assert!(most.expect("some") - least.expect("some") <= 1, "{:?}", served);
        }
    }
}

/// A client that comes while another has a thousand waiting requests is served second at the latest.
#[test]
fn a_newcomer_waits_for_one_request_of_a_flood() {
    let mut lanes = Lanes::default();
    (0..1000).for_each(|_| lanes.push(client(0), DEMAND, 0));
    (0..300).for_each(|_| assert!(lanes.pop(ALL).is_some()));
    lanes.push(client(1), DEMAND, 1);
    lanes.push(client(2), READ_AHEAD, 2);
    let order: Vec<_> = (0..20)
        .filter_map(|_| lanes.pop(ALL))
        .map(|(.., of)| of)
        .collect();
    assert!(order[..2].contains(&1), "{order:?}");
    let ahead = order.iter().position(|of| *of == 2).expect("served");
    assert!(ahead <= 10, "{order:?}");
}

#[test]
fn a_client_with_a_running_request_keeps_its_lane() {
    let mut lanes = Lanes::default();
    lanes.begin(client(1));
    lanes.push(client(2), DEMAND, 2);
    lanes.retain(|of| *of != 2);
    assert_eq!(lanes.waiting(), [0, 0]);
    assert_eq!(Vec::from_iter(lanes.lanes.keys()), [&client(1)]);
    lanes.end(client(1));
    assert!(lanes.lanes.is_empty());
}

/// One client's read-ahead waits for the readers of all others.
#[test]
fn readers_go_before_what_others_fetch_ahead() {
    let mut lanes = Lanes::default();
    lanes.push(client(100), READ_AHEAD, 100);
    for of in 0..50 {
        lanes.push(client(of), DEMAND, of);
    }
    let order: Vec<_> = (0..51)
        .filter_map(|_| lanes.pop(ALL))
        .map(|(.., of)| of)
        .collect();
    assert_eq!(order.last(), Some(&100));
}

/// The client that fills the queue makes room for the others.
#[test]
fn a_full_queue_sheds_the_one_that_filled_it() {
    let mut lanes = Lanes::default();
    (0..9).for_each(|number| lanes.push(client(0), DEMAND, number));
    lanes.push(client(1), READ_AHEAD, 100);
    assert_eq!(lanes.make_room(client(0), DEMAND), None);
    assert_eq!(lanes.make_room(client(2), READ_AHEAD), Some(8));
    assert_eq!(lanes.make_room(client(1), DEMAND), Some(7));
    assert_eq!(lanes.waiting(), [7, 1]);
}
