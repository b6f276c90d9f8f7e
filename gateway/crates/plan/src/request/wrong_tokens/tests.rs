use core::net::IpAddr;

use super::*;

const S: fn(u64) -> Duration = Duration::from_secs;

fn client(text: &str) -> Client {
    Client::from(Some(text.parse().expect("an address")))
}

#[test]
fn answers_wait_longer_and_longer_and_each_client_for_itself() {
    let mut wrong = WrongTokens::default();
    let mut delays = Vec::new();
    for n in 0..8 {
        let verdict = wrong.record(client("203.0.113.1"), S(n));
        delays.push(verdict.delay.expect("a place").as_millis());
        wrong.end_wait(client("203.0.113.1"));
    }
    assert_eq!(delays, [250, 500, 1000, 2000, 4000, 8000, 8000, 8000]);
    let other = wrong.record(client("203.0.113.2"), S(9));
    assert_eq!(other.delay, Some(FIRST_DELAY));
    let later = wrong.record(client("203.0.113.1"), S(7) + FORGET_AFTER + S(1));
    assert_eq!(later.delay, Some(FIRST_DELAY), "forgotten");
}

#[test]
fn an_ipv6_network_is_one_client() {
    assert_eq!(client("2001:db8::1"), client("2001:db8::ffff:2"));
    assert_ne!(client("2001:db8::1"), client("2001:db8:0:1::1"));
    assert_ne!(client("203.0.113.1"), client("203.0.113.2"));
}

#[test]
fn memory_and_waiting_answers_are_bounded() {
    let mut wrong = WrongTokens::default();
    let one = client("203.0.113.1");
    for n in 0..20 {
        let waits = wrong.record(one, S(n)).delay.is_some();
        assert_eq!(waits, n < MAX_WAITING_OF_CLIENT as u64, "{n}");
    }
    let mut waiting = MAX_WAITING_OF_CLIENT;
    // More clients than are remembered, and more answers than may wait.
    for n in 0..100_000_u32 {
        let address = IpAddr::from((n + 7).to_be_bytes());
        let verdict = wrong.record(Client::from(Some(address)), S(30));
        waiting += usize::from(verdict.delay.is_some());
        assert!(wrong.clients.len() <= MAX_CLIENTS);
    }
    assert_eq!((waiting, wrong.waiting), (MAX_WAITING, MAX_WAITING));
    wrong.end_wait(one);
    assert!(wrong.record(one, S(31)).delay.is_some(), "a place is free");
}

#[test]
fn room_is_made_by_forgetting_quiet_clients_before_recent_ones() {
    let numbered = |n: u32| Client::from(Some(IpAddr::from(n.to_be_bytes())));
    let mut wrong = WrongTokens::default();
    for n in 0..MAX_CLIENTS as u32 {
        // One half was quiet for too long by then, the other was not.
        let late = u64::from(n % 2) * 10;
        wrong.record(numbered(n), S(late));
        wrong.end_wait(numbered(n));
    }
    let now = FORGET_AFTER + S(5);
    assert_eq!(
        wrong.record(numbered(1 << 20), now).delay,
        Some(FIRST_DELAY)
    );
    assert_eq!(wrong.clients.len(), MAX_CLIENTS / 2 + 1);
    for n in (1..MAX_CLIENTS as u32).step_by(2) {
        assert_eq!(wrong.clients[&numbered(n)].wrong, 1, "{n}");
    }
}

#[test]
fn log_lines_are_bounded_and_count_what_they_leave_out() {
    let mut wrong = WrongTokens::default();
    let lines: Vec<_> = (0..1000)
        .filter_map(|n| wrong.record(client("203.0.113.1"), S(n) / 50).log)
        .collect();
    assert_eq!(lines, [1, 500]);
}
