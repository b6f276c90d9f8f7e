//! The demo's stage: valid samples, and folders and ports that are found or made.

use std::net::TcpListener;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::{Signal, getpid, kill_process};
use tidegate::demo::{ALL, DemoOptions, RunningGateway, Stage, run};
use zune_jpeg::JpegDecoder;
use zune_jpeg::zune_core::bytestream::ZCursor;

const LARGE_OBJECT: u64 = 3 << 20;

/// Returns options with free ports and a `large` sample of 3 MiB.
fn options(dir: Option<&Path>) -> DemoOptions {
    DemoOptions {
        dir: dir.map(Path::to_owned),
        port: 0,
        admin_port: 0,
        large: LARGE_OBJECT,
    }
}

fn file(dir: &Path, key: &str) -> PathBuf {
    dir.join("origin/media").join(key)
}

fn is_about(bytes: &[u8], kilobytes: usize) {
    let wanted = kilobytes * 1000;
    let near = wanted * 9 / 10..wanted * 11 / 10;
    assert!(
        near.contains(&bytes.len()),
        "{} is not about {wanted}",
        bytes.len()
    );
}

#[tokio::test]
async fn samples_decode_and_have_their_sizes() {
    let dir = tempfile::tempdir().expect("a folder");
    let stage = Stage::set(&options(Some(dir.path())))
        .await
        .expect("a stage");
    let read = |key: &str| std::fs::read(file(dir.path(), key)).expect(key);

    for (key, kilobytes, size) in [
        ("images/dawn.jpg", 35, (960, 600)),
        ("images/dusk.jpg", 51, (1120, 700)),
    ] {
        let bytes = read(key);
        is_about(&bytes, kilobytes);
        let mut decoder = JpegDecoder::new(ZCursor::new(&bytes));
        let pixels = decoder.decode().expect("a whole JPEG");
        assert_eq!(decoder.dimensions(), Some(size));
        assert_eq!(pixels.len(), 3 * size.0 * size.1);
    }

    let webp = read("images/night.webp");
    is_about(&webp, 468);
    let mut decoder =
        image_webp::WebPDecoder::new(std::io::Cursor::new(&webp)).expect("a WebP header");
    let mut pixels = vec![0; decoder.output_buffer_size().expect("a size")];
    decoder.read_image(&mut pixels).expect("a whole WebP");

    let wav = read("audio/tide-waltz.wav");
    let word = |at: usize| u32::from_le_bytes(wav[at..at + 4].try_into().expect("four bytes"));
    assert_eq!((&wav[..4], &wav[8..16]), (&b"RIFF"[..], &b"WAVEfmt "[..]));
    assert_eq!(word(4) as usize, wav.len() - 8);
    assert_eq!(word(40) as usize, wav.len() - 44);
    assert_eq!(word(40) / word(28), 180, "seconds");

    assert_eq!(read("large/offsets.bin").len() as u64, LARGE_OBJECT);
    for sample in ALL {
        assert!(!read(sample.key).is_empty(), "{}", sample.key);
    }
    drop(stage);
}

#[tokio::test]
async fn a_stage_gives_nothing_away_and_leaves_nothing_behind() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("an address").port();
    let mut options = options(None);
    options.port = port;
    let stage = Stage::set(&options).await.expect("a stage");
    let launch = stage.launch().expect("descriptors");

    let text = stage.guide().to_string();
    for secret in [
        launch.endpoint.trim_start_matches("http://"),
        &launch.credentials.access_key_id,
        &launch.credentials.secret_access_key,
        &std::fs::read_to_string(&launch.token_file).expect("a token"),
    ] {
        assert!(secret.len() > 8 && !text.contains(secret), "{secret}");
    }
    let mode = std::fs::metadata(&launch.token_file)
        .expect("a token")
        .mode();
    assert_eq!(mode & 0o777, 0o600);

    let address = launch.http.local_addr().expect("an address");
    assert_ne!(address.port(), port, "that one was taken");
    assert!(stage.guide().urls()[0].contains(&address.to_string()));

    assert!(launch.folder.is_dir());
    drop(stage);
    let folder = launch.folder.parent().expect("the demo's folder");
    assert!(!folder.exists());
}

#[tokio::test]
async fn a_named_folder_is_kept_and_used_again() {
    let dir = tempfile::tempdir().expect("a folder");
    drop(
        Stage::set(&options(Some(dir.path())))
            .await
            .expect("a stage"),
    );
    let note = file(dir.path(), "notes/changing.txt");
    std::fs::write(&note, "changed by hand").expect("a change");
    std::fs::remove_file(file(dir.path(), "style.css")).expect("a removal");
    let made = inode(&file(dir.path(), "images/dawn.jpg"));
    let token = std::fs::read(dir.path().join("token")).expect("a token");

    drop(
        Stage::set(&options(Some(dir.path())))
            .await
            .expect("a stage"),
    );
    assert_eq!(std::fs::read(&note).expect("a note"), b"changed by hand");
    assert_eq!(inode(&file(dir.path(), "images/dawn.jpg")), made);
    assert!(file(dir.path(), "style.css").exists());
    let anew = std::fs::read(dir.path().join("token")).expect("a token");
    assert_ne!(anew, token, "each start has a token of its own");
}

/// A gateway that only records that it was stopped.
struct Noted(Arc<AtomicBool>);

impl RunningGateway for Noted {
    async fn stop(self) -> anyhow::Result<()> {
        self.0.store(true, Ordering::Relaxed);
        Ok(())
    }
}

#[tokio::test]
async fn runs_until_it_is_told_to_stop_and_clears_up() {
    let stopped = Arc::new(AtomicBool::new(false));
    let mut folder = PathBuf::new();
    let start = |launch: tidegate::demo::Launch| {
        folder.clone_from(&launch.folder);
        // The handler was installed before the gateway started, so the signal does not end this
        // process.
        kill_process(getpid(), Signal::TERM).expect("a signal");
        std::future::ready(Ok(Noted(Arc::clone(&stopped))))
    };
    run(options(None), start).await.expect("an orderly end");
    assert!(stopped.load(Ordering::Relaxed));
    assert!(folder.ends_with("gateway") && !folder.exists());
}

fn inode(file: &Path) -> u64 {
    std::fs::metadata(file).expect("a file").ino()
}

#[cfg(feature = "real-parts")]
#[tokio::test]
async fn ffprobe_and_pdftotext_read_the_samples() {
    let dir = tempfile::tempdir().expect("a folder");
    let _stage = Stage::set(&options(Some(dir.path())))
        .await
        .expect("a stage");
    let ask = |program: &str, arguments: &[&str], key: &str| {
        let mut command = std::process::Command::new(program);
        let path = file(dir.path(), key);
        let output = command.args(arguments).arg(path).arg("-").output();
        let output = output.expect(program);
        assert!(output.stderr.is_empty(), "{program}: {output:?}");
        String::from_utf8(output.stdout).expect("text")
    };
    let show = [
        "-v",
        "error",
        "-show_entries",
        "stream=codec_name,width,duration",
        "-of",
        "csv=p=0",
    ];
    for (key, expected) in [
        ("images/dawn.jpg", "mjpeg,960"),
        ("images/night.webp", "webp,"),
        ("audio/tide-waltz.wav", "pcm_s16le,180.0"),
    ] {
        let path = file(dir.path(), key);
        let output = std::process::Command::new("ffprobe")
            .args(show)
            .arg(path)
            .output();
        let output = output.expect("ffprobe");
        let said = String::from_utf8(output.stdout).expect("text");
        assert!(
            said.starts_with(expected) && output.stderr.is_empty(),
            "{key}: {said}"
        );
    }
    let text = ask("pdftotext", &[], "documents/tidegate.pdf");
    assert!(text.contains("An HTTP media gateway") && text.contains("one fetch, shared"));
    assert_eq!(text.matches('\u{c}').count(), 2, "pages");
}

/// Files in a folder that the user names by mistake stay there.
#[tokio::test]
async fn a_folder_of_another_owner_is_left_alone() {
    let dir = tempfile::tempdir().expect("a folder");
    let theirs = dir.path().join("gateway/src");
    std::fs::create_dir_all(&theirs).expect("a folder");
    std::fs::write(dir.path().join("token"), "theirs").expect("a file");
    let refused = Stage::set(&options(Some(dir.path()))).await;
    let error = refused.expect_err("it is not empty").to_string();
    assert!(error.contains("not a folder of the demo"), "{error}");
    assert!(theirs.is_dir());
    let token = std::fs::read_to_string(dir.path().join("token"));
    assert_eq!(token.expect("it is there"), "theirs");
}
