//! The drop-in of systemd for recipe 1, line by line: a gateway that is not root's mounts on the folder that the drop-in's
//! head makes, and no program writes beneath it before and after.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use loadtest::wordpress::gateway::Gateway;
use loadtest::wordpress::must;
use loadtest::wordpress::recipe::{self, Home};

use crate::world::{PROGRAM, Store, until};

/// The drop-in, for a folder of the test and a user that every system has.
struct DropIn(String);

impl DropIn {
    fn read(root: &Path, chattr: &str) -> Result<Self> {
        let file = "systemd/wordpress/tidegate-mount.service.d/wordpress.conf";
        let names = [
            ("/var/www/wordpress", root.display().to_string()),
            (
                "-o tidegate-mount -g tidegate-mount",
                "-o nobody -g nogroup".to_owned(),
            ),
            ("/usr/bin/chattr", chattr.to_owned()),
        ];
        recipe::replaced(&recipe::read(file)?, &names).map(Self)
    }

    /// Does what the head says: makes the folder, and closes it if the file system can.
    fn install(&self) -> Result<()> {
        let says = |command: &str| {
            let mut lines = self.0.lines().filter_map(|line| line.strip_prefix("#   "));
            lines
                .find(|line| line.starts_with(command))
                .map(str::to_owned)
        };
        must(&mut shell(&says("install -d ").context("a folder")?))?;
        must(&mut shell(&says("chattr +i ").context("a flag")?)).map(drop)
    }

    /// Runs the commands of a key as systemd does: with `-` one may fail.
    fn run(&self, key: &str) -> Result<()> {
        let mut count = 0;
        for line in self.0.lines().filter_map(|line| line.strip_prefix(key)) {
            let command = line.trim_start_matches(['+', '-']);
            let may_fail = line[..line.len() - command.len()].contains('-');
            let done = must(&mut shell(command));
            ensure!(may_fail || done.is_ok(), "{line}: {done:?}");
            count += 1;
        }
        ensure!(count > 0, "no {key}");
        Ok(())
    }
}

fn shell(command: &str) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", command]);
    shell
}

/// A file system in memory, which has the flag. What was mounted in it goes with it.
struct Disk(PathBuf);

impl Disk {
    fn mounted(path: PathBuf) -> Result<Self> {
        fs::create_dir(&path)?;
        must(
            Command::new("mount")
                .args(["-t", "tmpfs", "disk"])
                .arg(&path),
        )?;
        Ok(Self(path))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let flags = rustix::mount::UnmountFlags::DETACH;
        let _ = rustix::mount::unmount(&self.0, flags);
    }
}

/// Writes a program that runs the gateway as another user than root, who can reach no build folder.
fn as_other_user(dir: &Path) -> Result<PathBuf> {
    let (copy, script) = (dir.join("tidegate"), dir.join("as-other-user"));
    if fs::hard_link(PROGRAM, &copy).is_err() {
        fs::copy(PROGRAM, &copy)?;
    }
    let user = "--reuid nobody --regid nogroup --clear-groups";
    let text = format!("#!/bin/sh\nexec setpriv {user} {} \"$@\"\n", copy.display());
    fs::write(&script, text)?;
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755))?;
    Ok(script)
}

fn is_mounted(path: &Path) -> bool {
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let wanted = format!(" {} ", path.display());
    table
        .lines()
        .any(|line| line.contains(&wanted) && line.contains(" - fuse"))
}

/// Mounts twice, with a kill and an orderly end. `chattr`: the program of that name.
async fn lives(chattr: &str) -> Result<()> {
    let store = Store::start().await?;
    let dir = store.dir.path();
    fs::set_permissions(dir, fs::Permissions::from_mode(0o711))?;
    // As udev makes it.
    fs::set_permissions("/dev/fuse", fs::Permissions::from_mode(0o666))?;
    let disk = Disk::mounted(dir.join("disk"))?;
    let uploads = disk.0.join("wp-content/uploads");
    let drop_in = DropIn::read(&disk.0, chattr)?;
    drop_in.install()?;
    let is_closed = || fs::write(uploads.join("file"), "lost").is_err();
    ensure!(is_closed(), "root writes beneath, after what the head says");
    let home = Home::make(dir.join("gateway"))?;
    let toml = recipe::gateway("wordpress-mount.toml", &home, &disk.0, &store.origin())?;
    // The machine's /etc/fuse.conf need not have `user_allow_other`.
    let alone = [("allow_other = true", "allow_other = false".to_owned())];
    let toml = recipe::replaced(&toml, &alone)?;
    must(
        Command::new("chown")
            .args(["-R", "nobody:nogroup"])
            .arg(&home.dir),
    )?;
    let program = as_other_user(dir)?;
    if chattr == "/bin/false" {
        // The flag that the head's line has set here does not exist there.
        must(Command::new("chattr").arg("-i").arg(&uploads))?;
    }
    for kill in [true, false] {
        drop_in.run("ExecStartPre=")?;
        let mut gateway = Gateway::start(&program, &home, &toml, None)?;
        until(async || is_mounted(&uploads)).await?;
        match kill {
            true => gateway.kill()?,
            false => gateway.stop(),
        }
        // Once it has ended in order, its log is whole.
        let log = fs::read_to_string(home.dir.join("tidegate.log"))?;
        ensure!(!log.contains("could write beneath"), "{log}");
        drop_in.run("ExecStopPost=")?;
        ensure!(!is_mounted(&uploads), "its mount is left");
        ensure!(is_closed() || chattr == "/bin/false", "root writes beneath");
    }
    must(Command::new("chattr").arg("-i").arg(&uploads)).map(drop)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_drop_in_mounts_as_its_own_user_and_closes_the_folder_beneath() -> Result<()> {
    lives("/usr/bin/chattr").await
}

#[tokio::test(flavor = "multi_thread")]
async fn the_drop_in_mounts_where_the_file_system_has_no_such_flag() -> Result<()> {
    lives("/bin/false").await
}
