//! Ranges of one byte over connections with a closed window: each answer would keep another chunk alive, and is never
//! read.

use crate::multiplexed::Multiplexed;
use crate::target::Target;

const CONNECTIONS: usize = 72;
const STREAMS: usize = 128;

#[tokio::test(flavor = "multi_thread")]
async fn ranges_of_one_byte_that_no_one_takes() {
    let target = Target::start().await;
    for number in 0..CONNECTIONS * STREAMS {
        target.s3.bucket.copy("chunk", &format!("copy/{number}"));
    }
    let ranges = attack(&target, CONNECTIONS, 0, "bytes=77-77");
    let held = target.besiege("9,216 one-byte ranges", ranges).await.bore();
    let pinned = target.metric(&["tidegate_memory_pinned_bytes"]).await;
    assert!(pinned < 16 << 20, "{pinned} bytes are kept alive");
    // Answers to PING and SETTINGS do not count as progress.
    let took = target.quiet().await;
    println!("every connection was ended after {took:.1?}");
    assert_eq!(target.metric(&["tidegate_memory_pinned_bytes"]).await, 0);
    assert_eq!(target.metric(&["tidegate_http_streams "]).await, 0);
    drop(held);
}

/// A window of one byte lets hyper hand the whole answer to h2 and forget it.
#[tokio::test(flavor = "multi_thread")]
async fn answers_of_which_one_byte_is_taken() {
    let target = Target::start().await;
    for number in 0..CONNECTIONS * STREAMS {
        target.s3.bucket.copy("chunk", &format!("copy/{number}"));
    }
    let answers = attack(&target, CONNECTIONS / 3, 1, "bytes=0-200000");
    let held = target
        .besiege("3,072 answers of one taken byte", answers)
        .await
        .bore();
    let took = target.quiet().await;
    println!("every connection was ended after {took:.1?}");
    assert_eq!(target.metric(&["tidegate_memory_pinned_bytes"]).await, 0);
    drop(held);
}

/// Opens streams on many connections, each for a range of another object.
async fn attack(target: &Target, connections: usize, window: u32, range: &str) -> Vec<Multiplexed> {
    let mut attackers = Vec::new();
    for connection in 0..connections {
        let mut attacker = Multiplexed::connect(target, window).await;
        let mut answers = Vec::new();
        for stream in 0..STREAMS {
            let path = format!("/copy/{}", connection * STREAMS + stream);
            answers.extend(attacker.ask(&path, &[("range", range)]).await);
        }
        // Windows do not hold back heads. The kept responses keep the streams open.
        for answer in answers {
            attacker.answers.extend(answer.await.ok());
        }
        attackers.push(attacker);
    }
    attackers
}
