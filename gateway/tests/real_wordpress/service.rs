//! Recipe 1 with the rights of its units: the gateway is a user of its own without capabilities, which mounts by
//! `fusermount3`; nginx and PHP are www-data, and nginx is in the group that may use the socket.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use loadtest::wordpress::{as_php_user, must};

use crate::plugins;
use crate::rights::USER;
use crate::world::World;

/// Number of sizes that WordPress makes of a photo, with the original.
const SIZES: usize = 6;

/// Returns a line of `/proc/PID/status` (proc_pid_status(5)).
fn status(pid: u32, name: &str) -> Result<Vec<String>> {
    let text = fs::read_to_string(format!("/proc/{pid}/status"))?;
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let words = line.context("no such line")?.split_whitespace();
    Ok(words.map(str::to_owned).collect())
}

/// Checks that the world has the rights of its units, no more.
fn has_no_more_rights(world: &World) -> Result<()> {
    let pid = world.gateway.pid().context("it runs")?;
    let user = must(Command::new("id").args(["-u", USER]))?;
    let user = String::from_utf8(user.stdout)?;
    ensure!(status(pid, "Uid:")? == [user.trim(); 4], "another user");
    ensure!(status(pid, "CapEff:")? == ["0000000000000000"]);
    // CAP_SYS_ADMIN alone (capability.h).
    ensure!(status(pid, "CapBnd:")? == [format!("{:016x}", 1 << 21)]);
    let socket = fs::metadata(world.home.socket())?;
    ensure!(socket.mode() & 0o777 == 0o660, "{:o}", socket.mode());
    let mut stranger = as_php_user("curl");
    stranger.arg("-sS").arg("--unix-socket");
    stranger.arg(world.home.socket()).arg("http://site/");
    ensure!(!stranger.output()?.status.success(), "it is let in");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_editor_and_plugins_work_with_the_rights_of_the_units() -> Result<()> {
    let mut world = World::with_the_units_rights().await;
    has_no_more_rights(&world)?;
    let editor = world.site.log_in()?;
    let media = editor.upload(&world.photo("photo.jpg", 1))?;
    world.is_well(&media, SIZES).await?;
    plugins::work(&world, &media).await?;
    // In order it unmounts by fusermount3, and after a kill it clears its mount away.
    for killed in [false, true] {
        match killed {
            true => world.gateway.kill()?,
            false => world.gateway.stop(),
        }
        let table = fs::read_to_string("/proc/self/mountinfo")?;
        let mount = world.site.places.uploads();
        let mount = mount.to_str().context("text")?;
        ensure!(
            table.contains(&format!(" {mount} ")) == killed,
            "killed: {killed}"
        );
        world.gateway.restart()?;
        world.shows(&media.paths)?;
    }
    let after = editor.upload(&world.photo("after.jpg", 2))?;
    world.is_well(&after, SIZES).await
}

/// What PHP has before each program: the file, the file to convert, and `$same`, which ends the test unless visitors have
/// what they had before.
const BEFORE: &str = r#"
$look = function () {
    $context = stream_context_create(['http' => ['ignore_errors' => true]]);
    $body = file_get_contents(URL, false, $context);
    $status = explode(' ', $http_response_header[0])[1];
    return [$status, $status === '200' ? md5($body) : ''];
};
$had = $look();
$same = function () use ($look, $had) {
    $look() === $had or die('visitors have ' . json_encode($look()) . ' in place of ' . json_encode($had));
};
"#;

/// Runs a program from PHP; then all have the expected bytes.
async fn runs(world: &World, name: &str, code: &str, expected: &[u8]) -> Result<()> {
    let path = format!("/wp-content/uploads/{name}");
    let file = world.file(&path);
    let said = world.site.php(&format!(
        "const URL = 'http://{}{path}';\n$file = '{}';\n$source = '{}';\n{BEFORE}\n{code}\necho 'done';",
        world.site.places.addr,
        file.display(),
        world.site.places.dir.join(SOURCE).display()
    ))?;
    ensure!(said == "done", "{said}");
    ensure!(fs::read(&file)? == expected, "other bytes");
    world.shows(std::slice::from_ref(&path))?;
    world.arrives(&[path]).await
}

/// The name of the file that programs convert, in the site's folder.
const SOURCE: &str = "converted";

/// Programs that a plugin runs, each of which writes a whole file: by itself, or by its shell's redirection; while PHP
/// has the file open, or has written to it already.
const PROGRAMS: [(&str, &str); 6] = [
    ("a program writes", "exec(\"cp $source $file\");"),
    ("a shell redirects", "exec(\"cat $source > $file\");"),
    (
        "a shell redirects, and takes its time",
        "$line = \"{ echo ready >&2; read go; cat $source; } > $file\";\n\
         $program = proc_open($line, [['pipe', 'r'], 2 => ['pipe', 'w']], $pipes);\n\
         fgets($pipes[2]) === \"ready\\n\" or die('not ready');\n\
         $same();\nfwrite($pipes[0], \"go\\n\");\nproc_close($program);",
    ),
    (
        "a program writes to PHP's file",
        "$handle = fopen($file, 'w');\n\
         proc_close(proc_open(\"cat $source\", [1 => $handle], $pipes));\nfclose($handle);",
    ),
    (
        "another program runs while PHP has the file open",
        "$handle = fopen($file, 'w');\nexec('true');\n$same();\n\
         fwrite($handle, file_get_contents($source));\nfclose($handle);",
    ),
    (
        "another program runs while PHP has written half",
        "$bytes = file_get_contents($source);\n$handle = fopen($file, 'w');\n\
         fwrite($handle, substr($bytes, 0, 70000));\nexec('true');\n$same();\n\
         fwrite($handle, substr($bytes, 70000));\nfclose($handle);",
    ),
];

/// Every program costs one PUT, for a new file and for one that it replaces. Visitors have what they had before until all
/// is written: never nothing, and never half.
#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_php_runs_is_one_put() -> Result<()> {
    let world = World::with_the_units_rights().await;
    let mut before = world.asked().await;
    for round in 0..2 {
        for (at, (what, code)) in (0_u8..).zip(PROGRAMS) {
            let bytes: Vec<u8> = (0..200_000_u32)
                .map(|n| (n % 241) as u8 ^ (at << 1 | round))
                .collect();
            fs::write(world.site.places.dir.join(SOURCE), &bytes)?;
            let ran = runs(&world, &format!("made-{at}.webp"), code, &bytes).await;
            ran.with_context(|| format!("{what}, round {round}"))?;
        }
        let asked = world.asked().await;
        let puts = asked.since(before).put;
        ensure!(puts == PROGRAMS.len() as u64, "round {round}: {puts} PUTs");
        before = asked;
    }
    Ok(())
}
