//! Text for clients that accept `br`: without a limit, every answer would have an encoder of its
//! own.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::multiplexed::Multiplexed;
use crate::target::{LONG, Target};

const BR: (&str, &str) = ("accept-encoding", "br");

/// 1,200 streams, with as many on each connection as it allows.
const CONNECTIONS: usize = 12;
const STREAMS: usize = 100;

#[tokio::test(flavor = "multi_thread")]
async fn streams_that_each_want_one_script_compressed() {
    let target = Target::start().await;
    target.put_text("script", script());
    let siege = target
        .besiege("1,200 compressing streams", streams(&target))
        .await;
    let (attackers, encoded) = siege.bore();
    assert!(encoded > 0, "the script is compressed at all");
    let runs = target
        .metric(&["tidegate_encoder_runs_total", "coding=\"br\""])
        .await;
    assert_eq!(runs, 1);
    drop(attackers);
    target.quiet().await;
}

/// Returns 300 KiB of text that compresses by half, so that answers fill their windows.
fn script() -> String {
    let line = |at: u64| {
        format!(
            "const v{at} = {};\n",
            at.wrapping_mul(0x9e37_79b9_7f4a_7c15)
        )
    };
    let mut text: String = (0..10_000).map(line).collect();
    text.truncate(300 << 10);
    text
}

/// Opens all streams before it reads any; returns the connections and the number of encoded
/// answers.
async fn streams(target: &Target) -> (Vec<Multiplexed>, usize) {
    let (mut connections, mut answers) = (Vec::new(), Vec::new());
    for _ in 0..CONNECTIONS {
        let mut attacker = Multiplexed::connect(target, 65_535).await;
        for _ in 0..STREAMS {
            answers.extend(attacker.ask("/script", &[BR]).await);
        }
        connections.push(attacker);
    }
    let mut encoded = 0;
    for answer in answers {
        let answer = timeout(LONG, answer).await.expect("in time");
        let is_encoded =
            answer.is_ok_and(|answer| answer.headers().contains_key("content-encoding"));
        encoded += usize::from(is_encoded);
    }
    (connections, encoded)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_text_that_no_one_reads() {
    let target = Target::start().await;
    target.put_text("large.txt", "all work, no play\n".repeat((256 << 20) / 18));
    let siege = target
        .besiege("100 unread texts of 256 MiB", unread(&target))
        .await;
    let connections = siege.bore();
    target.quiet().await;
    drop(connections);
}

/// Opens connections that request the text, see the start of an answer, and read no more of it.
async fn unread(target: &Target) -> Vec<TcpStream> {
    let mut connections = Vec::new();
    for _ in 0..100 {
        let asked = async {
            let mut stream = TcpStream::connect(target.http).await.expect("it listens");
            let request = "GET /large.txt HTTP/1.1\r\nhost: target\r\naccept-encoding: br\r\n\r\n";
            stream.write_all(request.as_bytes()).await.expect("sent");
            let mut head = [0; 12];
            stream.read_exact(&mut head).await.expect("an answer");
            assert_eq!(&head, b"HTTP/1.1 200");
            stream
        };
        connections.push(timeout(LONG, asked).await.expect("in time"));
    }
    // Enough time for an encoder to fill the buffers between it and the client.
    tokio::time::sleep(Duration::from_secs(1)).await;
    connections
}
