//! Many ranges in one request, many such requests.

use crate::multiplexed::Multiplexed;
use crate::target::Target;

#[tokio::test(flavor = "multi_thread")]
async fn multi_range_storms() {
    let target = Target::start().await;
    // As many ranges as are answered one by one, each in another place; and far more than that.
    let some: Vec<_> = (0..32).map(|n| format!("{0}-{0}", n * 8000)).collect();
    let many: Vec<_> = (0..1500).map(|n| format!("{0}-{0}", n * 2)).collect();
    let attack = async {
        let mut attackers = Vec::new();
        for connection in 0..16 {
            let mut attacker = Multiplexed::connect(&target, 0).await;
            let mut answers = Vec::new();
            for stream in 0..128 {
                let ranges = if stream % 2 == 0 { &some } else { &many };
                let ranges = format!("bytes={}", ranges.join(","));
                let path = format!("/fill/{}", (connection * 128 + stream) % 250);
                answers.extend(attacker.ask(&path, &[("range", &ranges)]).await);
            }
            for answer in answers {
                attacker.answers.extend(answer.await.ok());
            }
            attackers.push(attacker);
        }
        attackers
    };
    let held = target
        .besiege("2,048 requests for many ranges", attack)
        .await
        .bore();
    target.quiet().await;
    assert_eq!(target.metric(&["tidegate_memory_pinned_bytes"]).await, 0);
    drop(held);
}
