//! Other programs over the same bucket: s3fs reads the attributes that a mount has written, and a mount those that s3fs
//! has written; rclone reads the times.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use http::Method;
use tempfile::TempDir;

use super::minio::{SECRET, USER};
use super::{Desk, describe, run_in, same, until};

/// A bucket that s3fs has mounted.
struct S3fs {
    child: Child,
    folder: TempDir,
}

impl S3fs {
    async fn start(endpoint: &str, keys: &Path) -> Self {
        let folder = TempDir::new().expect("a folder");
        let options = format!(
            "url={endpoint},passwd_file={},use_path_request_style,stat_cache_expire=0",
            keys.display()
        );
        let child = Command::new("s3fs")
            .args(["media", &folder.path().display().to_string(), "-f", "-o"])
            .arg(options)
            .env_remove("AWS_CA_BUNDLE")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("s3fs is installed");
        let mounted = format!(" {} fuse.s3fs ", folder.path().display());
        until("s3fs has mounted the bucket", async || {
            std::fs::read_to_string("/proc/mounts").is_ok_and(|all| all.contains(&mounted))
        })
        .await;
        Self { child, folder }
    }
}

impl Drop for S3fs {
    fn drop(&mut self) {
        let unmount = Command::new("umount").arg(self.folder.path()).status();
        if !unmount.is_ok_and(|status| status.success()) {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}

/// Makes a folder with a script, a file of another user, a link and a folder of its own, each with a time of its own.
const MAKE: &str = "mkdir it; cd it; echo 1 > script; chmod 755 script; touch -d '2001-02-03 04:05:06' script
    echo 2 > file; chown 1234:5678 file; chmod 640 file; touch -d @1234567890 file
    ln -s file link; mkdir d; echo 3 > d/g; touch -d @1111111111 d/g; chmod 2750 d; touch -d @1000000000 d
    touch -h -d @1222222222 link; touch -d @1000000001 .";

async fn make(folder: &Path) {
    let made = run_in(folder, &["sh", "-ec", MAKE]).await;
    assert!(made.status.success(), "{made:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn s3fs_and_rclone_find_what_a_mount_has_set_and_a_mount_what_s3fs_has_set() {
    let (desk, home) = (Desk::shared().await, TempDir::new().expect("a folder"));
    let (keys, endpoint) = (home.path().join("keys"), desk.endpoint());
    std::fs::write(&keys, format!("{USER}:{SECRET}")).expect("written");
    let closed = run_in(home.path(), &["chmod", "600", "keys"]).await;
    assert!(closed.status.success());
    let s3fs = S3fs::start(&endpoint, &keys).await;

    make(&desk.path("")).await;
    desk.all_sent().await;
    let (ours, theirs) = (desk.path("it"), s3fs.folder.path().join("it"));
    same(&ours, &theirs, "as s3fs finds it").await;
    let remote = format!(
        ":s3,provider=Minio,endpoint='{endpoint}',access_key_id={USER},secret_access_key={SECRET}:media/it"
    );
    let times = Command::new("rclone")
        .args(["lsf", "--format", "tp", "--files-only", &remote])
        .env_remove("AWS_CA_BUNDLE")
        .env("TZ", "UTC")
        .env("RCLONE_CONFIG", "")
        .output()
        .expect("rclone is installed");
    let times = String::from_utf8(times.stdout).expect("text");
    for line in ["2001-02-03 04:05:06;script", "2009-02-13 23:31:30;file"] {
        assert!(times.lines().any(|found| found == line), "{line}: {times}");
    }

    // A mount finds a folder's attributes with its listing, and a file's when it is opened.
    let other = s3fs.folder.path().join("other");
    std::fs::create_dir(&other).expect("made");
    make(&other).await;
    let expected = describe(&other).await;
    let purged = desk
        .mounted
        .order(Method::POST, "/purge?path=/&prefix=true")
        .await;
    assert_eq!(purged.status, 200, "{purged:?}");
    let found = desk.path("other");
    let read = run_in(
        &found,
        &["sh", "-c", "cat it/script it/file it/link it/d/g"],
    )
    .await;
    assert_eq!(read.stdout, b"1\n2\n2\n3\n", "{read:?}");
    describe(&found).await;
    assert_eq!(describe(&found).await, expected, "as s3fs has left it");
    drop(s3fs);
    desk.stop().await;
}
