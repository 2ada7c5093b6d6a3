//! The report as one HTML page that needs nothing else.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::colours::Colours;
use super::data::Report;
use super::ops;
use super::sections;
use super::text::{escape, moment};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// How a page is kept up to date.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A file, as it was when it was written.
    File,
    /// Served, and asks for news.
    Live,
}

/// The whole page.
pub(super) fn page(report: &Report, kind: Kind) -> String {
    let (live, connect) = match kind {
        Kind::File => ("", "'none'"),
        Kind::Live => (r#" data-live="1""#, "'self'"),
    };
    let mut out = String::new();
    let _ = write!(
        out,
        r#"<!DOCTYPE html>
<html lang="en"{live}>
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; connect-src {connect}; base-uri 'none'; form-action 'none'">
<meta name="generator" content="pointsman {}">
<link rel="icon" href="data:,">
<title>Pointsman: {}</title>
<style>{STYLE}</style>
</head>
<body>
{}
<script>{SCRIPT}</script>
</body>
</html>
"#,
        report.version,
        escape(&heading(report)),
        content(report, kind)
    );
    out
}

fn heading(report: &Report) -> String {
    let machine = report.machine.as_ref();
    let cpu = machine.and_then(|m| m.fact("cpu"));
    cpu.unwrap_or("what was learned").to_owned()
}

/// What is between the body's tags, part by part: a live page replaces the parts that changed.
pub(super) fn content(report: &Report, kind: Kind) -> String {
    let colours = Colours::new(&report.ops);
    let anchors = anchors(report.ops.iter().map(|op| &*op.op));
    let mut out = String::new();
    let live = match kind {
        Kind::File => "",
        Kind::Live => r#"<span id="live" role="status">live</span>"#,
    };
    let updated = match report.updated {
        0 => String::new(),
        at => format!(" · last change {}", moment(at)),
    };
    let _ = write!(
        out,
        r#"<header><div class="brand">pointsman report</div>{live}<button id="theme" type="button" aria-label="Switch between light and dark">◐</button>
<div data-part="head"><h1>{}</h1><p class="quiet">{}{updated}</p></div></header>
<main>
"#,
        escape(&heading(report)),
        escape(&report.store)
    );
    let mut part = |name: &str, inner: Option<String>| {
        let inner = inner.unwrap_or_default();
        let _ = writeln!(out, r#"<div data-part="{name}">{inner}</div>"#);
    };
    part("summary", Some(sections::summary(report)));
    part("map", sections::map(report, &colours, &anchors));
    part("machine", sections::machine(report));
    for (op, anchor) in report.ops.iter().zip(&anchors) {
        part(anchor, Some(ops::section(op, anchor, &colours)));
    }
    part("confidence", sections::confidence(report));
    part("budget", sections::budget(report, &anchors));
    part("trouble", sections::trouble(report, &anchors));
    part("elsewhere", sections::elsewhere(report));
    part("rests", Some(sections::rests()));
    out.push_str("</main>");
    out
}

/// A name for each op that may stand in an address, and no two alike.
fn anchors<'a>(ops: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut taken = BTreeSet::new();
    ops.map(|op| {
        let plain = |c: char| {
            if c.is_ascii_alphanumeric() || c == '_' {
                c
            } else {
                '-'
            }
        };
        let base: String = op.chars().map(plain).collect();
        let mut anchor = format!("op-{base}");
        let mut number = 2;
        while !taken.insert(anchor.clone()) {
            anchor = format!("op-{base}-{number}");
            number += 1;
        }
        anchor
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anchors_are_plain_and_all_different() {
        let made = anchors(["dot_f32", "a b", "a<b", "größe"].into_iter());
        assert_eq!(made, ["op-dot_f32", "op-a-b", "op-a-b-2", "op-gr--e"]);
    }
}
