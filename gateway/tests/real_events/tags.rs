//! A change of an object's tags, which a real MinIO reports as a created object, changes nothing here.

use std::time::Duration;

use aws_sdk_s3::types::{Tag, Tagging};
use tokio::time::{Instant, sleep};

use crate::bucket::Bucket;
use crate::receiver::{Manner, Receiver};
use crate::{LONG, Way, World};

impl World {
    /// Waits until so many events have this result.
    async fn counted(&self, result: &str, count: u64) {
        let since = Instant::now();
        let result = format!("result=\"{result}\"");
        let words = ["tidegate_bucket_events_total{", &result];
        while self.gateway().metric(&words).await < count {
            let metrics = self.gateway().look("/metrics").await;
            assert!(since.elapsed() < LONG, "{}", metrics.text());
            sleep(Duration::from_millis(20)).await;
        }
    }

    async fn set_and_delete_tags(&self, key: &str) {
        let Bucket::S3 { client, name } = &self.bucket else {
            panic!("MinIO speaks S3")
        };
        let tag = Tag::builder().key("mood").value("calm").build();
        let tags = Tagging::builder().tag_set(tag.expect("a tag")).build();
        let put = client.put_object_tagging().bucket(name).key(key);
        let put = put.tagging(tags.expect("tags")).send().await;
        put.expect("tagged");
        let delete = client.delete_object_tagging().bucket(name).key(key);
        delete.send().await.expect("without tags again");
    }
}

async fn tags_change_nothing(way: Way) {
    let receiver = Receiver::start(Manner::Ok).await;
    let hook = format!(
        "[[hook]]\nurl = \"http://{}/{{key}}\"\ndebounce = \"1ms\"\neach = \"key\"\n",
        receiver.address
    );
    let world = World::with(way, |_| hook).await;
    world.bucket.put("a.txt", "first").await;
    assert_eq!(receiver.next().await.line, "POST /a.txt");
    world.counted("applied", 1).await;
    world.reads("/a.txt", 200, "first").await;
    let caused = world.caused_by_readers().await;
    world.set_and_delete_tags("a.txt").await;
    world.counted("ignored", 2).await;
    world.reads("/a.txt", 200, "first").await;
    assert_eq!(world.caused_by_readers().await, caused);
    // A hook for the tags would be called before that of a later change.
    world.bucket.put("b.txt", "second").await;
    assert_eq!(receiver.next().await.line, "POST /b.txt");
}

#[tokio::test(flavor = "multi_thread")]
async fn tags_that_a_webhook_reports_change_nothing() {
    tags_change_nothing(Way::Webhook).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tags_that_nats_reports_change_nothing() {
    tags_change_nothing(Way::Nats).await;
}
