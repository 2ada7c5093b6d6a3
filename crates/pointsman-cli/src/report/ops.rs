//! The section of one op.

use std::fmt::Write as _;

use super::chart;
use super::colours::Colours;
use super::op::{Fixed, Op, Span};
use super::text::{count, counted, escape, percent, time, times};

/// The chart, what choosing is worth, and the tables behind both.
pub(super) fn section(op: &Op, anchor: &str, colours: &Colours) -> String {
    let mut out = String::new();
    let _ = write!(
        out,
        r##"<section class="op" id="{anchor}"><h2><a href="#{anchor}"><bdi>{}</bdi></a></h2><p class="quiet">{}</p>"##,
        escape(&op.op),
        facts(op)
    );
    out.push_str(r#"<div class="cols"><div class="wide">"#);
    match chart::draw(op, anchor, colours) {
        Some(svg) => {
            let _ = write!(
                out,
                r#"{}<figure class="chart" data-reading="{}">{svg}<div class="reading" hidden></div></figure>"#,
                legend(op, colours),
                escape(&chart::reading(op, colours).unwrap_or_default())
            );
        }
        None => out.push_str(r#"<p class="quiet">Nothing has been measured.</p>"#),
    }
    if let Some(why) = &op.trouble {
        let _ = write!(
            out,
            "<p class=\"quiet\">No predictions: {}.</p>",
            escape(why)
        );
    }
    out.push_str("</div><div class=\"side\">");
    out.push_str(&worth(op, colours));
    out.push_str(&variants(op, colours));
    out.push_str("</div></div>");
    out.push_str(&measured(op, anchor));
    out.push_str(&predicted(op, anchor));
    out.push_str("</section>");
    out
}

fn facts(op: &Op) -> String {
    let cells = counted(op.cells.len() as u64, "cell", "cells");
    let mut facts = vec![
        counted(op.variants.len() as u64, "variant", "variants"),
        cells,
        counted(op.measurements(), "measurement", "measurements"),
    ];
    let off = op.cells.iter().filter(|c| !c.on_line).count();
    if off > 0 && !op.curve.is_empty() {
        facts.push(format!("{} off the line, drawn hollow", count(off as u64)));
    }
    if op.without_gpus {
        facts.push("learned by programs that do not look for GPUs".to_owned());
    }
    if !op.in_this_build {
        facts.push("predicted by name".to_owned());
    }
    if op.outdated > 0 {
        let entries = counted(op.outdated as u64, "entry", "entries");
        facts.push(format!("{entries} of older revisions left out"));
    }
    facts.join(" · ")
}

/// Each variant with its colour: the only names on a narrow screen.
fn legend(op: &Op, colours: &Colours) -> String {
    let mut out = String::from(r#"<ul class="legend">"#);
    for variant in &op.variants {
        let _ = write!(
            out,
            r#"<li><i class="key {}"></i><bdi>{}</bdi></li>"#,
            colours.class(&variant.name),
            escape(&variant.name)
        );
    }
    out.push_str("</ul>");
    out
}

/// How much longer each variant alone would take, as bars.
fn worth(op: &Op, colours: &Colours) -> String {
    let worth = &op.worth;
    if worth.fixed.is_empty() {
        return r#"<h3>Instead of choosing</h3><p class="quiet">No cell has two variants measured, so that nothing can be compared.</p>"#.to_owned();
    }
    let most = worth.fixed.iter().map(|f| f.ratio).fold(1.0, f64::max);
    let mut out = String::from(
        r#"<h3>Instead of choosing</h3><table class="bars"><caption class="sr">How many times longer each variant takes than the choice</caption><thead class="sr"><tr><th>variant</th><th>times longer</th><th>cells</th></tr></thead><tbody>"#,
    );
    for fixed in &worth.fixed {
        out.push_str(&bar(fixed, most, op, colours));
    }
    out.push_str("</tbody></table>");
    let best = worth.over_best.unwrap_or(1.0);
    let _ = write!(
        out,
        r#"<p class="note">Geometric means over the cells where it and the choice were measured; {} had a choice. The best in each cell, in hindsight: {}.</p>"#,
        counted(worth.cells as u64, "cell", "cells"),
        times(1.0 / best)
    );
    out
}

fn bar(fixed: &Fixed, most: f64, op: &Op, colours: &Colours) -> String {
    // From 1 on, on a logarithmic scale: 2 is as far from 1 as 8 is from 4.
    let share = match most.ln() {
        span if span > 0.0 => (fixed.ratio.ln() / span).clamp(0.0, 1.0),
        _ => 0.0,
    };
    let of = op.variants.iter().find(|v| v.name == fixed.variant);
    let note = match of.and_then(|v| v.reference) {
        Some(true) => " <small>reference</small>",
        _ => "",
    };
    format!(
        r#"<tr title="at worst {}"><th scope="row"><bdi>{}</bdi>{note}</th><td class="bar"><i class="{}" style="width:{:.1}%"></i></td><td>{}</td><td class="quiet">{}</td></tr>"#,
        times(fixed.worst),
        escape(&fixed.variant),
        colours.class(&fixed.variant),
        100.0 * share,
        times(fixed.ratio),
        counted(fixed.cells as u64, "cell", "cells")
    )
}

/// Each variant's evidence.
fn variants(op: &Op, colours: &Colours) -> String {
    let mut out = String::from(
        r#"<h3>Variants</h3><div class="scroll"><table><thead><tr><th>variant</th><th>backend</th><th>measured</th><th>checked</th></tr></thead><tbody>"#,
    );
    for v in &op.variants {
        let checked = match (v.disagreed, v.agreed) {
            (true, _) => "gave wrong results".to_owned(),
            (false, 0) => "–".to_owned(),
            (false, n) => counted(n as u64, "block", "blocks"),
        };
        let _ = write!(
            out,
            r#"<tr><th scope="row"><i class="key {}"></i><bdi>{}</bdi></th><td>{}</td><td class="n">{} in {}</td><td>{checked}</td></tr>"#,
            colours.class(&v.name),
            escape(&v.name),
            escape(v.backend.as_deref().unwrap_or("–")),
            count(v.measurements),
            counted(v.cells as u64, "cell", "cells")
        );
    }
    out.push_str("</tbody></table></div>");
    out
}

/// The points of the chart as a table.
fn measured(op: &Op, anchor: &str) -> String {
    if op.cells.is_empty() {
        return String::new();
    }
    let mut out = format!(
        r#"<details id="{anchor}-measured"><summary>Measured: median of the last nine, by cell</summary><div class="scroll"><table class="n"><thead><tr><th>cell</th>"#
    );
    let names: Vec<&str> = op.variants.iter().map(|v| &*v.name).collect();
    heads(&mut out, &names);
    out.push_str("<th>choice</th><th>confidence</th></tr></thead><tbody>");
    for row in &op.cells {
        let _ = write!(out, r#"<tr><th scope="row">{}</th>"#, escape(&row.cell));
        for name in &names {
            match row.times.iter().find(|p| p.variant == *name) {
                Some(p) => {
                    let _ = write!(
                        out,
                        r#"<td title="{} to {}, {} kept of {}">{}</td>"#,
                        time(p.least_ns),
                        time(p.most_ns),
                        p.kept,
                        count(p.count),
                        time(p.median_ns)
                    );
                }
                None => out.push_str("<td>–</td>"),
            }
        }
        let _ = match &row.chosen {
            Some(chosen) => write!(
                out,
                "<td>{}</td><td>{}</td></tr>",
                escape(chosen),
                percent(row.confidence)
            ),
            None => write!(out, "<td>–</td><td>–</td></tr>"),
        };
    }
    out.push_str("</tbody></table></div></details>");
    out
}

/// The curves of the chart as a table, and who serves where.
fn predicted(op: &Op, anchor: &str) -> String {
    if op.curve.is_empty() {
        return String::new();
    }
    let mut out = format!(
        r#"<details id="{anchor}-predicted"><summary>Predicted: expected time and one standard deviation, and who serves</summary><p>{}</p><div class="scroll"><table class="n"><thead><tr><th>size</th>"#,
        served(&op.spans)
    );
    let mut names: Vec<&str> = op.variants.iter().map(|v| &*v.name).collect();
    for predicted in op.curve.iter().flat_map(|s| &s.predicted) {
        if !names.contains(&&*predicted.variant) {
            names.push(&predicted.variant);
        }
    }
    heads(&mut out, &names);
    out.push_str("<th>choice</th><th>confidence</th></tr></thead><tbody>");
    for step in &op.curve {
        let _ = write!(
            out,
            r#"<tr><th scope="row">{}</th>"#,
            escape(&step.workload)
        );
        for name in &names {
            match step.predicted.iter().find(|p| p.variant == *name) {
                Some(p) => {
                    let _ = write!(
                        out,
                        "<td>{} <small>{}–{}</small></td>",
                        time(p.ns),
                        time(p.low_ns),
                        time(p.high_ns)
                    );
                }
                None => out.push_str("<td>–</td>"),
            }
        }
        let _ = write!(
            out,
            "<td>{}</td><td>{}</td></tr>",
            escape(&step.chosen),
            percent(step.confidence)
        );
    }
    out.push_str("</tbody></table></div></details>");
    out
}

fn heads(out: &mut String, names: &[&str]) {
    for name in names {
        let _ = write!(out, "<th><bdi>{}</bdi></th>", escape(name));
    }
}

fn served(spans: &[Span]) -> String {
    let told = |s: &Span| {
        format!(
            "<bdi>{}</bdi> from {} to {}",
            escape(&s.variant),
            escape(&s.from_workload),
            escape(&s.to_workload)
        )
    };
    let told: Vec<String> = spans.iter().map(told).collect();
    format!("{}.", told.join("; "))
}
