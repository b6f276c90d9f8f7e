//! Records of changes that are published by hand on a real NATS server, twice and in any order: the newest one of a key
//! counts, and one that comes again does nothing.

use std::time::Duration;

use tempfile::TempDir;
use tokio::time::{Instant, sleep};

use crate::gateway::Whole;
use crate::nats::Nats;
use crate::receiver::{Manner, Receiver};
use crate::ways::{SUBJECT, connect, counted, create_stream, publish};
use crate::{Bucket, LONG, Minio, Way, free_addr, start_gateway, start_nats};

/// The sequencers of the changes of each key, in the order in which they are published: the newest comes first, and a store
/// may write one with zeros at its end.
const ORDER: [&str; 6] = ["05", "03", "05", "0500", "01", "03"];

/// A gateway with a hook, a bucket that reports nothing, and a client of NATS that reports in its place.
struct Published {
    receiver: Receiver,
    gateway: Whole,
    bucket: Bucket,
    client: async_nats::Client,
    _nats: Nats,
    _minio: Minio,
    _folder: TempDir,
}

impl Published {
    async fn start(way: Way) -> Self {
        let folder = TempDir::new().expect("a folder");
        let address = free_addr();
        let nats = start_nats(way, address, &folder).await;
        if way == Way::JetStream {
            create_stream(address).await;
        }
        let minio = Minio::start().await;
        let endpoint = minio.settings("media").endpoint.expect("MinIO's");
        let endpoint = endpoint.trim_start_matches("http://");
        let bucket = Bucket::create(&minio.settings("media")).await;
        let receiver = Receiver::start(Manner::Ok).await;
        let hook = format!(
            "[[hook]]\nurl = \"http://{}/{{event}}/{{key}}\"\ndebounce = \"1ms\"\neach = \"key\"\n",
            receiver.address
        );
        let gateway = start_gateway(way, endpoint, address, &folder, &hook).await;
        gateway.ready().await;
        let published = Self {
            receiver,
            gateway,
            bucket,
            client: connect(address).await,
            _nats: nats,
            _minio: minio,
            _folder: folder,
        };
        published.heard().await;
        published
    }

    /// Waits until the gateway hears what is published: a plain subscription misses what came before it.
    async fn heard(&self) {
        let since = Instant::now();
        while self.taken().await == 0 {
            assert!(since.elapsed() < LONG, "it does not hear");
            self.send(&record("ObjectCreated:Put", "heard", "x", "01"))
                .await;
            sleep(Duration::from_millis(20)).await;
        }
        // Messages keep their order: with the last one all of them are taken, before anything is counted.
        self.send(&record("ObjectCreated:Put", "heard", "x", "02"))
            .await;
        while self.count("applied").await < 2 {
            assert!(since.elapsed() < LONG, "it hears no more");
            sleep(Duration::from_millis(2)).await;
        }
    }

    async fn send(&self, message: &str) {
        publish(&self.client, SUBJECT, message).await;
    }

    /// Returns the number of records whose result begins so.
    async fn count(&self, result: &str) -> u64 {
        counted(&self.gateway, result).await
    }

    /// Returns the number of records that the gateway has taken, with whatever result.
    async fn taken(&self) -> u64 {
        self.count("").await
    }

    /// Publishes a record, and waits until it is counted with this result.
    async fn publish(&self, record: &str, result: &str) {
        let (since, before) = (
            Instant::now(),
            (self.taken().await, self.count(result).await),
        );
        self.send(record).await;
        while self.taken().await == before.0 {
            assert!(since.elapsed() < LONG, "{record} is not taken");
            sleep(Duration::from_millis(2)).await;
        }
        assert_eq!(self.count(result).await, before.1 + 1, "{record}: {result}");
    }

    /// Waits for the call of the hook for a change of the object: it is the next one, and says this.
    async fn calls(&self, event: &str) {
        loop {
            let line = self.receiver.next().await.line;
            if !line.ends_with("/heard") {
                return assert_eq!(line, format!("POST /{event}/object"));
            }
        }
    }

    async fn caused(&self) -> u64 {
        let metrics = self.gateway.look("/metrics").await;
        let of = |cause| metrics.metric(&["tidegate_origin_requests_total{", cause]);
        of("cause=\"demand\"") + of("cause=\"revalidate\"")
    }

    /// Reads a key: it has this status and body, and so many requests to the bucket were needed.
    async fn reads(&self, key: &str, (status, body): (u16, &str), requests: u64) {
        let before = self.caused().await;
        let got = self.gateway.get(&format!("/{key}"), &[]).await;
        assert_eq!(got.status, status, "{key}: {}", got.text());
        assert!(status != 200 || got.text() == body, "{key}: {}", got.text());
        assert_eq!(self.caused().await - before, requests, "{key}");
    }

    /// Writes an object, and returns its ETag.
    async fn write(&self, key: &str, body: &str) -> String {
        let Bucket::S3 { client, name } = &self.bucket else {
            panic!("MinIO speaks S3")
        };
        let put = client.put_object().bucket(name).key(key);
        let put = put.body(body.as_bytes().to_vec().into()).send().await;
        let tag = put.expect("written").e_tag.expect("a tag");
        tag.trim_matches('"').to_owned()
    }
}

/// Returns the message of one change.
fn record(name: &str, key: &str, tag: &str, sequencer: &str) -> String {
    format!(
        r#"{{"Records":[{{"eventName":"s3:{name}","s3":{{"bucket":{{"name":"media"}},"object":{{"key":"{key}","eTag":"{tag}","sequencer":"{sequencer}"}}}}}}]}}"#
    )
}

async fn the_newest_record_counts(way: Way) {
    let published = Published::start(way).await;
    let mut tags = vec![];
    for write in 0..=5 {
        tags.push(published.write("object", &format!("written {write}")).await);
        if write == 0 {
            published.reads("object", (200, "written 0"), 1).await;
        }
    }
    let last = (200, "written 5");
    // Nothing is reported yet, and the object would be kept for an hour.
    published.reads("object", (200, "written 0"), 0).await;
    let mut newest = "";
    for sequencer in ORDER {
        let write = sequencer[..2].parse::<usize>().expect("a number");
        let created = record("ObjectCreated:Put", "object", &tags[write], sequencer);
        let (result, requests) = match (newest, &sequencer[..2]) {
            (newest, own) if newest == own => ("duplicate", 0),
            ("", _) => ("applied", 1),
            _ => ("late", 1),
        };
        newest = "05";
        published.publish(&created, result).await;
        match result {
            "applied" => published.calls("created").await,
            "late" => published.calls("changed").await,
            _ => {}
        }
        published.reads("object", last, requests).await;
        published.reads("object", last, 0).await;
    }
    // A removal that came before the newest one takes nothing away.
    let removed = |sequencer| record("ObjectRemoved:Delete", "object", "", sequencer);
    published.publish(&removed("04"), "late").await;
    published.calls("changed").await;
    published.reads("object", last, 1).await;

    published.bucket.delete("object").await;
    published.reads("object", last, 0).await;
    published.publish(&removed("06"), "applied").await;
    published.calls("removed").await;
    published.reads("object", (404, ""), 1).await;
    published.publish(&removed("06"), "duplicate").await;
    published.reads("object", (404, ""), 0).await;
    // Neither does one that was created before the newest removal come back.
    let created = record("ObjectCreated:Put", "object", &tags[5], "05");
    published.publish(&created, "late").await;
    published.calls("changed").await;
    published.reads("object", (404, ""), 1).await;
    published.gateway.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_newest_record_on_nats_counts_and_one_that_comes_again_does_nothing() {
    the_newest_record_counts(Way::Nats).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_newest_record_of_a_stream_counts_and_one_that_comes_again_does_nothing() {
    the_newest_record_counts(Way::JetStream).await;
}
