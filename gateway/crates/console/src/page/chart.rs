//! Charts and bars, as inline SVG without styles of its own.

use std::fmt;

use maud::{Markup, html};

use crate::api::objects::Run;

/// The size of a chart, in its own units.
const WIDTH: f64 = 600.0;
const HEIGHT: f64 = 100.0;

/// A line over time.
pub(crate) struct Line<'a> {
    /// The name.
    pub(crate) name: &'a str,
    /// The times, in seconds since 1970, and the values.
    pub(crate) points: Vec<(f64, f64)>,
    /// The length of time that the chart covers, in seconds.
    pub(crate) span: f64,
    /// The end of the time.
    pub(crate) end: f64,
    /// The words of a value.
    pub(crate) words: fn(f64) -> String,
}

impl Line<'_> {
    /// Draws it. A pause of more than `gap` seconds leaves a gap.
    pub(crate) fn draw(&self, gap: f64) -> Markup {
        let most = self
            .points
            .iter()
            .map(|(_, value)| *value)
            .fold(0.0, f64::max);
        let last = self.points.last().map_or(0.0, |(_, value)| *value);
        let scale = if most > 0.0 {
            (HEIGHT - 6.0) / most
        } else {
            0.0
        };
        let at = |(time, value): (f64, f64)| {
            let x = WIDTH * (1.0 - (self.end - time) / self.span);
            let y = HEIGHT - value.max(0.0) * scale;
            (tenths(x.clamp(0.0, WIDTH)), tenths(y))
        };
        let (mut line, mut area) = (String::new(), String::new());
        // The points that stand alone: a line of no length shows nothing.
        let mut dots = String::new();
        let mut before: Option<(f64, f64)> = None;
        for point in &self.points {
            let (x, y) = at(*point);
            match before {
                Some(earlier) if point.0 - earlier.0 <= gap => {
                    let from = at(earlier);
                    let step = format!("l{} {}", Tenths(x - from.0), Tenths(y - from.1));
                    line.push_str(&step);
                    area.push_str(&step);
                }
                earlier => {
                    close(&mut area, earlier.map(at));
                    let (x, y) = (x as f64 / 10.0, y as f64 / 10.0);
                    line.push_str(&format!("M{x:.1} {y:.1}"));
                    if !self.has_point_after(*point, gap) {
                        dots.push_str(&format!("M{x:.1} {y:.1}h0"));
                    }
                    area.push_str(&format!("M{x:.1} {HEIGHT}L{x:.1} {y:.1}"));
                }
            }
            before = Some(*point);
        }
        close(&mut area, before.map(at));
        let label = format!(
            "{}: last {}, at most {}",
            self.name,
            (self.words)(last),
            (self.words)(most)
        );
        html! {
            figure.chart {
                figcaption { span { (self.name) } span.most { "last " ((self.words)(last)) ", at most " ((self.words)(most)) } }
                svg viewBox={ "0 0 " (WIDTH) " " (HEIGHT) } preserveAspectRatio="none" role="img" aria-label=(label) {
                    path.area d=(area) {}
                    path.line d=(line) {}
                    @if !dots.is_empty() { path.dot d=(dots) {} }
                }
            }
        }
    }
}

impl Line<'_> {
    /// Returns whether a line leads from this point to a later one.
    fn has_point_after(&self, (time, _): (f64, f64), gap: f64) -> bool {
        let later = self.points.partition_point(|(other, _)| *other <= time);
        self.points
            .get(later)
            .is_some_and(|(next, _)| next - time <= gap)
    }
}

/// A number of tenths of a unit, written as short as it can be. Steps of whole tenths add up without an error, and need half
/// the text of positions.
struct Tenths(i64);

impl fmt::Display for Tenths {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sign, size) = (if self.0 < 0 { "-" } else { "" }, self.0.unsigned_abs());
        match size % 10 {
            0 => write!(f, "{sign}{}", size / 10),
            tenths => write!(f, "{sign}{}.{tenths}", size / 10),
        }
    }
}

fn tenths(value: f64) -> i64 {
    (value * 10.0).round() as i64
}

/// Closes an area at its base.
fn close(area: &mut String, last: Option<(i64, i64)>) {
    if let Some((x, _)) = last {
        area.push_str(&format!("L{} {HEIGHT}Z", Tenths(x)));
    }
}

/// Draws a bar of shares, each with a class and a name, from 0 to 1.
pub(crate) fn shares(label: &str, shares: &[(&str, f64)]) -> Markup {
    let mut at = 0.0;
    let pieces: Vec<_> = shares
        .iter()
        .map(|(class, share)| {
            let from = at;
            at += share.clamp(0.0, 1.0) * WIDTH;
            (class, from, share.clamp(0.0, 1.0) * WIDTH)
        })
        .collect();
    html! {
        svg.bar viewBox={ "0 0 " (WIDTH) " 10" } preserveAspectRatio="none" role="img" aria-label=(label) {
            @for (class, from, width) in pieces {
                @if width > 0.0 {
                    rect class=(class) x={ (format!("{from:.1}")) } y="0" width={ (format!("{width:.1}")) } height="10" {}
                }
            }
        }
    }
}

/// Draws the chunks of an object by tier, and marks those that a pin keeps.
pub(crate) fn chunks(label: &str, size: u64, runs: &[Run]) -> Markup {
    let scale = WIDTH / size.max(1) as f64;
    let piece = |run: &Run, class: &str, y: u32| {
        let (x, width) = (
            run.start as f64 * scale,
            (run.end - run.start) as f64 * scale,
        );
        html! {
            rect class=(class) x={ (format!("{x:.2}")) } y=(y) width={ (format!("{:.2}", width.max(0.5))) } height=(10 - y) {}
        }
    };
    html! {
        svg.bar viewBox={ "0 0 " (WIDTH) " 10" } preserveAspectRatio="none" role="img" aria-label=(label) {
            @for run in runs {
                @if run.memory || run.disk { (piece(run, if run.memory { "memory" } else { "disk" }, 0)) }
                @if run.pinned { (piece(run, "pinned", 7)) }
            }
        }
    }
}

/// Draws the position of a reader in an object, and the bytes that are ahead of it.
pub(crate) fn position(label: &str, size: u64, position: u64, ahead: u64) -> Markup {
    let share = |bytes: u64| bytes as f64 / size.max(1) as f64;
    let (read, ahead) = (share(position).min(1.0), share(ahead));
    shares(label, &[("read", read), ("ahead", ahead.min(1.0 - read))])
}

#[cfg(test)]
mod tests;
