//! Recipe 1 with a folder beneath the mount that programs can write to, and have written to: `tidegate check`, and
//! the logs of `serve` and `mount` at the start, say so.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};
use loadtest::child::Server;
use loadtest::wordpress::gateway::Gateway;
use loadtest::wordpress::recipe::{self, Home};
use loadtest::wordpress::{Places, must};

use crate::world::{PROGRAM, Store};

/// Returns what `tidegate check` says of a configuration.
fn check(file: &Path) -> Result<String> {
    let mut command = Command::new(PROGRAM);
    let output = must(command.arg("check").arg("--config").arg(file))?;
    let said = [output.stdout, output.stderr].concat();
    Ok(String::from_utf8(said)?)
}

/// Returns what `tidegate mount` logs. Its log is whole once it has ended: lines are written behind the work.
fn mounting(file: &Path, folder: &Path) -> Result<String> {
    let mut command = Command::new(PROGRAM);
    command.arg("mount").arg("--config").arg(file).arg(folder);
    let log = file.with_file_name("mount.log");
    let above = fs::metadata(folder.join(".."))?.dev();
    let ready = || fs::metadata(folder).is_ok_and(|it| it.dev() != above);
    drop(Server::start_when(command, &log, ready)?);
    Ok(fs::read_to_string(log)?)
}

#[tokio::test(flavor = "multi_thread")]
async fn files_beneath_the_mount_point_are_told_by_check_serve_and_mount() -> Result<()> {
    let store = Store::start().await?;
    let places = Places::lay_out(&store.dir.path().join("site"))?;
    let home = Home::make(store.dir.path().join("gateway"))?;
    let origin = store.origin();
    let toml = recipe::gateway("wordpress-mount.toml", &home, &places.root, &origin)?;
    let file = home.dir.join("tidegate.toml");
    fs::write(&file, &toml)?;
    let folder = places.uploads();
    let start = || {
        drop(Gateway::start(
            Path::new(PROGRAM),
            &home,
            &toml,
            Some(folder.clone()),
        )?);
        anyhow::Ok(fs::read_to_string(home.dir.join("tidegate.log"))?)
    };
    let shown = folder.display();
    let warnings = [
        format!("there are files beneath the mount point {shown}, which a mount hides: lost.jpg;"),
        format!("while {shown} is not mounted, programs of the user 33 could write beneath it"),
    ];

    fs::set_permissions(&folder, Permissions::from_mode(0o777))?;
    fs::write(folder.join("lost.jpg"), "a photo")?;
    for (place, said) in [
        ("check", check(&file)?),
        ("the log", start()?),
        ("mount", mounting(&file, &folder)?),
    ] {
        for warning in &warnings {
            ensure!(said.contains(warning), "{place} does not warn: {said}");
        }
    }
    // As those lines say.
    fs::remove_file(folder.join("lost.jpg"))?;
    must(Command::new("chown").arg("root").arg(&folder))?;
    fs::set_permissions(&folder, Permissions::from_mode(0o555))?;
    for (place, said) in [
        ("check", check(&file)?),
        ("the log", start()?),
        ("mount", mounting(&file, &folder)?),
    ] {
        for words in ["files beneath", "programs of the user"] {
            ensure!(!said.contains(words), "{place} still warns: {said}");
        }
    }
    Ok(())
}
