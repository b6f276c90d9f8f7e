//! Ranges of one byte over connections whose window is closed: each answer keeps a chunk alive, and is
//! never taken.

use crate::multiplexed::Multiplexed;
use crate::target::{DEADLINE, FILLERS, Target};

const CONNECTIONS: usize = 72;
const STREAMS: usize = 128;

#[tokio::test(flavor = "multi_thread")]
async fn ranges_of_one_byte_that_no_one_takes() {
    let target = Target::start().await;
    let siege = target
        .besiege("9,216 one-byte ranges", attack(&target))
        .await;
    for attacker in siege.bore() {
        attacker.task.abort();
    }
    target.quiet(4 * DEADLINE).await;
}

/// Streams of many connections, each for one byte of another chunk.
async fn attack(target: &Target) -> Vec<Multiplexed> {
    let mut connections = Vec::new();
    for connection in 0..CONNECTIONS {
        let mut attacker = Multiplexed::connect(target, 0).await;
        let mut answers = Vec::new();
        for stream in 0..STREAMS {
            let number = connection * STREAMS + stream;
            let path = format!("/fill/{}", number % FILLERS);
            answers.extend(attacker.ask(&path, &[("range", "bytes=77-77")]).await);
        }
        // Heads are not held back by windows.
        for answer in answers {
            let _ = answer.await;
        }
        connections.push(attacker);
    }
    connections
}
