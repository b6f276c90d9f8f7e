//! Names that the store, or a key, cannot have: each call says so, and nothing waits for ever.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::Path;

use rustix::io::Errno;

use crate::desk::{Desk, until};
use crate::mount::blocking;

/// Returns the error of a call.
fn errno<T>(done: std::io::Result<T>) -> Option<Errno> {
    let error = done.err()?;
    Some(Errno::from_io_error(&error).expect("an error of the system"))
}

/// Makes files, links and folders with names of so many bytes, and renames onto them. MinIO takes files of any name that
/// a mount takes, and folders of 246 bytes.
fn make_names(root: &Path, length: usize) {
    let name = |first: &str| first.to_owned() + &"n".repeat(length - first.len());
    std::fs::write(root.join(name("written")), "bytes").expect("written");
    std::fs::write(root.join("short"), "bytes").expect("written");
    std::fs::rename(root.join("short"), root.join(name("renamed"))).expect("renamed");
    std::os::unix::fs::symlink("target", root.join(name("link"))).expect("a link");
    drop(std::fs::File::create(root.join(name("empty"))).expect("made"));
    let refused = (length > 246).then_some(Errno::NAMETOOLONG);
    let made = std::fs::create_dir(root.join(name("made")));
    assert_eq!(errno(made), refused, "{length}");
    let folder = root.join(format!("folder{length}"));
    std::fs::create_dir(&folder).expect("made");
    let moved = std::fs::rename(&folder, root.join(name("empty folder")));
    assert_eq!(errno(moved), refused, "{length}");
    let _ = std::fs::create_dir(&folder);
    std::fs::write(folder.join("file"), "in it").expect("written");
    let moved = std::fs::rename(&folder, root.join(name("moved")));
    assert_eq!(errno(moved), refused, "{length}");
    let now = match refused {
        Some(_) => folder,
        None => root.join(name("moved")),
    };
    assert_eq!(std::fs::read(now.join("file")).expect("there"), b"in it");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_minio_does_not_take_is_too_long() {
    for commit in ["close", "background"] {
        let desk = Desk::start(&format!("commit = \"{commit}\"\n")).await;
        for length in [246, 247, 255] {
            let root = desk.path("");
            blocking(move || make_names(&root, length)).await;
        }
        let listed = desk.mounted.says(&["ls", "-A"]).await;
        let pending = async || desk.mounted.gateway.look("/pending").await.text();
        until("nothing waits", async || {
            pending().await.contains("\"pending\":[]")
        })
        .await;
        let desk = desk.restart(true).await;
        assert_eq!(desk.mounted.says(&["ls", "-A"]).await, listed, "{commit}");
        for (length, name) in [246, 247, 255].into_iter().flat_map(|length| {
            let names = ["written", "renamed"].map(|first| (length, first));
            names.into_iter()
        }) {
            let key = name.to_owned() + &"n".repeat(length - name.len());
            let stored = desk.stored(&key).await.expect("in the bucket");
            assert_eq!(stored, b"bytes", "{commit}: {key}");
        }
        desk.stop().await;
    }
}

/// A key is text: no object can have the name, and the kernel's own calls are told so.
#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_is_no_text_is_an_illegal_sequence() {
    let desk = Desk::start("").await;
    let root = desk.path("");
    blocking(move || {
        let odd = root.join(OsString::from_vec(b"caf\xe9".to_vec()));
        std::fs::write(root.join("file"), "x").expect("written");
        let illegal = Some(Errno::ILSEQ);
        assert_eq!(errno(std::fs::metadata(&odd)), Some(Errno::NOENT));
        assert_eq!(errno(std::fs::write(&odd, "x")), illegal);
        assert_eq!(errno(std::fs::create_dir(&odd)), illegal);
        assert_eq!(errno(std::fs::rename(root.join("file"), &odd)), illegal);
        assert_eq!(errno(std::os::unix::fs::symlink("x", &odd)), illegal);
        let link = root.join("link");
        assert_eq!(errno(std::os::unix::fs::symlink(&odd, link)), illegal);
    })
    .await;
    assert_eq!(desk.mounted.says(&["ls", "-A"]).await, "file\n");
    desk.stop().await;
}
