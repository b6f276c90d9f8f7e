//! Presigned URLs that an AWS SDK makes for the gateway.

use std::time::{Duration, UNIX_EPOCH};

use aws_sdk_s3::config::{BehaviorVersion, Credentials, Region};
use aws_sdk_s3::presigning::{PresignedRequest, PresigningConfig};
use http::Method;

use super::{NOW, private, rules};
use crate::gateway::{Got, status};

/// Returns the presigned request of an AWS SDK whose endpoint is the gateway and whose bucket is the route.
async fn presigned(key: &str, head: bool) -> PresignedRequest {
    let config = aws_sdk_s3::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::new("eu-central-1"))
        .credentials_provider(Credentials::new(
            "k1",
            "the secret of k1",
            None,
            None,
            "test",
        ))
        .endpoint_url("http://media.example:8080")
        .force_path_style(true)
        .build();
    let client = aws_sdk_s3::Client::from_conf(config);
    let times = PresigningConfig::builder()
        .start_time(UNIX_EPOCH + Duration::from_secs(NOW))
        .expires_in(Duration::from_secs(60));
    let times = times.build().expect("valid times");
    if head {
        let asked = client.head_object().bucket("private").key(key);
        return asked.presigned(times).await.expect("a URL");
    }
    let asked = client.get_object().bucket("private").key(key);
    asked.presigned(times).await.expect("a URL")
}

#[tokio::test]
async fn a_presigned_url_of_an_sdk_is_admitted_as_it_is() {
    let gateway = private(rules()).await;
    let names = ["book/1.ts", "a b/ü+(1)&=@,;:'*~.bin", "100%/x//y"];
    let host = ("host", "media.example:8080");
    for name in names {
        gateway.origin.put(name, "one");
        for head in [false, true] {
            let made = presigned(name, head).await;
            let (method, other) = match head {
                true => (Method::HEAD, Method::GET),
                false => (Method::GET, Method::HEAD),
            };
            let target = made
                .uri()
                .strip_prefix("http://media.example:8080")
                .expect("our host");
            // The second time the verdict is a remembered one.
            for _ in 0..2 {
                let got = gateway.ask(method.clone(), target, &[host]).await;
                assert_eq!(status(&got), 200, "{method} {target}");
                let ranged = [host, ("range", "bytes=1-1")];
                let got = gateway.ask(method.clone(), target, &ranged).await;
                assert_eq!(status(&got), if head { 200 } else { 206 });
            }
            let wrong = |got: Got| {
                assert_eq!(
                    got.header("cache-status"),
                    "tidegate; detail=access-signature"
                )
            };
            wrong(gateway.ask(other, target, &[host]).await);
            wrong(
                gateway
                    .ask(method.clone(), target, &[("host", "media.example")])
                    .await,
            );
            wrong(
                gateway
                    .ask(
                        method.clone(),
                        &target.replacen("/private/", "/private/x", 1),
                        &[host],
                    )
                    .await,
            );
            wrong(gateway.ask(method, &format!("{target}&x=1"), &[host]).await);
        }
    }
    let made = presigned("book/1.ts", false).await;
    let target = made
        .uri()
        .strip_prefix("http://media.example:8080")
        .expect("our host");
    gateway.later(Duration::from_secs(70));
    let late = gateway.get(target, &[host]).await;
    assert_eq!(
        late.header("cache-status"),
        "tidegate; detail=access-expired"
    );
    gateway.end().await;
}
