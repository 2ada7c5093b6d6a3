//! The chart of an op: predictions as lines with their uncertainty, measurements as points, and
//! below them who serves where.

use std::fmt::Write as _;

use serde_json::json;

use super::colours::Colours;
use super::op::{Op, Predicted, Span, Step};
use super::scale::{Scale, bounds, path};
use super::text::{count, decade, escape, short, time};

/// The picture, in units that are pixels on a wide screen.
const WIDTH: f64 = 710.0;
const HEIGHT: f64 = 404.0;
/// Where lines and points are.
const LEFT: f64 = 66.0;
const RIGHT: f64 = 596.0;
const TOP: f64 = 26.0;
const BOTTOM: f64 = 330.0;
/// The strip of who serves.
const STRIP: f64 = 342.0;
const THICK: f64 = 18.0;
/// What is written below.
const TICKS: f64 = 378.0;

/// Room that a letter takes, and the least between two labels.
const LETTER: f64 = 6.6;
const LINE: f64 = 15.0;

/// The chart, or nothing if nothing was measured.
pub(super) fn draw(op: &Op, id: &str, colours: &Colours) -> Option<String> {
    let (x, y) = axes(op)?;
    let mut out = String::new();
    let name = escape(&op.op);
    let _ = write!(
        out,
        r#"<svg class="plot" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-labelledby="{id}-t {id}-d">
<title id="{id}-t">{name}: time by size</title><desc id="{id}-d">{}</desc>
"#,
        escape(&describe(op))
    );
    grid(&mut out, &y);
    for span in op.spans.iter().skip(1) {
        crossover_line(&mut out, op, span, &x, &y);
    }
    let names: Vec<&str> = names(op);
    for name in &names {
        band(&mut out, op, name, colours, &x, &y);
    }
    for name in &names {
        curve(&mut out, op, name, colours, &x, &y);
    }
    points(&mut out, op, colours, &x, &y);
    end_labels(&mut out, op, &names, colours, &x, &y);
    crossover_labels(&mut out, op, &x);
    strip(&mut out, op, colours, &x);
    ticks(&mut out, op, &x);
    let _ = write!(
        out,
        r#"<line class="cross" x1="0" x2="0" y1="{TOP}" y2="{}"/></svg>"#,
        STRIP + THICK
    );
    Some(out)
}

fn describe(op: &Op) -> String {
    let spans: Vec<String> = op
        .spans
        .iter()
        .map(|s| format!("{} from {}", s.variant, s.from_workload))
        .collect();
    let served = match &spans[..] {
        [] => String::new(),
        spans => format!(" Expected to serve: {}.", spans.join(", then ")),
    };
    format!(
        "Predicted time of {} variants with one standard deviation, and {} measured medians, both axes logarithmic.{served} The table below has the numbers.",
        op.variants.len(),
        op.points()
    )
}

/// The axes that hold every measurement and every prediction. Uncertainty may go beyond.
fn axes(op: &Op) -> Option<(Scale, Scale)> {
    let extents = op.cells.iter().map(|c| c.extent);
    let (low, high) = bounds(extents.chain(op.curve.iter().map(|s| s.extent)))?;
    // Room for the first and the last point.
    let room = ((high - low) * 0.012).max(0.05);
    let measured = op.cells.iter().flat_map(|c| &c.times);
    let predicted = op.curve.iter().flat_map(|s| &s.predicted);
    let times = measured
        .flat_map(|p| [p.least_ns, p.median_ns, p.most_ns])
        .chain(predicted.map(|p| p.ns));
    let (least, most) = bounds(times)?;
    let gap = ((most - least) * 0.03).max(0.15);
    Some((
        Scale::new((low - room, high + room), (LEFT, RIGHT)),
        Scale::new((least - gap, most + gap), (BOTTOM, TOP)),
    ))
}

fn names(op: &Op) -> Vec<&str> {
    let mut names: Vec<&str> = op.variants.iter().map(|v| &*v.name).collect();
    for predicted in op.curve.iter().flat_map(|s| &s.predicted) {
        if !names.contains(&&*predicted.variant) {
            names.push(&predicted.variant);
        }
    }
    names
}

fn grid(out: &mut String, y: &Scale) {
    let decades: Vec<(i32, f64)> = y.decades().collect();
    // As many labels as have room.
    let every = decades.len().div_ceil(9).max(1) as i32;
    for (exponent, at) in decades {
        let _ = writeln!(
            out,
            r#"<line class="grid" x1="{LEFT}" x2="{RIGHT}" y1="{at:.1}" y2="{at:.1}"/>"#
        );
        if exponent.rem_euclid(every) != 0 {
            continue;
        }
        let _ = writeln!(
            out,
            r#"<text class="y" x="{:.1}" y="{:.1}">{}</text>"#,
            LEFT - 8.0,
            at + 4.0,
            decade(exponent)
        );
    }
}

/// What is predicted of a variant along the line, in pieces: it may not serve everywhere.
fn pieces<'o>(op: &'o Op, name: &str) -> Vec<Vec<(&'o Step, &'o Predicted)>> {
    let mut pieces = vec![Vec::new()];
    for step in &op.curve {
        match step.predicted.iter().find(|p| p.variant == name) {
            Some(predicted) => pieces
                .last_mut()
                .into_iter()
                .for_each(|piece| piece.push((step, predicted))),
            None => pieces.push(Vec::new()),
        }
    }
    pieces.retain(|piece| !piece.is_empty());
    pieces
}

fn band(out: &mut String, op: &Op, name: &str, colours: &Colours, x: &Scale, y: &Scale) {
    for piece in pieces(op, name) {
        let clipped = |ns: f64| y.at(ns).clamp(TOP, BOTTOM);
        let upper = piece
            .iter()
            .map(|(s, p)| (x.at(s.extent), clipped(p.high_ns)));
        let lower = piece
            .iter()
            .rev()
            .map(|(s, p)| (x.at(s.extent), clipped(p.low_ns)));
        let _ = writeln!(
            out,
            r#"<path class="band {}" d="{}Z"/>"#,
            colours.class(name),
            path(upper.chain(lower))
        );
    }
}

fn curve(out: &mut String, op: &Op, name: &str, colours: &Colours, x: &Scale, y: &Scale) {
    for piece in pieces(op, name) {
        let points = piece.iter().map(|(s, p)| (x.at(s.extent), y.at(p.ns)));
        let _ = writeln!(
            out,
            r#"<path class="curve {}" d="{}"/>"#,
            colours.class(name),
            path(points)
        );
    }
}

fn points(out: &mut String, op: &Op, colours: &Colours, x: &Scale, y: &Scale) {
    for row in &op.cells {
        let at = x.at(row.extent);
        for point in &row.times {
            let class = colours.class(&point.variant);
            let off = if row.on_line { "" } else { " off" };
            let (low, high) = (y.at(point.least_ns), y.at(point.most_ns));
            if low - high > 5.0 {
                let _ = writeln!(
                    out,
                    r#"<path class="range {class}" d="M{at:.1} {low:.1}V{high:.1}"/>"#
                );
            }
            let _ = writeln!(
                out,
                r#"<circle class="point {class}{off}" cx="{at:.1}" cy="{:.1}" r="2.6"><title>{} at {}: {} ({} measured)</title></circle>"#,
                y.at(point.median_ns),
                escape(&point.variant),
                escape(&row.cell),
                time(point.median_ns),
                count(point.count)
            );
        }
    }
}

/// Names at the ends of their lines, moved apart where they would overlap.
fn end_labels(out: &mut String, op: &Op, names: &[&str], colours: &Colours, x: &Scale, y: &Scale) {
    let mut ends: Vec<(f64, f64, &str)> = Vec::new();
    for name in names {
        let predicted = pieces(op, name).pop().and_then(|piece| {
            let (step, predicted) = piece.last().copied()?;
            Some((x.at(step.extent), y.at(predicted.ns)))
        });
        let measured = || {
            let row = op
                .cells
                .iter()
                .rev()
                .find(|r| r.median_of(name).is_some())?;
            Some((x.at(row.extent), y.at(row.median_of(name)?)))
        };
        if let Some((ex, ey)) = predicted.or_else(measured) {
            ends.push((ex, ey, name));
        }
    }
    ends.sort_by(|a, b| a.1.total_cmp(&b.1));
    let wanted: Vec<f64> = ends.iter().map(|(_, y, _)| *y).collect();
    let places = apart(&wanted, LINE, (TOP + 2.0, BOTTOM - 2.0));
    for ((ex, ey, name), at) in ends.into_iter().zip(places) {
        let class = colours.class(name);
        let _ = writeln!(
            out,
            r#"<g class="end"><path class="lead {class}" d="M{:.1} {ey:.1}L{:.1} {at:.1}h6"/><text x="{:.1}" y="{:.1}">{}</text></g>"#,
            ex + 4.0,
            RIGHT + 6.0,
            RIGHT + 16.0,
            at + 4.0,
            escape(&short(name, 12))
        );
    }
}

/// Places in the same order, near the wanted ones and at least so far apart, within bounds.
fn apart(wanted: &[f64], gap: f64, (low, high): (f64, f64)) -> Vec<f64> {
    let gap = gap.min((high - low) / wanted.len().max(1) as f64);
    let mut places = wanted.to_vec();
    let mut floor = low;
    for place in &mut places {
        *place = place.max(floor);
        floor = *place + gap;
    }
    let mut ceiling = high;
    for place in places.iter_mut().rev() {
        *place = place.min(ceiling);
        ceiling = *place - gap;
    }
    places
}

/// Where one variant takes over from another: a hairline, and a ring where it begins to serve.
fn crossover_line(out: &mut String, op: &Op, span: &Span, x: &Scale, y: &Scale) {
    let at = x.at(span.from);
    let _ = writeln!(
        out,
        r#"<line class="over" x1="{at:.1}" x2="{at:.1}" y1="{TOP}" y2="{STRIP}"/>"#
    );
    if let Some(ns) = predicted_at(op, &span.variant, span.from) {
        let _ = writeln!(
            out,
            r#"<circle class="ring" cx="{at:.1}" cy="{:.1}" r="5.5"><title>{} serves from {} on</title></circle>"#,
            y.at(ns),
            escape(&span.variant),
            escape(&span.from_workload)
        );
    }
}

/// What is predicted of a variant between two points of its curve.
fn predicted_at(op: &Op, name: &str, extent: f64) -> Option<f64> {
    let of = |step: &Step| {
        let predicted = step.predicted.iter().find(|p| p.variant == name)?;
        Some((step.extent.ln(), predicted.ns.ln()))
    };
    let known: Vec<(f64, f64)> = op.curve.iter().filter_map(of).collect();
    let at = extent.ln();
    let above = known.partition_point(|(x, _)| *x < at);
    let high = known.get(above).or(known.last())?;
    let low = known[..above].last().unwrap_or(high);
    let share = match high.0 - low.0 {
        gap if gap > 0.0 => (at - low.0) / gap,
        _ => 0.0,
    };
    Some((low.1 + share * (high.1 - low.1)).exp())
}

/// At which workload others take over, where there is room: the longest spans first.
fn crossover_labels(out: &mut String, op: &Op, x: &Scale) {
    let mut spans: Vec<&Span> = op.spans.iter().skip(1).collect();
    spans.sort_by(|a, b| (b.to / b.from).total_cmp(&(a.to / a.from)));
    let mut taken: Vec<(f64, f64)> = Vec::new();
    for span in spans {
        let label = short(&span.from_workload, 22);
        let half = label.chars().count() as f64 * LETTER / 2.0 + 5.0;
        let at = x.at(span.from).clamp(LEFT + half, RIGHT - half);
        if taken.iter().any(|(l, r)| at + half > *l && at - half < *r) {
            continue;
        }
        taken.push((at - half, at + half));
        let _ = writeln!(
            out,
            r#"<text class="at" x="{at:.1}" y="{:.1}">{}</text>"#,
            TOP - 10.0,
            escape(&label)
        );
    }
}

fn strip(out: &mut String, op: &Op, colours: &Colours, x: &Scale) {
    for (i, span) in op.spans.iter().enumerate() {
        // Up to where the next one begins.
        let next = op.spans.get(i + 1).map(|s| s.from);
        let (left, right) = match (i, next) {
            (0, Some(next)) => (LEFT, x.at(next)),
            (0, None) => (LEFT, RIGHT),
            (_, Some(next)) => (x.at(span.from), x.at(next)),
            (_, None) => (x.at(span.from), RIGHT),
        };
        let width = (right - left).max(1.5);
        let _ = write!(
            out,
            r#"<g class="serve {}"><rect x="{left:.1}" y="{STRIP}" width="{width:.1}" height="{THICK}"/><title>{} serves {} to {}</title>"#,
            colours.class(&span.variant),
            escape(&span.variant),
            escape(&span.from_workload),
            escape(&span.to_workload)
        );
        let room = ((width - 8.0) / LETTER) as usize;
        if room >= 4 && span.variant.chars().count() <= room {
            let _ = write!(
                out,
                r#"<text x="{:.1}" y="{:.1}">{}</text>"#,
                left + width / 2.0,
                STRIP + 13.0,
                escape(&span.variant)
            );
        }
        out.push_str("</g>\n");
    }
}

/// Some workloads along the axis, as many as fit: powers of two where there are any.
fn ticks(out: &mut String, op: &Op, x: &Scale) {
    let round = op.curve.iter().filter(|s| s.size.is_power_of_two());
    let mut steps: Vec<(f64, &str)> = round.map(|s| (s.extent, &*s.workload)).collect();
    if steps.is_empty() {
        steps = op.cells.iter().map(|c| (c.extent, &*c.cell)).collect();
    }
    let longest = steps.iter().map(|s| s.1.chars().count().min(22)).max();
    let room = longest.unwrap_or(1) as f64 * LETTER + 14.0;
    // The gaps between the labels that fit.
    let gaps = (((RIGHT - LEFT) / room) as usize).clamp(2, 10) - 1;
    let every = steps.len().saturating_sub(1).div_ceil(gaps).max(1);
    for (i, (extent, label)) in steps.iter().step_by(every).enumerate() {
        let label = short(label, 22);
        let at = x.at(*extent);
        let minor = if i % 2 == 1 { " minor" } else { "" };
        // Letters are larger on a narrow screen.
        let half = label.chars().count() as f64 * 1.7 * LETTER / 2.0;
        let (place, side) = match at {
            at if at < half => (2.0, " first"),
            at if at + half > RIGHT + 6.0 => (RIGHT + 6.0, " last"),
            at => (at, ""),
        };
        let _ = writeln!(
            out,
            r#"<path class="tick" d="M{at:.1} {:.1}v4"/><text class="x{minor}{side}" x="{place:.1}" y="{TICKS}">{}</text>"#,
            STRIP + THICK + 1.0,
            escape(&label)
        );
    }
    let _ = writeln!(
        out,
        r#"<text class="axis" x="{LEFT}" y="{:.1}">size {}</text>"#,
        HEIGHT - 8.0,
        escape(&op.line)
    );
}

/// What the reading under the pointer needs: places, workloads and times.
pub(super) fn reading(op: &Op, colours: &Colours) -> Option<String> {
    let (x, _) = axes(op)?;
    let names = names(op);
    let steps: Vec<serde_json::Value> = op
        .curve
        .iter()
        .map(|step| {
            let told = |name: &&str| {
                let predicted = step.predicted.iter().find(|p| p.variant == **name);
                predicted.map(|p| time(p.ns))
            };
            let order = |name: &&str| {
                let predicted = step.predicted.iter().find(|p| p.variant == **name);
                predicted.map_or(f64::MAX, |p| p.ns)
            };
            let mut by_time: Vec<&str> = names.clone();
            by_time.sort_by(|a, b| order(a).total_cmp(&order(b)));
            let of = |name: &&str| Some(json!([place(&names, name), told(name)?]));
            let times: Vec<_> = by_time.iter().filter_map(of).collect();
            let at = (10.0 * x.at(step.extent)).round() / 10.0;
            json!([at, step.workload, place(&names, &step.chosen), times])
        })
        .collect();
    let classes: Vec<String> = names.iter().map(|n| colours.class(n)).collect();
    let all = json!({ "names": names, "classes": classes, "steps": steps, "width": WIDTH });
    Some(all.to_string())
}

fn place(names: &[&str], name: &str) -> Option<usize> {
    names.iter().position(|n| *n == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_move_apart_and_stay_within() {
        let places = apart(&[10.0, 11.0, 12.0, 99.0], 10.0, (0.0, 100.0));
        assert!(
            places.windows(2).all(|w| w[1] - w[0] >= 9.999),
            "{places:?}"
        );
        assert!(places[0] >= 0.0 && places[3] <= 100.0);
        let crowded = apart(&[50.0; 30], 10.0, (0.0, 100.0));
        assert!(crowded.iter().all(|p| (-0.001..=100.001).contains(p)));
    }
}
