//! The embedded origin behaves as S3: signed, conditional and ranged requests, one version at a
//! time.

use std::fmt::Debug;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use aws_credential_types::Credentials;
use aws_sdk_s3::config::{BehaviorVersion, Region};
use aws_sdk_s3::error::SdkError;
use aws_sdk_s3::{Client, Config};
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_types::byte_stream::ByteStream;
use bytes::Bytes;
use futures_util::stream;
use tidegate::embedded::EmbeddedOrigin;

/// An origin in a folder of its own, and a client that it accepts.
struct Site {
    folder: tempfile::TempDir,
    origin: EmbeddedOrigin,
    client: Client,
}

impl Site {
    async fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let origin = EmbeddedOrigin::start(folder.path())
            .await
            .expect("an origin");
        let client = client(&origin, true);
        Self {
            folder,
            origin,
            client,
        }
    }

    async fn put(&self, key: &str, body: impl Into<Bytes>) -> String {
        let put = self.client.put_object().bucket("media").key(key);
        let put = put
            .body(ByteStream::from(body.into()))
            .content_type("text/x-test");
        let answer = put.send().await.expect("a put");
        answer.e_tag.expect("an etag")
    }

    fn get(
        &self,
        key: &str,
    ) -> aws_sdk_s3::operation::get_object::builders::GetObjectFluentBuilder {
        self.client.get_object().bucket("media").key(key)
    }

    async fn tag(&self, key: &str) -> String {
        let head = self.client.head_object().bucket("media").key(key);
        head.send().await.expect("a head").e_tag.expect("an etag")
    }

    fn file(&self, key: &str) -> std::path::PathBuf {
        Path::new(self.folder.path()).join("media").join(key)
    }
}

fn client(origin: &EmbeddedOrigin, trusted: bool) -> Client {
    let keys = origin.credentials();
    let secret = if trusted {
        keys.secret_access_key.as_str()
    } else {
        "guessed"
    };
    let http = aws_smithy_http_client::Builder::new().build_http();
    Client::from_conf(
        Config::builder()
            .behavior_version(BehaviorVersion::latest())
            .region(Region::new("us-east-1"))
            .endpoint_url(origin.endpoint())
            .force_path_style(true)
            .credentials_provider(Credentials::new(
                &keys.access_key_id,
                secret,
                None,
                None,
                "test",
            ))
            .http_client(http)
            .build(),
    )
}

fn status<T: Debug, E: Debug>(answer: Result<T, SdkError<E, HttpResponse>>) -> u16 {
    let error = answer.expect_err("an error status");
    error.raw_response().expect("an answer").status().as_u16()
}

fn inode(file: &Path) -> u64 {
    std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(file).expect("a file"))
}

#[tokio::test]
async fn refuses_a_caller_without_the_secret() {
    let site = Site::start().await;
    site.put("a", "text").await;
    let stranger = client(&site.origin, false);
    assert_eq!(
        status(stranger.get_object().bucket("media").key("a").send().await),
        403
    );
    let unsigned = stranger.get_object().bucket("media").key("a");
    let unsigned = unsigned.customize().config_override(
        aws_sdk_s3::config::Builder::new()
            .allow_no_auth()
            .endpoint_url(site.origin.endpoint()),
    );
    assert_eq!(status(unsigned.send().await), 403);
    assert!(!format!("{:?}", site.origin).contains(&site.origin.credentials().secret_access_key));
}

#[tokio::test]
async fn honours_conditions_on_get_and_head() {
    let site = Site::start().await;
    let old = site.put("a", "one").await;
    let tag = site.put("a", "two").await;
    assert_ne!(old, tag);

    assert_eq!(status(site.get("a").if_match(&old).send().await), 412);
    let beyond = site.get("a").if_match(&old).range("bytes=9-");
    assert_eq!(status(beyond.send().await), 412, "conditions go first");
    let same = site.get("a").if_match(&tag).range("bytes=1-");
    let same = same.send().await.expect("the same version");
    assert_eq!(same.content_range(), Some("bytes 1-2/3"));
    assert_eq!(same.content_type(), Some("text/x-test"));

    let unchanged = site.get("a").if_none_match(&tag).send().await;
    let raw = unchanged.expect_err("no content");
    let raw = raw.raw_response().expect("an answer");
    assert_eq!(raw.status().as_u16(), 304);
    assert_eq!(raw.headers().get("etag"), Some(tag.as_str()));
    assert!(raw.headers().get("last-modified").is_some());
    let changed = site.get("a").if_none_match(&old).send().await;
    assert_eq!(changed.expect("changed").e_tag(), Some(tag.as_str()));

    let head = || site.client.head_object().bucket("media").key("a");
    assert_eq!(status(head().if_match(&old).send().await), 412);
    assert_eq!(status(head().if_none_match(&tag).send().await), 304);
    assert!(head().if_match(&tag).send().await.is_ok());
}

#[tokio::test]
async fn answers_ranges_as_s3_does() {
    let site = Site::start().await;
    site.put("ten", "0123456789").await;
    site.put("none", "").await;
    let rows = [
        ("ten", "bytes=0-0", Some("0")),
        ("ten", "bytes=3-5", Some("345")),
        ("ten", "bytes=7-", Some("789")),
        ("ten", "bytes=8-99", Some("89")),
        ("ten", "bytes=-3", Some("789")),
        ("ten", "bytes=-99", Some("0123456789")),
        ("ten", "bytes=10-", None),
        ("ten", "bytes=-0", None),
        ("none", "bytes=0-9", None),
        ("none", "bytes=-1", None),
    ];
    for (key, range, expected) in rows {
        let answer = site.get(key).range(range).send().await;
        let Some(expected) = expected else {
            assert_eq!(status(answer), 416, "{key} {range}");
            continue;
        };
        let answer = answer.expect(range);
        let first = "0123456789".find(expected).expect("part of it");
        let content_range = format!("bytes {first}-{}/10", first + expected.len() - 1);
        assert_eq!(answer.content_range(), Some(content_range.as_str()));
        let body = answer.body.collect().await.expect("a body").into_bytes();
        assert_eq!(body, expected);
    }
}

#[tokio::test]
async fn keys_are_names_not_paths() {
    let site = Site::start().await;
    let keys = [
        "a b.txt",
        "a+b",
        "100%",
        "ü/☃.txt",
        "deep/er/est",
        "q?x=1",
        "#",
    ];
    for key in keys {
        site.put(key, key.to_owned()).await;
    }
    for key in keys {
        let answer = site.get(key).send().await.expect(key);
        let body = answer.body.collect().await.expect("a body").into_bytes();
        assert_eq!(body, key.as_bytes());
    }
    for missing in ["deep", "deep/", "deep/er", "deep//er/est", "b"] {
        assert_eq!(status(site.get(missing).send().await), 404, "{missing}");
    }
    let elsewhere = site.client.get_object().bucket("absent").key("a b.txt");
    let error = elsewhere.send().await.expect_err("no bucket");
    assert_eq!(
        error.into_service_error().meta().code(),
        Some("NoSuchBucket")
    );
    let delete = site
        .client
        .delete_object()
        .bucket("media")
        .key("deep//er/est");
    delete.send().await.expect("nothing to delete");
    assert!(site.get("deep/er/est").send().await.is_ok());
}

#[tokio::test]
async fn a_file_changed_by_hand_is_another_version() {
    let site = Site::start().await;
    std::fs::write(site.file("note"), "by hand").expect("a file");
    let first = site.tag("note").await;
    let adopted = inode(&site.file("note"));
    assert_eq!(site.tag("note").await, first);
    assert_eq!(inode(&site.file("note")), adopted, "adopted once");

    let put = site.put("note", "by S3").await;
    assert_eq!(site.tag("note").await, put);
    // A file moved over it with its old modification time, as `mv` and `cp -p` do.
    let elsewhere = site.folder.path().join("elsewhere");
    std::fs::write(&elsewhere, "by hand").expect("a file");
    std::fs::rename(&elsewhere, site.file("note")).expect("a rename");
    assert_eq!(
        site.tag("note").await,
        first,
        "the ETag is that of the bytes"
    );

    let head = site.get("note").send().await.expect("an answer");
    assert_eq!(head.content_type(), Some("text/x-test"));

    std::fs::remove_file(site.file("note")).expect("a removal");
    assert_eq!(status(site.get("note").send().await), 404);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_etag_never_comes_with_the_bytes_of_another_version() {
    let site = Arc::new(Site::start().await);
    let body = |n: u8| Bytes::from(vec![n; 20_000]);
    let mut tags = Vec::new();
    for n in 0..3 {
        tags.push(site.put("a", body(n)).await);
    }
    let done = Arc::new(AtomicBool::new(false));
    let readers = (0..4).map(|_| {
        let (site, tags, done) = (Arc::clone(&site), tags.clone(), Arc::clone(&done));
        tokio::spawn(async move {
            while !done.load(Ordering::Relaxed) {
                let answer = site.get("a").send().await.expect("an answer");
                let tag = answer.e_tag.expect("an etag");
                let read = answer.body.collect().await.expect("a body").into_bytes();
                let n = tags.iter().position(|t| *t == tag).expect("a known tag");
                assert_eq!(read, body(u8::try_from(n).expect("small")));
            }
        })
    });
    let readers: Vec<_> = readers.collect();
    for n in (0..3).cycle().take(90) {
        site.put("a", body(n)).await;
    }
    done.store(true, Ordering::Relaxed);
    for reader in readers {
        reader.await.expect("a reader without complaint");
    }
}

#[tokio::test]
async fn a_copy_does_not_reach_into_an_answer_begun() {
    let site = Site::start().await;
    let old = Bytes::from(vec![1; 24 << 20]);
    site.put("big", old.clone()).await;
    let tag = site.put("small", "two").await;
    let begun = site.get("big").send().await.expect("an answer");
    let copy = site.client.copy_object().bucket("media").key("big");
    copy.copy_source("media/small")
        .send()
        .await
        .expect("a copy");
    assert_eq!(site.tag("big").await, tag);
    let read = begun.body.collect().await.expect("a body").into_bytes();
    assert_eq!(read, old);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listing_shows_no_part_of_a_copy() {
    let site = Site::start().await;
    let size = 48 << 20;
    site.put("large", vec![7; size]).await;
    for round in 0..8 {
        let to = format!("copies/{round}");
        let copy = site.client.copy_object().bucket("media").key(&to);
        let copy = tokio::spawn(copy.copy_source("media/large").send());
        while !copy.is_finished() {
            let list = site.client.list_objects_v2().bucket("media");
            let found = list.prefix(&to).send().await.expect("a listing");
            for object in found.contents() {
                let whole = i64::try_from(size).expect("a size");
                assert_eq!(object.size(), Some(whole), "{to} is shown whole");
            }
        }
        copy.await.expect("no panic").expect("a copy");
    }
}

#[tokio::test]
async fn a_copy_keeps_headers_or_replaces_them_and_checks_its_source() {
    let site = Site::start().await;
    let tag = site.put("from", "bytes").await;
    let copy = |to: &str| {
        let copy = site.client.copy_object().bucket("media").key(to);
        copy.copy_source("media/from")
    };
    let other = copy("refused").copy_source_if_match("\"other\"").send();
    assert_eq!(status(other.await), 412);
    let present = copy("refused").copy_source_if_none_match(&tag).send();
    assert_eq!(status(present.await), 412);
    assert!(!site.origin.has("refused").await);
    let kept = copy("kept").copy_source_if_match(&tag).send();
    let kept = kept.await.expect("a copy").copy_object_result;
    assert_eq!(kept.and_then(|result| result.e_tag), Some(tag));
    // Onto itself, as a change of attributes is.
    let replaced = copy("from")
        .metadata_directive(aws_sdk_s3::types::MetadataDirective::Replace)
        .content_type("text/x-other")
        .metadata("mode", "33188")
        .send();
    replaced.await.expect("a copy");
    for (key, media_type, mode) in [
        ("kept", "text/x-test", None),
        ("from", "text/x-other", Some("33188")),
    ] {
        let found = site.get(key).send().await.expect("an object");
        assert_eq!(found.content_type(), Some(media_type), "{key}");
        let found_mode = found.metadata().and_then(|all| all.get("mode"));
        assert_eq!(found_mode.map(String::as_str), mode, "{key}");
        let bytes = found.body.collect().await.expect("bytes").into_bytes();
        assert_eq!(bytes, "bytes", "{key}");
    }
}

#[tokio::test]
async fn an_object_that_parts_have_replaced_is_copied() {
    let site = Site::start().await;
    let put = site.client.put_object().bucket("media").key("book");
    let summed = put
        .checksum_algorithm(aws_sdk_s3::types::ChecksumAlgorithm::Crc32C)
        .body(ByteStream::from_static(b"small"))
        .send();
    summed.await.expect("a put");
    let create = site.client.create_multipart_upload().bucket("media");
    let create = create.key("book").send().await.expect("an upload");
    let id = create.upload_id().expect("an id");
    let part = site.client.upload_part().bucket("media").key("book");
    let part = part.upload_id(id).part_number(1);
    let part = part.body(ByteStream::from_static(b"in parts")).send().await;
    let part = aws_sdk_s3::types::CompletedPart::builder()
        .part_number(1)
        .e_tag(part.expect("a part").e_tag().expect("a tag"))
        .build();
    let parts = aws_sdk_s3::types::CompletedMultipartUpload::builder();
    let complete = site.client.complete_multipart_upload().bucket("media");
    let complete = complete.key("book").upload_id(id);
    let complete = complete.multipart_upload(parts.parts(part).build()).send();
    complete.await.expect("completed");
    let copy = site.client.copy_object().bucket("media").key("moved");
    let copied = copy.copy_source("media/book").send().await;
    copied.expect("a copy");
    let got = site.get("moved").send().await.expect("an object");
    let bytes = got.body.collect().await.expect("bytes").into_bytes();
    assert_eq!(bytes, "in parts");
}

#[tokio::test]
async fn takes_objects_from_inside_and_keeps_them_over_a_restart() {
    let site = Site::start().await;
    let pieces = stream::iter(["one ", "two"].map(|s| Ok(Bytes::from(s))));
    site.origin
        .put("a/b", "text/plain", pieces)
        .await
        .expect("a put");
    assert!(site.origin.has("a/b").await && !site.origin.has("a").await);
    let broken = stream::iter([Ok(Bytes::from("one")), Err(std::io::Error::other("torn"))]);
    assert!(site.origin.put("c", "text/plain", broken).await.is_err());
    assert!(!site.origin.has("c").await);
    let tag = site.tag("a/b").await;

    let address = site.origin.endpoint().replace("http://", "");
    let Site { folder, origin, .. } = site;
    drop(origin);
    while tokio::net::TcpStream::connect(&address).await.is_ok() {
        tokio::task::yield_now().await;
    }
    let origin = EmbeddedOrigin::start(folder.path())
        .await
        .expect("an origin");
    let again = client(&origin, true);
    let head = again.head_object().bucket("media").key("a/b").send().await;
    let head = head.expect("a head");
    assert_eq!(head.e_tag(), Some(tag.as_str()));
    assert_eq!(head.content_type(), Some("text/plain"));
}

#[tokio::test]
async fn keys_are_listed_as_they_are() {
    let site = Site::start().await;
    for key in ["a+b", "f/50%25", "f/g/h"] {
        site.put(key, "x").await;
    }
    let settings = site.origin.settings("embedded");
    let metrics = tidegate_origin::Metrics::default();
    let origin = tidegate_origin::connect(&settings, &metrics).await;
    let list = async |prefix: &str| {
        let page = tidegate_origin::List {
            prefix: prefix.to_owned(),
            delimiter: true,
            after: None,
            limit: 1000,
        };
        let page = origin.as_ref().expect("settings").list(page).await;
        let page = page.expect("a page");
        let keys: Vec<_> = page.objects.into_iter().map(|object| object.key).collect();
        (keys, page.folders)
    };
    assert_eq!(
        list("").await,
        (vec!["a+b".to_owned()], vec!["f/".to_owned()])
    );
    let inner = (vec!["f/50%25".to_owned()], vec!["f/g/".to_owned()]);
    assert_eq!(list("f/").await, inner);
}
