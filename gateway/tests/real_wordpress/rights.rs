//! The rights of `tidegate-mount.service`.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use loadtest::wordpress::must;
use loadtest::wordpress::recipe::{self, Home};

/// The user and group of the gateway, which every Debian has; those of the unit are `tidegate-mount`.
pub(crate) const USER: &str = "daemon";

/// Returns an option of the unit.
fn option(unit: &str, name: &str) -> Result<String> {
    let value = unit.lines().find_map(|line| line.strip_prefix(name));
    Ok(value.with_context(|| name.to_owned())?.to_owned())
}

/// Gives the gateway's folder to its user, and returns a program that runs `program` as the unit does. In its mount
/// namespace `fuse.conf` has the line that the recipe adds, and `/dev/fuse` the mode that udev gives it; mounts are seen
/// outside.
pub(crate) fn program(home: &Home, program: &Path) -> Result<PathBuf> {
    let unit = recipe::read("systemd/tidegate-mount.service")?;
    let mask = option(&unit, "UMask=")?;
    let capabilities = option(&unit, "CapabilityBoundingSet=CAP_")?.to_lowercase();
    ensure!(unit.contains("echo user_allow_other >> /etc/fuse.conf"));
    let script = home.dir.join("run");
    let conf = home.dir.join("fuse.conf");
    fs::write(&conf, "user_allow_other\n")?;
    let device = home.dir.join("fuse");
    let mut make = Command::new("mknod");
    must(
        make.arg("--mode=0666")
            .arg(&device)
            .args(["c", "10", "229"]),
    )?;
    // The user may not be able to enter the folders above the program, so it has it as a descriptor.
    let text = format!(
        "#!/bin/sh\nexec unshare --mount --propagation unchanged sh -ec '\nmount --make-private /\n\
         mount --bind {} /etc/fuse.conf\nmount --bind {} /dev/fuse\numask {mask}\nexec 9<{}\n\
         exec setpriv --reuid {USER} --regid {USER} --clear-groups --inh-caps=-all \
         --bounding-set=-all,+{capabilities} /proc/self/fd/9 \"$@\"' sh \"$@\"\n",
        conf.display(),
        device.display(),
        program.display()
    );
    fs::write(&script, text)?;
    for (path, mode) in [
        (home.dir.clone(), 0o750),
        (home.dir.join("token"), 0o600),
        (home.dir.join("s3-secret"), 0o600),
        (script.clone(), 0o755),
    ] {
        fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    }
    let owner = format!("{USER}:{USER}");
    must(Command::new("chown").args(["-R", &owner]).arg(&home.dir))?;
    Ok(script)
}
