//! Writes the sample document: two pages of PDF 1.4, with the fonts every reader has.

use std::fmt::Write as _;

/// A4, in points.
const PAGE: &str = "[0 0 595 842]";

const TITLE: &str = "Tidegate";

const ABOUT: &str = "An HTTP media gateway with tiered caching in front of S3.\n\
\n\
This document was written by the demo itself, like all that lies in its bucket: pictures,\n\
a waltz, a large file whose bytes say where they stand. Ask for it twice, and the header\n\
Cache-Status of the second answer says that it came out of the cache.\n\
\n\
A viewer that knows its trade does not fetch a document whole. It asks for the last\n\
bytes, where the table of contents lies, and from there for the pages it shows. Each\n\
such range is cut from chunks that the gateway holds; what is missing is fetched once,\n\
however many readers wait for it, and handed on while it still arrives.\n\
\n\
The next page shows the way of one read.";

/// The stations of a read, drawn as boxes from top to bottom.
const STATIONS: [(&str, &str); 5] = [
    ("Request", "a path and a range of bytes"),
    ("Memory", "the chunks that are asked for most"),
    (
        "SSD",
        "what was asked for before, also before the last restart",
    ),
    ("Flight", "one fetch, shared by all who wait for it"),
    ("Bucket", "S3, asked for one version, in ranges"),
];

/// Returns the whole file.
pub(super) fn pdf() -> Vec<u8> {
    let objects = [
        "<< /Type /Catalog /Pages 2 0 R >>".to_owned(),
        "<< /Type /Pages /Kids [3 0 R 4 0 R] /Count 2 >>".to_owned(),
        page(5),
        page(6),
        stream(&about()),
        stream(&way_of_a_read()),
        font("Helvetica"),
        font("Helvetica-Bold"),
        format!("<< /Title ({TITLE}) /Producer (tidegate demo) >>"),
    ];
    assemble(&objects)
}

fn page(contents: usize) -> String {
    format!(
        "<< /Type /Page /Parent 2 0 R /MediaBox {PAGE} /Contents {contents} 0 R \
         /Resources << /Font << /F1 7 0 R /F2 8 0 R >> >> >>"
    )
}

fn font(name: &str) -> String {
    format!("<< /Type /Font /Subtype /Type1 /BaseFont /{name} /Encoding /WinAnsiEncoding >>")
}

fn stream(content: &str) -> String {
    format!(
        "<< /Length {} >>\nstream\n{content}\nendstream",
        content.len()
    )
}

fn about() -> String {
    let mut content = format!("0.10 0.24 0.36 rg\n{}", text("F2", 34, 72, 730, TITLE));
    content.push_str("0.2 g\n");
    for (line, y) in ABOUT.lines().zip((0..=690).rev().step_by(18)) {
        content.push_str(&text("F1", 12, 72, y, line));
    }
    content
}

fn way_of_a_read() -> String {
    let mut content = format!(
        "0.10 0.24 0.36 rg\n{}",
        text("F2", 22, 72, 750, "The way of one read")
    );
    for ((name, what), y) in STATIONS.into_iter().zip((0..=640).rev().step_by(110)) {
        let _ = writeln!(
            content,
            "0.86 0.93 0.96 rg 0.10 0.24 0.36 RG 72 {y} 450 64 re B"
        );
        content.push_str("0.10 0.24 0.36 rg\n");
        content.push_str(&text("F2", 15, 90, y + 37, name));
        content.push_str(&text("F1", 12, 90, y + 16, what));
        if name != "Bucket" {
            let (tip, foot) = (y - 40, y - 6);
            let _ = writeln!(content, "1.5 w 297 {foot} m 297 {tip} l S");
            let _ = writeln!(content, "291 {} m 297 {tip} l 303 {} l f", tip + 9, tip + 9);
        }
    }
    content
}

/// Shows one line; the texts above need no escapes.
fn text(font: &str, size: u32, x: i32, y: i32, line: &str) -> String {
    format!("BT /{font} {size} Tf {x} {y} Td ({line}) Tj ET\n")
}

/// Joins the objects, and adds the table of their first bytes (PDF 1.4, 3.4).
fn assemble(objects: &[String]) -> Vec<u8> {
    // Bytes above 127 in the second line tell transfer programs that the file is binary.
    let mut file = b"%PDF-1.4\n%\xE2\xE3\xCF\xD3\n".to_vec();
    let mut table = "0000000000 65535 f \n".to_owned();
    for (i, object) in objects.iter().enumerate() {
        let _ = writeln!(table, "{:010} 00000 n ", file.len());
        file.extend_from_slice(format!("{} 0 obj\n{object}\nendobj\n", i + 1).as_bytes());
    }
    let (start, count) = (file.len(), objects.len());
    let trailer = format!(
        "xref\n0 {size}\n{table}trailer\n<< /Size {size} /Root 1 0 R /Info {count} 0 R >>\n\
         startxref\n{start}\n%%EOF\n",
        size = count + 1,
    );
    file.extend_from_slice(trailer.as_bytes());
    file
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_points_at_the_objects() {
        let file = pdf();
        let text = String::from_utf8_lossy(&file);
        let start = text.rsplit("startxref\n").next().expect("a trailer");
        let start: usize = start
            .lines()
            .next()
            .expect("a line")
            .parse()
            .expect("a number");
        let table = std::str::from_utf8(&file[start..]).expect("ASCII");
        assert!(table.starts_with("xref\n0 10\n"));
        let entries = table.split_inclusive('\n').skip(3).take(9);
        for (i, entry) in entries.enumerate() {
            assert_eq!(entry.len(), 20);
            let at: usize = entry[..10].parse().expect("an offset");
            assert!(file[at..].starts_with(format!("{} 0 obj\n", i + 1).as_bytes()));
        }
    }
}
