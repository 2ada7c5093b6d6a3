//! The sections of the page that are about all ops.

use std::fmt::Write as _;

use super::colours::Colours;
use super::confidence::Tenth;
use super::data::Report;
use super::op::{Op, Spent};
use super::reliability;
use super::scale::{Scale, bounds};
use super::text::{bytes, count, counted, escape, percent, short, time, times};

/// The few figures that say most.
pub(super) fn summary(report: &Report) -> String {
    let totals = &report.totals;
    let mut tiles: Vec<(String, String)> = Vec::new();
    if report.ops.is_empty() {
        return r#"<section><h2>Nothing is known yet</h2><p><code>pointsman tune</code> measures every op on this machine in a minute, and every program that uses Pointsman adds what it learns.</p></section>"#.to_owned();
    }
    tiles.push((
        count(report.ops.len() as u64),
        format!(
            "ops with {}",
            counted(totals.variants as u64, "variant", "variants")
        ),
    ));
    tiles.push((
        count(totals.measurements),
        format!(
            "measurements in {}",
            counted(totals.cells as u64, "cell", "cells")
        ),
    ));
    if let Some(ratio) = totals.over_reference {
        let ops = counted(totals.referenced as u64, "op", "ops");
        tiles.push((
            times(ratio),
            format!("as fast as the reference, mean of {ops}"),
        ));
    }
    if let Some(ratio) = totals.over_best {
        tiles.push((
            times(ratio),
            "the time of the best in each cell, in hindsight".to_owned(),
        ));
    }
    if let Some(spent) = totals
        .spent
        .as_ref()
        .filter(|s| s.calls > 0 && s.served_ns > 0)
    {
        tiles.push((
            percent(spent.trial_excess_ns as f64 / spent.served_ns as f64),
            "of the time served was lost in trials".to_owned(),
        ));
    }
    let mut out = String::from(r#"<ul class="tiles">"#);
    for (figure, what) in tiles {
        let _ = write!(out, "<li><b>{figure}</b><span>{what}</span></li>");
    }
    out.push_str("</ul>");
    out
}

/// Who serves where, a row per op.
pub(super) fn map(report: &Report, colours: &Colours, anchors: &[String]) -> Option<String> {
    let spans = report.ops.iter().flat_map(|op| &op.spans);
    let (low, high) = bounds(spans.flat_map(|s| [s.from_size as f64, s.to_size as f64]))?;
    let x = Scale::new((low, high), (0.0, 100.0));
    let mut out = String::from(
        r#"<section id="map"><h2>Who serves where</h2><p class="quiet">Expected to serve, by size from left to right on one logarithmic scale: elements of the largest array for ops of this build, the product of the features for others.</p><div class="map">"#,
    );
    for (op, anchor) in report.ops.iter().zip(anchors) {
        let _ = write!(
            out,
            r##"<a class="row" href="#{anchor}"><span class="name"><bdi>{}</bdi></span><span class="lane">"##,
            escape(&op.op)
        );
        for (i, span) in op.spans.iter().enumerate() {
            let end = op
                .spans
                .get(i + 1)
                .map_or(span.to_size, |next| next.from_size);
            let (left, right) = (x.at(span.from_size as f64), x.at(end as f64));
            let _ = write!(
                out,
                r#"<i class="fill {}" style="left:{left:.2}%;width:{:.2}%" title="{} from {} to {}"><em>{}</em></i>"#,
                colours.class(&span.variant),
                (right - left).max(0.4),
                escape(&span.variant),
                escape(&span.from_workload),
                escape(&span.to_workload),
                escape(&short(&span.variant, 14))
            );
        }
        let worth = op
            .over_reference()
            .map_or(String::new(), |f| times(f.ratio));
        let _ = write!(out, r#"</span><span class="worth">{worth}</span></a>"#);
    }
    out.push_str(r#"</div><p class="note">On the right: how many times longer the reference takes, as below.</p><details id="map-table"><summary>Table</summary><div class="scroll"><table><thead><tr><th>op</th><th>who serves</th></tr></thead><tbody>"#);
    for op in &report.ops {
        let _ = write!(
            out,
            r#"<tr><th scope="row"><bdi>{}</bdi></th><td>{}</td></tr>"#,
            escape(&op.op),
            served(op)
        );
    }
    out.push_str("</tbody></table></div></details></section>");
    Some(out)
}

fn served(op: &Op) -> String {
    let told = op.spans.iter().enumerate().map(|(i, s)| match i {
        0 => escape(&s.variant),
        _ => format!("{} → {}", escape(&s.from_workload), escape(&s.variant)),
    });
    told.collect::<Vec<_>>().join(" │ ")
}

pub(super) fn machine(report: &Report) -> Option<String> {
    let machine = report.machine.as_ref()?;
    let mut out = String::from(r#"<section id="machine"><h2>Machine</h2>"#);
    if !machine.is_this() {
        out.push_str(r#"<p class="quiet">Not the one this page was made on, of which the store knows nothing.</p>"#);
    }
    out.push_str(r#"<div class="cols"><dl>"#);
    let mut fact = |name: &str, value: String| {
        let _ = write!(out, "<dt>{}</dt><dd>{value}</dd>", escape(name));
    };
    let of = |name: &str| machine.fact(name).map(escape);
    fact(
        "CPU",
        of("cpu").unwrap_or_else(|| "not described: imported".to_owned()),
    );
    if let (Some(cores), Some(os), Some(arch)) = (of("cores"), of("os"), of("arch")) {
        fact("cores", format!("{cores}, {os} {arch}"));
    }
    if let Some(features) = of("features") {
        fact("features", features);
    }
    let cache = |name: &str| {
        let size = machine.fact(name)?.parse().ok();
        Some(size.map_or_else(|| "unknown".to_owned(), bytes))
    };
    if let (Some(l1), Some(l2), Some(l3)) = (cache("l1d"), cache("l2"), cache("l3")) {
        fact("caches", format!("L1d {l1}, L2 {l2}, L3 {l3}"));
    }
    for (name, gpu) in machine.gpus() {
        fact(name, escape(gpu));
    }
    if machine.gpus().next().is_none() && machine.fact("cpu").is_some() {
        fact("GPUs", "none".to_owned());
    }
    fact(
        "fingerprint",
        format!("<code>{}</code>", machine.fingerprint()),
    );
    out.push_str("</dl>");
    if let Some(calibration) = machine.calibration() {
        let _ = write!(
            out,
            r#"<div><h3>Calibration</h3><div class="scroll"><table class="n"><thead><tr><th>backend</th><th>launch</th><th>GFLOP/s</th><th>GB/s</th><th>GB/s over bus</th></tr></thead><tbody>"#
        );
        for (name, cost) in calibration.backends() {
            let bus = cost.transfer_bytes_per_s;
            let _ = write!(
                out,
                r#"<tr><th scope="row">{}</th><td>{}</td><td>{:.1}</td><td>{:.1}</td><td>{}</td></tr>"#,
                escape(name),
                time(cost.launch_ns),
                cost.flops_per_s / 1e9,
                cost.bytes_per_s / 1e9,
                bus.map_or("–".to_owned(), |rate| format!("{:.1}", rate / 1e9))
            );
        }
        let _ = write!(
            out,
            r#"</tbody></table></div><p class="note">Timing a call takes {}.</p></div>"#,
            time(calibration.clock_ns())
        );
    }
    out.push_str("</div></section>");
    Some(out)
}

pub(super) fn budget(report: &Report, anchors: &[String]) -> Option<String> {
    if report.ops.is_empty() {
        return None;
    }
    let mut out = String::from(r#"<section id="budget"><h2>What learning cost</h2>"#);
    let Some(total) = &report.totals.spent else {
        out.push_str(r#"<p class="quiet">The store keeps no accounts of this machine: they are added by programs that learn, from the version on that has them.</p></section>"#);
        return Some(out);
    };
    let _ = write!(
        out,
        r#"<p>{} took {} to serve. {} took {}, of which {} beyond the best known variant: {} of the time served. {} outside the budget took {}, {} beyond the best.</p>"#,
        counted(total.calls, "call", "calls"),
        time(total.served_ns as f64),
        counted(total.trials, "trial", "trials"),
        time(total.trial_ns as f64),
        time(total.trial_excess_ns as f64),
        share(total.trial_excess_ns, total.served_ns),
        counted(total.first_tries, "first try", "first tries"),
        time(total.first_try_ns as f64),
        time(total.first_try_excess_ns as f64)
    );
    out.push_str(r#"<div class="scroll"><table class="n"><thead><tr><th>op</th><th>calls</th><th>served</th><th>trials</th><th>took</th><th>beyond best</th><th>share</th><th>first tries</th><th>took</th><th>beyond best</th></tr></thead><tbody>"#);
    for (op, anchor) in report.ops.iter().zip(anchors) {
        let mut spent = Spent::default();
        let accounts: Vec<&Spent> = op
            .variants
            .iter()
            .filter_map(|v| v.account.as_ref())
            .collect();
        if accounts.is_empty() {
            continue;
        }
        accounts.iter().for_each(|account| spent.add(account));
        let _ = write!(
            out,
            r##"<tr><th scope="row"><a href="#{anchor}"><bdi>{}</bdi></a></th><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>"##,
            escape(&op.op),
            count(spent.calls),
            time(spent.served_ns as f64),
            count(spent.trials),
            some_time(spent.trial_ns),
            some_time(spent.trial_excess_ns),
            share(spent.trial_excess_ns, spent.served_ns),
            count(spent.first_tries),
            some_time(spent.first_try_ns),
            some_time(spent.first_try_excess_ns)
        );
    }
    out.push_str(r#"</tbody></table></div><p class="note">From the accounts that programs save. Time served is estimated from the calls that were timed; what <code>pointsman tune</code> measures counts as time served, as it does for the budget, and neither as calls nor as trials.</p></section>"#);
    Some(out)
}

fn some_time(ns: u64) -> String {
    match ns {
        0 => "–".to_owned(),
        ns => time(ns as f64),
    }
}

fn share(part: u64, whole: u64) -> String {
    match whole {
        0 => "–".to_owned(),
        whole => percent(part as f64 / whole as f64),
    }
}

/// Failures, quarantines and wrong results.
pub(super) fn trouble(report: &Report, anchors: &[String]) -> Option<String> {
    if report.ops.is_empty() {
        return None;
    }
    let mut rows = String::new();
    for (op, anchor) in report.ops.iter().zip(anchors) {
        for v in &op.variants {
            let quarantines = v.account.as_ref().map(|a| a.quarantines);
            if v.failures == 0 && !v.disagreed && quarantines.unwrap_or(0) == 0 {
                continue;
            }
            let _ = write!(
                rows,
                r##"<tr><th scope="row"><a href="#{anchor}"><bdi>{}</bdi></a></th><td><bdi>{}</bdi></td><td class="n">{} in {}</td><td class="n">{}</td><td>{}</td></tr>"##,
                escape(&op.op),
                escape(&v.name),
                count(v.failures),
                counted(v.failed_in as u64, "cell", "cells"),
                quarantines.map_or("not kept".to_owned(), count),
                if v.disagreed {
                    "disagrees with the reference: out for its revision"
                } else {
                    "–"
                }
            );
        }
    }
    let mut out = String::from(r#"<section id="trouble"><h2>Failures and quarantines</h2>"#);
    if rows.is_empty() {
        out.push_str(r#"<p class="quiet">None: no variant failed, and none gave another result than its reference.</p>"#);
    } else {
        let _ = write!(
            out,
            r#"<div class="scroll"><table><thead><tr><th>op</th><th>variant</th><th>failures</th><th>quarantines</th><th>wrong results</th></tr></thead><tbody>{rows}</tbody></table></div>"#
        );
    }
    out.push_str("</section>");
    Some(out)
}

/// How sure, and how right.
pub(super) fn confidence(report: &Report) -> Option<String> {
    if report.ops.is_empty() {
        return None;
    }
    let mut out = String::from(
        r#"<section id="confidence"><h2>How sure, and how right</h2><p class="quiet">Confidence is the probability to be within 5 % of the fastest. On the line, it is what it says.</p><div class="cols"><div class="wide">"#,
    );
    let judged = |tenths: &[Tenth]| tenths.iter().map(|t| t.judged).sum::<u64>();
    let (stated, held) = (judged(&report.stated), judged(&report.held_out));
    if stated + held == 0 {
        out.push_str(r#"<p class="quiet">No choice can be judged yet: that needs cells in which several variants were measured.</p></div></div></section>"#);
        return Some(out);
    }
    out.push_str(&reliability::draw(&report.stated, &report.held_out));
    out.push_str("</div><div class=\"side\"><dl>");
    let _ = write!(
        out,
        r#"<dt><i class="key c0"></i>Predicted, then compared</dt><dd>{}. The cells of each op in eight parts, each chosen for by name from what the other seven know, and judged by its own medians of three measurements or more.</dd>"#,
        counted(held, "cell", "cells")
    );
    let _ = write!(
        out,
        r#"<dt><i class="key c1"></i>Chosen by programs</dt><dd>{}</dd></dl></div></div>"#,
        match stated {
            0 => "None in the store: <code>tune</code> measures and does not choose.".to_owned(),
            n => format!(
                "{}, as programs counted them: timed, in cells where an alternative had been measured, and judged by those alternatives only.",
                counted(n, "choice", "choices")
            ),
        }
    );
    out.push_str(r#"<details id="confidence-table"><summary>Table</summary><div class="scroll"><table class="n"><thead><tr><th>confidence</th><th>cells predicted</th><th>mean stated</th><th>right</th><th>choices</th><th>mean stated</th><th>right</th></tr></thead><tbody>"#);
    for (i, (held, stated)) in report.held_out.iter().zip(&report.stated).enumerate() {
        let _ = write!(
            out,
            r#"<tr><th scope="row">{}–{} %</th>"#,
            10 * i,
            10 * i + 10
        );
        for tenth in [held, stated] {
            let _ = match tenth.judged {
                0 => write!(out, "<td>0</td><td>–</td><td>–</td>"),
                n => write!(
                    out,
                    "<td>{}</td><td>{}</td><td>{}</td>",
                    count(n),
                    percent(tenth.stated()),
                    percent(tenth.share())
                ),
            };
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table></div></details></section>");
    Some(out)
}

pub(super) fn elsewhere(report: &Report) -> Option<String> {
    if report.elsewhere.is_empty() {
        return None;
    }
    let mut out = String::from(
        r#"<section id="elsewhere"><h2>Known from elsewhere</h2><p class="quiet">Other machines in this store, and what was imported: first guesses rest on it, and the charts do not show it.</p><div class="scroll"><table><thead><tr><th>machine</th><th>CPU</th><th>entries</th><th>ops</th></tr></thead><tbody>"#,
    );
    for other in &report.elsewhere {
        let mut ops: Vec<String> = other.ops.iter().take(12).map(|op| escape(op)).collect();
        if other.ops.len() > 12 {
            ops.push(format!("and {} more", other.ops.len() - 12));
        }
        let _ = write!(
            out,
            r#"<tr><th scope="row"><code>{}</code></th><td>{}</td><td class="n">{}</td><td><bdi>{}</bdi></td></tr>"#,
            other.fingerprint,
            escape(other.cpu.as_deref().unwrap_or("imported, or not described")),
            count(other.entries as u64),
            ops.join(", ")
        );
    }
    out.push_str("</tbody></table></div></section>");
    Some(out)
}

/// What the charts rest on.
pub(super) fn rests() -> String {
    r#"<section id="rests"><h2>What this rests on</h2><ul class="plain">
<li><b>Points</b> are the store's: of each variant in each cell the median of the last nine measurements at most, a thin line from the least to the largest of them. A cell spans up to 12.5 % in each feature; points are drawn where it begins, which is where powers of two are.</li>
<li><b>Lines</b> are what a program would predict now from this store, the area one standard deviation down and up. They break where a variant may not serve. Rings mark where another variant is expected to take over.</li>
<li><b>Instead of choosing</b> compares medians of the same measurements that the choices rest on; a fresh measurement would be a little less kind to the choice.</li>
<li>Old measurements count for less as time passes; points do not show that, predictions in programs do.</li></ul></section>"#
        .to_owned()
}
