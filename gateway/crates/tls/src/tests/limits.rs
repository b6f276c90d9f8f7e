//! Handshakes that take too long, or are none, are cut.

use tokio::time::Instant;

use super::*;

#[tokio::test(start_paused = true)]
async fn a_slow_handshake_is_cut() {
    let authority = Authority::new();
    let tls = tls(&[authority.server("a", &["example.org"])], None);
    for begin in [&b""[..], &[22, 3, 1, 2, 0, 1, 0, 1, 252]] {
        let (mut near, far) = duplex(4096);
        near.write_all(begin).await.expect("room");
        let since = Instant::now();
        let ended = tls.acceptor(Side::Public).accept(far, LIMIT).await;
        assert!(matches!(ended, Err(HandshakeError::Late)));
        assert_eq!(since.elapsed(), LIMIT);
    }
    assert!(metrics(&tls).contains("tls_handshakes_total{result=\"late\"} 2"));
}

#[tokio::test]
async fn another_protocol_gets_one_answer_and_a_hello_without_end_is_cut() {
    let authority = Authority::new();
    let tls = tls(&[authority.server("a", &["example.org"])], None);
    let acceptor = tls.acceptor(Side::Public);
    for (sent, answered) in [
        ("GET / HTTP/1.1\r\nhost: example.org\r\n\r\n", true),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", true),
        ("SSH-2.0-x\r\n", true),
        ("\0\0\0\0\0\0\0\0", false),
    ] {
        let (mut near, far) = duplex(4096);
        near.write_all(sent.as_bytes()).await.expect("room");
        let ended = acceptor.accept(far, LIMIT).await;
        assert!(matches!(ended, Err(HandshakeError::NoTls)), "{sent}");
        let mut answer = String::new();
        near.read_to_string(&mut answer).await.expect("ended");
        assert_eq!(answer.starts_with("HTTP/1.1 400 "), answered, "{answer}");
        assert_eq!(answer.is_empty(), !answered, "{answer}");
    }
    // A handshake message of 60,000 bytes, in records of 16 KiB.
    let mut hello = vec![1, 0, 0xea, 0x60];
    hello.resize(60_004, 0);
    let records = hello.chunks(16 << 10).flat_map(|part| {
        let length = u16::try_from(part.len()).expect("short").to_be_bytes();
        [&[22, 3, 1], &length[..], part].concat()
    });
    let records: Vec<u8> = records.collect();
    let (mut near, far) = duplex(4096);
    let (sent, ended) = tokio::join!(near.write_all(&records), acceptor.accept(far, LIMIT));
    let error = ended.expect_err("too long").to_string();
    assert!(sent.is_err() && error.contains("too much"), "{error}");
}
