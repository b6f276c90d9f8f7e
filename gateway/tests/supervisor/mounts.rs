//! The messages to a supervisor about mounts. The tests need root and /dev/fuse.

use std::fs::File;
use std::io::Write as _;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::mount::{Folder, blocking};
use super::serving::Serving;
use super::world::World;
use super::{Supervisor, next};

#[tokio::test(flavor = "multi_thread")]
async fn a_supervisor_is_shown_how_much_of_the_spool_is_sent() {
    let world = World::new().await;
    let (folder, supervisor) = (Folder::new(), Supervisor::new());
    let toml = format!(
        "{}[spool]\npath = \"{}\"\n[[mount]]\npath = \"{}\"\nwritable = true\ncommit = \"background\"\n",
        world.config(""),
        world.folder.path().join("spool").display(),
        folder.path().display(),
    );
    let mut serving = Serving::configured(&toml);
    serving.start().await;
    let path = folder.path();
    let create = move || ["a", "b"].map(|name| File::create(path.join(name)).expect("created"));
    let files = blocking(create).await;
    world.door.shut();
    blocking(move || {
        for mut file in files {
            file.write_all(b"bytes").expect("written");
            file.sync_all().expect("promised");
        }
    })
    .await;
    serving.kill();
    folder.let_go();
    serving.launch(&[("NOTIFY_SOCKET", &supervisor.path)]);
    let supervisor = supervisor.shows("sending the spool: 0 of 2").await;
    let answer = serving.look("/readyz").await;
    let text = answer.text();
    assert_eq!(answer.status, 503, "{text}");
    assert!(text.contains("\nsending the spool: 0 of 2\n"), "{text}");
    world.door.open();
    supervisor.shows("serving").await;
    serving.end().await;
}

/// `tidegate mount` alone: told ready is mounted.
#[tokio::test(flavor = "multi_thread")]
async fn a_supervisor_is_told_when_a_single_mount_stands_and_when_it_ends() {
    for signal in [Signal::TERM, Signal::HUP] {
        a_mount_is_told_of(signal).await;
    }
}

/// Runs a mount until it is sent a signal.
async fn a_mount_is_told_of(signal: Signal) {
    let world = World::new().await;
    world.put("one.txt", b"bytes").await;
    let (folder, supervisor) = (Folder::new(), Supervisor::new());
    let serving = Serving::configured(&world.config(""));
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    command.arg("mount").arg(folder.path());
    command.arg("--config").arg(serving.config());
    command.env("NOTIFY_SOCKET", &supervisor.path);
    command.env("WATCHDOG_USEC", "40000");
    let mut child = command.stdin(Stdio::null()).spawn().expect("it starts");
    let file = folder.path().join("one.txt");
    let (supervisor, read) = blocking(move || {
        assert_eq!(next(&supervisor), "READY=1");
        let read = std::fs::read(file).expect("it is mounted");
        while supervisor.receive() != "WATCHDOG=1" {}
        (supervisor, read)
    })
    .await;
    assert_eq!(read, b"bytes");
    kill_process(Pid::from_child(&child), signal).expect("told");
    blocking(move || assert_eq!(next(&supervisor), "STOPPING=1")).await;
    let ended = blocking(move || child.wait().expect("it ends")).await;
    assert!(ended.success(), "{ended}");
}
