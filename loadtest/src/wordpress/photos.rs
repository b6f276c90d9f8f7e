//! Photos, documents and films to upload.

use std::path::Path;
use std::process::Command;

use anyhow::{Result, bail};

use super::must;

/// Makes a JPEG of this many pixels with the detail and noise of a photo, different for each seed.
///
/// # Errors
/// If ffmpeg is missing.
pub fn photo(file: &Path, (width, height): (u32, u32), seed: u32) -> Result<()> {
    let picture = format!(
        "gradients=size={width}x{height}:seed={seed}:n=6:duration=1:rate=1,noise=alls=14:all_seed={seed}"
    );
    ffmpeg(
        &picture,
        file,
        &["-frames:v", "1", "-q:v", "3", "-pix_fmt", "yuvj420p"],
    )
}

/// Makes a picture of exactly `len` bytes for a page: a JPEG, WebP or PNG, by the suffix of its name. It has about a byte a
/// pixel: the best quality that is no longer, with zeros after its end.
///
/// # Errors
/// If ffmpeg is missing, or no quality is short enough.
pub fn picture(file: &Path, len: u64, seed: u32) -> Result<()> {
    let suffix = file.extension().unwrap_or_default().to_string_lossy();
    let (options, qualities): (&[&str], &[&str]) = match &*suffix {
        // It has no loss.
        "png" => (&["-pix_fmt", "rgb24", "-q:v"], &["0"]),
        "webp" => (
            &["-c:v", "libwebp", "-pix_fmt", "yuv420p", "-quality"],
            &["95", "90", "75", "40"],
        ),
        _ => (
            &["-pix_fmt", "yuvj420p", "-q:v"],
            &["2", "3", "5", "10", "20"],
        ),
    };
    let width = (len as f64 * 4.0 / 3.0).sqrt().floor();
    let height = (width * 3.0 / 4.0).floor();
    let picture = format!(
        "gradients=size={width}x{height}:seed={seed}:n=6:duration=1:rate=1,noise=alls=6:all_seed={seed}"
    );
    for quality in qualities {
        ffmpeg(
            &picture,
            file,
            &[&["-frames:v", "1"], options, &[*quality]].concat(),
        )?;
        if std::fs::metadata(file)?.len() <= len {
            let out = std::fs::OpenOptions::new().write(true).open(file)?;
            return Ok(out.set_len(len)?);
        }
    }
    bail!("{}: no quality has {len} bytes", file.display())
}

/// The size of a photo of 2 megapixels.
pub const SMALL: (u32, u32) = (1632, 1224);
/// The size of a photo of 12 megapixels.
pub const LARGE: (u32, u32) = (4000, 3000);

/// Makes an MP4 of at least `bytes`: a short film, followed by a box of free space.
///
/// # Errors
/// If ffmpeg is missing, or the file cannot be written.
pub fn film(file: &Path, bytes: u64) -> Result<()> {
    ffmpeg(
        "testsrc2=size=320x180:rate=10:duration=2",
        file,
        &["-c:v", "mpeg4"],
    )?;
    let len = std::fs::metadata(file)?.len();
    let free = bytes.saturating_sub(len).max(16);
    let mut out = std::fs::OpenOptions::new().append(true).open(file)?;
    // A box of 64-bit length and the kind `free` (ISO/IEC 14496-12, 4.2); its content is not all
    // zeros.
    let mut head = vec![0, 0, 0, 1];
    head.extend(b"free");
    head.extend(free.to_be_bytes());
    std::io::Write::write_all(&mut out, &head)?;
    let content = crate::pattern::Pattern {
        seed: bytes,
        len: free - 16,
    };
    let mut at = 0;
    while at < content.len {
        let len = usize::try_from(content.len - at)
            .unwrap_or(usize::MAX)
            .min(1 << 20);
        std::io::Write::write_all(&mut out, &content.bytes(at, len))?;
        at += len as u64;
    }
    Ok(())
}

/// Makes a PDF of two pages.
///
/// # Errors
/// If ghostscript is missing.
pub fn document(file: &Path) -> Result<()> {
    let page = "/Helvetica findfont 40 scalefont setfont 72 600 moveto (A document) show \
                0.2 0.4 0.8 setrgbcolor 72 200 400 300 rectfill showpage";
    let mut command = Command::new("gs");
    command.args(["-q", "-dNOPAUSE", "-dBATCH", "-dSAFER", "-sDEVICE=pdfwrite"]);
    command.arg(format!("-sOutputFile={}", file.display()));
    must(command.args(["-c", page, page])).map(|_| ())
}

fn ffmpeg(source: &str, file: &Path, how: &[&str]) -> Result<()> {
    let mut command = Command::new("ffmpeg");
    command.args(["-v", "error", "-y", "-f", "lavfi", "-i", source]);
    must(command.args(how).arg(file)).map(|_| ())
}
