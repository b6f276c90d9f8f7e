//! What `docker/wordpress/compose.yaml` says beside its images: the script that prepares the volumes, run as it stands, and
//! its order, health and secrets, as the checker of `docker/check` sees them.

use std::ffi::CString;
use std::fs;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context as _, Result, ensure};
use loadtest::child::find_program;
use loadtest::wordpress::must;
use loadtest::wordpress::recipe;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use tempfile::TempDir;

const FILE: &str = "../docker/wordpress/compose.yaml";

/// The volumes of the service `prepare`, and its script.
struct Prepare {
    dir: TempDir,
    script: String,
}

impl Prepare {
    fn read() -> Result<Self> {
        let dir = TempDir::with_prefix("tidegate-compose-")?;
        for volume in ["run/database", "run/bucket", "run/gateway", "html", "mnt"] {
            fs::create_dir_all(dir.path().join(volume))?;
        }
        let text = recipe::read(FILE)?;
        let (_, service) = text.split_once("\n  prepare:\n").context("the service")?;
        let (head, script) = service.split_once("      - |\n").context("a script")?;
        ensure!(head.contains("entrypoint: [\"/bin/sh\", \"-euc\"]"));
        let inside = script
            .lines()
            .map_while(|line| line.strip_prefix("        "));
        let script = inside.collect::<Vec<_>>().join("\n").replace("$$", "$");
        let own = |name: &str| dir.path().join(name).display().to_string();
        let names = [
            ("/run/", own("run/")),
            ("/html", own("html")),
            ("/mnt/wordpress", own("mnt")),
        ];
        let script = recipe::replaced(&script, &names)?;
        Ok(Self { dir, script })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn run(&self) -> Result<Output> {
        Ok(Command::new("sh").args(["-euc", &self.script]).output()?)
    }

    fn secrets(&self) -> Result<Vec<String>> {
        let names = [
            "run/database/password",
            "run/bucket/secret",
            "run/gateway/token",
        ];
        let read = |name| {
            let mode = fs::metadata(self.path(name))?.permissions().mode();
            ensure!(mode & 0o777 == 0o444, "{name}: {mode:o}");
            Ok(fs::read_to_string(self.path(name))?)
        };
        names.into_iter().map(read).collect()
    }
}

impl Drop for Prepare {
    fn drop(&mut self) {
        let uploads = self.path("mnt/uploads");
        let _ = unmount(&uploads, UnmountFlags::DETACH);
        let _ = Command::new("chattr").arg("-i").arg(uploads).output();
    }
}

/// Makes a mount whose process is gone, as a killed gateway leaves it.
fn leave_a_mount(path: &Path) -> Result<()> {
    let device = fs::File::options()
        .read(true)
        .write(true)
        .open("/dev/fuse")?;
    let number = device.as_raw_fd();
    let data = format!("fd={number},rootmode=40000,user_id=0,group_id=0");
    let data = CString::new(data)?;
    mount(
        "tidegate",
        path,
        "fuse",
        MountFlags::empty(),
        data.as_c_str(),
    )?;
    drop(device);
    ensure!(fs::metadata(path).is_err(), "it answers");
    Ok(())
}

#[test]
fn the_volumes_are_prepared_once_and_survive_a_gateway_that_was_killed() -> Result<()> {
    let prepare = Prepare::read()?;
    must(Command::new("sh").args(["-euc", &prepare.script]))?;
    let secrets = prepare.secrets()?;
    for (n, secret) in secrets.iter().enumerate() {
        ensure!(secret.len() == 40 && !secrets[..n].contains(secret));
        ensure!(!secret.contains(['+', '/', '\n']), "it goes into headers");
    }
    let (link, beneath) = (
        prepare.path("html/wp-content/uploads"),
        prepare.path("mnt/uploads"),
    );
    let is_there = || fs::read_link(&link).is_ok_and(|to| to == beneath);
    ensure!(is_there());
    let mode = fs::metadata(&beneath)?.permissions().mode();
    ensure!(mode & 0o777 == 0o555, "{mode:o}");
    must(Command::new("sh").args(["-euc", &prepare.script]))?;
    leave_a_mount(&beneath)?;
    must(Command::new("sh").args(["-euc", &prepare.script]))?;
    ensure!(is_there() && prepare.secrets()? == secrets);
    Ok(())
}

#[test]
fn a_folder_with_uploads_is_not_passed_over() -> Result<()> {
    let prepare = Prepare::read()?;
    let uploads = prepare.path("html/wp-content/uploads");
    fs::create_dir_all(uploads.join("2026"))?;
    fs::write(uploads.join("2026/photo.jpg"), "a photo")?;
    let output = prepare.run()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.code() == Some(1), "{output:?}");
    ensure!(said.contains("copy them into the bucket"), "{said}");
    ensure!(fs::read(uploads.join("2026/photo.jpg"))? == b"a photo");
    // An empty one has nothing to lose, and a link to elsewhere is replaced.
    fs::remove_dir_all(uploads.join("2026"))?;
    ensure!(prepare.run()?.status.success());
    ensure!(fs::read_link(&uploads)? == prepare.path("mnt/uploads"));
    fs::remove_file(&uploads)?;
    symlink("/nowhere", &uploads)?;
    ensure!(prepare.run()?.status.success());
    ensure!(fs::read_link(&uploads)? == prepare.path("mnt/uploads"));
    Ok(())
}

/// Runs the checker on the compose file, in a copy of `docker/` in which `change` was made to it, beside `config/`.
fn checked(change: impl FnOnce(String) -> String) -> Result<Output> {
    let program = find_program("TIDEGATE_COMPOSE_CHECK", &["compose-check"]);
    let program = program.context("compose-check is missing: loadtest/setup --compose")?;
    let dir = TempDir::with_prefix("tidegate-compose-")?;
    let top = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let folders = ["docker", "config"].map(|name| top.join(name));
    must(Command::new("cp").arg("-r").args(folders).arg(dir.path()))?;
    let file = dir.path().join("docker/wordpress/compose.yaml");
    fs::write(&file, change(fs::read_to_string(&file)?))?;
    Ok(Command::new(program).arg(&file).output()?)
}

/// Mistakes in the file: the text that a mistake replaces, its own text, and the words by which the checker tells of it.
const MISTAKES: [(&str, &str, &str); 10] = [
    (
        "    restart: unless-stopped\n\nvolumes:",
        "\nvolumes:",
        "nginx: it runs long, and is not restarted",
    ),
    (
        "      start_period: 60s\n      retries: 12\n    restart: unless-stopped\n\n  minio",
        "      disable: true\n    restart: unless-stopped\n\n  minio",
        "wordpress: waits for the health of database, which has no check",
    ),
    (
        "    pid: host\n",
        "",
        "gateway: its mount sees no processes of other containers",
    ),
    (
        "propagation: rshared",
        "propagation: rslave",
        "gateway: mounts below",
    ),
    (
        "gateway: { condition: service_healthy }\n    environment",
        "bucket: { condition: service_completed_successfully }\n    environment",
        "wordpress: does not wait for gateway",
    ),
    (
        "    stop_grace_period: 120s\n",
        "",
        "gateway: it is killed before",
    ),
    (
        "MARIADB_PASSWORD_FILE: /run/database/password",
        "MARIADB_PASSWORD: secret",
        "MARIADB_PASSWORD is written down",
    ),
    (
        "      - gateway-secret:/run/gateway:ro\n",
        "",
        "/run/gateway/token is in no volume",
    ),
    (
        "      - bucket-secret:/run/bucket:ro\n      - gateway",
        "      - bucket-secret:/run/bucket\n      - gateway",
        "bucket-secret is written by",
    ),
    (
        "minio/minio:RELEASE.2025-09-07T16-13-09Z",
        "minio/minio",
        "minio: the image has no version",
    ),
];

#[test]
fn the_checker_takes_the_file_and_finds_what_is_taken_out_of_it() -> Result<()> {
    ensure!(checked(|text| text)?.status.success());
    for (there, instead, complaint) in MISTAKES {
        let output = checked(|text| {
            assert!(text.contains(there), "{there}");
            text.replacen(there, instead, 1)
        })?;
        let said = String::from_utf8_lossy(&output.stdout);
        ensure!(
            !output.status.success() && said.contains(complaint),
            "{there}: {said}"
        );
    }
    Ok(())
}
