//! Reports as one self-contained HTML page: no script, no font, no network.

use std::fmt::Write as _;

use super::terminal::{figure, target};
use super::{Check, Report, Table, Weight};

mod svg;

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:62rem;margin:2rem auto;\
padding:0 1rem;color:#1c2430;background:#fff}h1,h2,h3{line-height:1.2}h2{margin-top:3rem;\
border-top:1px solid #ccd3dc;padding-top:1.5rem}table{border-collapse:collapse;margin:.5rem 0 1.5rem}\
th,td{padding:.2rem .9rem .2rem 0;text-align:right;border-bottom:1px solid #e6eaf0;\
font-variant-numeric:tabular-nums}th:first-child,td:first-child{text-align:left}\
th{font-weight:600;color:#566273}.reached{color:#18794e}.missed{color:#b25000}.wrong{color:#c01;\
font-weight:700}pre{background:#f5f7fa;padding:.8rem;overflow:auto;font-size:12px}\
svg{max-width:100%;height:auto}figcaption{font-weight:600}figure{margin:1.5rem 0}\
.note{color:#566273}";

const PREFACE: &str = "<p>Every figure was taken on one machine, in one run; every body that was \
read was compared byte by byte with what it must be. <em>Compare peers with each other, not with \
figures from elsewhere.</em> A target says how a figure should relate to its peer in the same run; \
<span class=missed>missed</span> is a matter of speed, <span class=wrong>WRONG</span> one of \
correctness. MB are 10<sup>6</sup> bytes, KiB 1024. A <em>wait</em> is time in which a reader wanted \
bytes and had none; p99 is what 99 of 100 stayed below.</p>";

/// Returns the page.
#[must_use]
pub fn render(reports: &[Report]) -> String {
    let mut out = format!(
        "<!doctype html>\n<html lang=en><meta charset=utf-8>\
         <meta name=viewport content=\"width=device-width\">\
         <title>tidegate beside its peers</title><style>{STYLE}</style>\n\
         <h1>tidegate beside its peers</h1>\n{PREFACE}\n<ul>"
    );
    for report in reports {
        let missed = report
            .checks
            .iter()
            .filter(|check| !check.reached())
            .count();
        let verdict = match (report.checks.len(), missed) {
            (0, _) => "no targets".to_owned(),
            (all, 0) => format!("all {all} targets reached"),
            (all, missed) => format!("{missed} of {all} targets missed"),
        };
        let name = escape(&report.scenario);
        let _ = write!(out, "<li><a href=\"#{name}\">{name}</a>: {verdict}");
    }
    out.push_str("</ul>\n");
    for report in reports {
        section(&mut out, report);
    }
    out.push_str("</html>\n");
    out
}

fn section(out: &mut String, report: &Report) {
    let name = escape(&report.scenario);
    let about = escape(&report.about);
    let _ = write!(out, "<h2 id=\"{name}\">{name}</h2>\n<p>{about}</p>\n");
    checks(out, &report.checks);
    for one in &report.tables {
        table(out, one);
    }
    for plot in report.plots.iter().filter(|plot| !plot.lines.is_empty()) {
        let title = escape(&plot.title);
        let drawn = svg::draw(plot);
        let _ = writeln!(
            out,
            "<figure><figcaption>{title}</figcaption>{drawn}</figure>"
        );
    }
    for note in &report.notes {
        let _ = writeln!(out, "<p class=note>{}</p>", escape(note));
    }
    for peer in report.peers.iter().filter(|peer| !peer.config.is_empty()) {
        let (name, config) = (escape(&peer.name), escape(&peer.config));
        let _ = writeln!(
            out,
            "<details><summary>how {name} was configured</summary><pre>{config}</pre></details>"
        );
    }
}

fn checks(out: &mut String, checks: &[Check]) {
    if checks.is_empty() {
        return;
    }
    out.push_str("<table><tr><th>figure<th>found<th>target<th>");
    for check in checks {
        let (class, word) = match (check.reached(), check.weight) {
            (true, _) => ("reached", "reached"),
            (false, Weight::Speed) => ("missed", "missed"),
            (false, Weight::Correctness) => ("wrong", "WRONG"),
        };
        let name = escape(&check.figure);
        let (found, target) = (figure(check.found), target(check.target));
        let _ = write!(
            out,
            "\n<tr><td>{name}<td>{found}<td>{target}<td class={class}>{word}"
        );
    }
    out.push_str("</table>\n");
}

fn table(out: &mut String, table: &Table) {
    let _ = write!(out, "<h3>{}</h3><table><tr>", escape(&table.title));
    for column in &table.columns {
        let _ = write!(out, "<th>{}", escape(column));
    }
    for row in &table.rows {
        out.push_str("\n<tr>");
        for cell in row {
            let _ = write!(out, "<td>{}", escape(cell));
        }
    }
    out.push_str("</table>\n");
}

fn escape(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    text.replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::super::{Plot, Target};
    use super::*;

    #[test]
    fn a_page_shows_all_and_fetches_nothing() {
        let mut report = Report::new("audiobook");
        report.about = "read <in sequence>".to_owned();
        report.aim("over the ceiling", 0.9, Target::AtLeast(0.95));
        report.peer("nginx", "server { listen 127.0.0.1:1; }");
        let mut plot = Plot::throughput("Throughput");
        plot.line("tidegate", vec![(0.5, 100.0), (1.0, 200.0)]);
        report.plot(plot);
        let page = render(&[report]);
        for wanted in [
            "read &lt;in sequence&gt;",
            "class=missed",
            "<svg",
            "<polyline",
            "listen 127",
        ] {
            assert!(page.contains(wanted), "{wanted} is missing in {page}");
        }
        for unwanted in ["http:", "https:", "<script", "@import", "NaN"] {
            assert!(!page.contains(unwanted), "{unwanted} in {page}");
        }
    }
}
