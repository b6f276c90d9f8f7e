//! The configuration of a mount takes effect: the owner of its files, and access by other users.

use crate::desk::Desk;

/// The start of a command line that runs as a user other than root and the owner.
const ANOTHER_USER: [&str; 4] = [
    "setpriv",
    "--reuid=65534",
    "--regid=65534",
    "--clear-groups",
];

/// Reads a file as another user: returns its text or the error.
async fn read_as_another_user(desk: &Desk) -> Result<String, String> {
    let read = desk
        .mounted
        .run(&[&ANOTHER_USER[..], &["cat", "file"]].concat())
        .await;
    let text = |bytes| String::from_utf8(bytes).expect("text");
    match read.status.success() {
        true => Ok(text(read.stdout)),
        false => Err(text(read.stderr)),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn owners_permissions_and_space_are_as_configured() {
    let desk =
        Desk::start("attributes = \"none\"\nuid = 1234\ngid = 4321\numask = \"027\"\n").await;
    // The spool, of which nothing is used yet: 16 GiB in blocks of 4 KiB.
    let space = desk
        .mounted
        .says(&["stat", "-f", "-c", "%S %b %f %a %l", "."])
        .await;
    assert_eq!(space, "4096 4194304 4194304 4194304 255\n");
    desk.mounted
        .says(&["sh", "-c", "mkdir folder && echo here > file"])
        .await;
    let shown = desk
        .mounted
        .says(&["stat", "-c", "%u %g %a %F", "folder", "file"])
        .await;
    assert_eq!(
        shown,
        "1234 4321 750 directory\n1234 4321 640 regular file\n"
    );
    let refused = read_as_another_user(&desk)
        .await
        .expect_err("no other user may look");
    assert!(refused.contains("Permission denied"), "{refused}");
    desk.stop().await;
}

/// The permissions let every user read: the kernel refuses all users but the one that mounted it.
#[tokio::test(flavor = "multi_thread")]
async fn others_may_not_look_unless_it_is_allowed() {
    let desk = Desk::start("umask = \"022\"\n").await;
    desk.mounted.says(&["sh", "-c", "echo here > file"]).await;
    let shown = desk.mounted.says(&["stat", "-c", "%a", ".", "file"]).await;
    assert_eq!(shown, "755\n644\n");
    let refused = read_as_another_user(&desk)
        .await
        .expect_err("it is not allowed");
    assert!(refused.contains("Permission denied"), "{refused}");
    desk.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn others_may_look_where_it_is_allowed_and_permissions_count() {
    let desk = Desk::start("allow_other = true\n").await;
    desk.mounted.says(&["sh", "-c", "echo here > file"]).await;
    assert_eq!(read_as_another_user(&desk).await.as_deref(), Ok("here\n"));
    let line = [
        &ANOTHER_USER[..],
        &["sh", "-c", "echo mine > other || rm -f file"],
    ]
    .concat();
    assert!(
        !desk.mounted.run(&line).await.status.success(),
        "root's alone"
    );
    desk.is("file", b"here\n").await;
    desk.stop().await;
    let desk = Desk::start("allow_other = true\numask = \"077\"\n").await;
    desk.mounted.says(&["sh", "-c", "echo here > file"]).await;
    let refused = read_as_another_user(&desk)
        .await
        .expect_err("not even to be read");
    assert!(refused.contains("Permission denied"), "{refused}");
    desk.stop().await;
}
