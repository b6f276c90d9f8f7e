//! Plots as inline SVG: axes from zero, round ticks, a legend beside them.

use std::fmt::Write as _;

use super::super::plot::{Kind, Line, Plot};
use super::escape;

const WIDTH: f64 = 900.0;
const HEIGHT: f64 = 320.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 220.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 44.0;
/// Colours that people with colour-blindness can tell apart.
const COLOURS: [&str; 8] = [
    "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#555555", "#8a6d00",
];

/// The largest figure of each axis.
#[derive(Debug, Clone, Copy)]
struct Scale {
    x: f64,
    y: f64,
}

/// Draws the whole plot.
pub(super) fn draw(plot: &Plot) -> String {
    let points = || plot.lines.iter().flat_map(|line| &line.points);
    let scale = Scale {
        x: top(points().map(|point| point.0)),
        y: top(points().map(|point| point.1)),
    };
    let mut out = format!("<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=img font-size=12>");
    axes(&mut out, plot, scale);
    for (line, colour) in plot.lines.iter().zip(COLOURS.iter().cycle()) {
        match plot.kind {
            Kind::Lines => polyline(&mut out, line, colour, scale),
            Kind::Points => dots(&mut out, line, colour, scale),
        }
    }
    legend(&mut out, plot);
    out.push_str("</svg>");
    out
}

impl Scale {
    fn place(self, (x, y): (f64, f64)) -> (f64, f64) {
        let width = WIDTH - LEFT - RIGHT;
        let height = HEIGHT - TOP - BOTTOM;
        (LEFT + x / self.x * width, TOP + (1.0 - y / self.y) * height)
    }
}

/// Returns the largest figure, or 1 if none is above zero.
fn top(figures: impl Iterator<Item = f64>) -> f64 {
    let most = figures
        .filter(|figure| figure.is_finite())
        .fold(0.0, f64::max);
    if most > 0.0 { most } else { 1.0 }
}

/// Returns one, two or five times a power of ten, so that about five ticks fit.
fn tick(most: f64) -> f64 {
    let rough = most / 5.0;
    let power = 10_f64.powf(rough.log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * power);
    steps
        .into_iter()
        .find(|step| *step >= rough)
        .unwrap_or(rough)
}

fn ticks(most: f64) -> impl Iterator<Item = f64> {
    let step = tick(most);
    (0..=(most / step) as u32).map(move |n| f64::from(n) * step)
}

fn label(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn axes(out: &mut String, plot: &Plot, scale: Scale) {
    let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
    for value in ticks(scale.y) {
        let (_, y) = scale.place((0.0, value));
        let _ = write!(
            out,
            "<line x1={LEFT} x2={right} y1={y:.1} y2={y:.1} stroke=\"#e1e6ec\"/>\
             <text x={} y={:.1} text-anchor=end>{}</text>",
            LEFT - 6.0,
            y + 4.0,
            label(value)
        );
    }
    for value in ticks(scale.x) {
        let (x, _) = scale.place((value, 0.0));
        let _ = write!(
            out,
            "<line x1={x:.1} x2={x:.1} y1={bottom} y2={} stroke=\"#889\"/>\
             <text x={x:.1} y={} text-anchor=middle>{}</text>",
            bottom + 4.0,
            bottom + 18.0,
            label(value)
        );
    }
    let (middle, height) = (LEFT.midpoint(right), TOP.midpoint(bottom));
    let _ = write!(
        out,
        "<line x1={LEFT} x2={right} y1={bottom} y2={bottom} stroke=\"#889\"/>\
         <text x={middle} y={} text-anchor=middle>{}</text>\
         <text transform=\"translate(14 {height}) rotate(-90)\" text-anchor=middle>{}</text>",
        HEIGHT - 8.0,
        escape(&plot.x),
        escape(&plot.y)
    );
}

fn polyline(out: &mut String, line: &Line, colour: &str, scale: Scale) {
    let _ = write!(
        out,
        "<polyline fill=none stroke=\"{colour}\" stroke-width=1.6 points=\""
    );
    for point in finite(line) {
        let (x, y) = scale.place(point);
        let _ = write!(out, "{x:.1},{y:.1} ");
    }
    out.push_str("\"/>");
}

fn dots(out: &mut String, line: &Line, colour: &str, scale: Scale) {
    for point in finite(line) {
        let (x, y) = scale.place(point);
        let _ = write!(
            out,
            "<circle cx={x:.1} cy={y:.1} r=3 fill=\"{colour}\" fill-opacity=0.7 />"
        );
    }
}

fn finite(line: &Line) -> impl Iterator<Item = (f64, f64)> {
    let points = line.points.iter().copied();
    points.filter(|point| point.0.is_finite() && point.1.is_finite())
}

fn legend(out: &mut String, plot: &Plot) {
    let x = WIDTH - RIGHT + 14.0;
    for (n, (line, colour)) in plot.lines.iter().zip(COLOURS.iter().cycle()).enumerate() {
        let y = TOP + 8.0 + 20.0 * n as f64;
        let name = escape(&line.name);
        let none = if line.points.is_empty() {
            " (none)"
        } else {
            ""
        };
        let _ = write!(
            out,
            "<rect x={x} y={} width=12 height=12 fill=\"{colour}\"/>\
             <text x={} y={}>{name}{none}</text>",
            y - 6.0,
            x + 18.0,
            y + 4.0
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_few() {
        assert_eq!(ticks(262.0).collect::<Vec<_>>(), [0.0, 100.0, 200.0]);
        assert_eq!(
            ticks(1.0).map(label).collect::<Vec<_>>(),
            ["0", "0.2", "0.4", "0.6", "0.8", "1"]
        );
    }

    #[test]
    fn the_corners_of_the_figures_are_the_corners_of_the_plot() {
        let scale = Scale { x: 10.0, y: 5.0 };
        assert_eq!(scale.place((0.0, 5.0)), (LEFT, TOP));
        assert_eq!(scale.place((10.0, 0.0)), (WIDTH - RIGHT, HEIGHT - BOTTOM));
    }
}
