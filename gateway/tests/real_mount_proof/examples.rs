//! The examples of SEMANTICS.md, run as they are, and the view of two mounts on one another.

use std::path::Path;

use crate::bucket::Bucket;
use crate::desk::{Desk, sample, until};
use crate::minio::Minio;
use crate::mount::{Folder, Mounted, blocking};

/// Returns the shell's lines between "**Examples**" and the next heading.
fn examples() -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/SEMANTICS.md");
    let text = std::fs::read_to_string(path).expect("the document");
    let (_, rest) = text.split_once("**Examples**").expect("the section");
    let (section, _) = rest.split_once("\n**").expect("another one follows");
    let blocks = section.split("```sh\n").skip(1);
    let blocks = blocks.map(|block| block.split("```").next().expect("its end").to_owned());
    blocks.collect()
}

/// Returns the script of an example. A line with `!` before it must fail, which `set -e` would let
/// pass.
fn script(example: &str, http: &str) -> String {
    let lines = example.lines().map(|line| match line.strip_prefix("! ") {
        Some(refused) => format!("if {refused}; then exit 1; fi\n"),
        None => format!("{line}\n"),
    });
    format!("set -eux\nhttp={http}\n{}", lines.collect::<String>())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_examples_of_semantics_are_so() {
    let desk = Desk::start("").await;
    let http = format!("http://{}", desk.mounted.gateway.http);
    let examples = examples();
    assert!(examples.len() >= 5, "{examples:?}");
    for example in examples {
        let line = ["sh", "-c", &script(&example, &http)];
        let ended = desk.mounted.run(&line).await;
        let said = String::from_utf8_lossy(&ended.stderr);
        assert!(ended.status.success(), "{example}\n{said}");
    }
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_one_mount_changes_another_shows() {
    let minio = Minio::start().await;
    let settings = minio.settings("media");
    let bucket = Bucket::create(&settings).await;
    bucket.put("file", sample(1, 300_000)).await;
    bucket.put("gone", "x").await;
    bucket.put("old", "moved").await;
    let (other, spool) = (Folder::new(), tempfile::tempdir().expect("a folder"));
    // The kernels may keep their knowledge for an hour.
    let lines = format!(
        "writable = true\n[[mount]]\npath = \"{}\"\n[spool]\npath = \"{}\"\n\
         [[route]]\norigin = \"o\"\nprofile = \"p\"\n[profile.p]\nextends = \"web\"\nttl = \"1h\"\n",
        other.path().display(),
        spool.path().display()
    );
    let mounted = Mounted::start(&settings, &lines).await;
    let there = other.path();
    let shown = |name: &str| {
        let path = there.join(name);
        blocking(move || std::fs::read(path).ok())
    };
    let size = |name: &str| {
        let path = there.join(name);
        blocking(move || std::fs::metadata(path).ok().map(|it| it.len()))
    };
    assert!(shown("file").await == Some(sample(1, 300_000)));
    assert_eq!(shown("gone").await.as_deref(), Some(&b"x"[..]));
    assert_eq!(shown("old").await.as_deref(), Some(&b"moved"[..]));
    let path = mounted.path("file");
    blocking(move || std::fs::write(path, sample(2, 200_000)).expect("written")).await;
    until("the other shows its size", async || {
        size("file").await == Some(200_000)
    })
    .await;
    assert!(shown("file").await == Some(sample(2, 200_000)));
    mounted.says(&["rm", "gone"]).await;
    until("the other has lost it", async || {
        size("gone").await.is_none()
    })
    .await;
    mounted.says(&["mv", "old", "new"]).await;
    until("the other has it under its new name", async || {
        size("old").await.is_none() && shown("new").await.as_deref() == Some(b"moved")
    })
    .await;
    mounted.gateway.stop().await;
}
