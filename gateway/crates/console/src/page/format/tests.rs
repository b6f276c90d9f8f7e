use super::*;

#[test]
fn numbers_are_short() {
    assert_eq!(
        [bytes(0), bytes(999), bytes(1 << 20), bytes(12 << 30)],
        ["0 B", "999 B", "1.0 MiB", "12 GiB"]
    );
    assert_eq!(
        [rate(0.0), rate(1500.0), rate(2.5e8)],
        ["0 B/s", "1.5 kB/s", "250 MB/s"]
    );
    assert_eq!(
        [
            number(0.0),
            number(0.251),
            number(3.21),
            number(1_234_567.0)
        ],
        ["0", "0.25", "3.2", "1\u{202f}234\u{202f}567"]
    );
    assert_eq!(
        [
            count(0, "stream"),
            count(1, "stream"),
            count(1000, "stream")
        ],
        ["0 streams", "1 stream", "1\u{202f}000 streams"]
    );
    assert_eq!([ago(0.4), ago(12.4)], ["just now", "12 s ago"]);
    assert_eq!(
        [percent(1.0), percent(0.999), percent(0.5), percent(0.001)],
        ["100 %", "99.9 %", "50 %", "0.1 %"]
    );
    assert_eq!(
        [
            duration(0.00005),
            duration(0.0123),
            duration(61.0),
            duration(9000.0)
        ],
        ["50 µs", "12 ms", "61 s", "2 h"]
    );
    assert_eq!(time(1_795_680_724.0), "26 Nov 2026, 08:12:04");
}
