//! The report as a browser shows it. What a user loses if these fail: charts that are not drawn, text
//! that cannot be read, a page that jumps.
#![cfg(unix)]
#![allow(clippy::print_stderr)] // what was skipped

mod browser;
mod common;

use std::path::Path;

use browser::Browser;
use common::known::*;
use common::{json, pointsman, text};
use pointsman::store::Knowledge;
use serde_json::{Value, json};

/// Makes the page of a home and gives its address.
fn page(home: &Path) -> String {
    let file = home.join("report.html");
    let output = pointsman(&["report", "-o", file.to_str().unwrap()], home, &[]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    format!("file://{}", file.display())
}

fn home() -> tempfile::TempDir {
    let home = tempfile::tempdir().unwrap();
    let mut known = known();
    // Its name would end the title, and its variant run code, if they were not escaped.
    let hostile = "</title><script>window.hacked=1</script>";
    known
        .entries
        .extend(crossing(hostile, "<img src=x onerror='hacked=1'>", "b"));
    add(home.path(), &known);
    home
}

#[test]
fn every_chart_is_drawn_with_every_point() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let home = home();
    let data = json(&pointsman(&["report", "--json"], home.path(), &[]));
    browser.window(1280, "light");
    browser.open(&page(home.path()));
    let drawn = browser.eval(
        "[...document.querySelectorAll('.op')].map(op => {
            const box = e => { const b = e.getBoundingClientRect(); return b.width > 0 && b.height > 0; };
            const marks = [...op.querySelectorAll('.curve, .point, .serve rect, .end text, .x, .y')];
            const svg = op.querySelector('svg').getBoundingClientRect();
            return {
                name: op.querySelector('h2').textContent,
                size: [svg.width, svg.height],
                points: op.querySelectorAll('circle.point').length,
                curves: new Set([...op.querySelectorAll('.curve')].map(c => c.getAttribute('class'))).size,
                bands: op.querySelectorAll('.band').length,
                hidden: marks.filter(m => !box(m)).length,
                outside: [...op.querySelectorAll('circle.point, .x, .y, .end text')].filter(m => {
                    const b = m.getBoundingClientRect();
                    return b.left < svg.left - 1 || b.right > svg.right + 1 || b.top < svg.top - 1 || b.bottom > svg.bottom + 1;
                }).map(m => m.outerHTML),
                rows: op.querySelectorAll('details tbody tr').length,
                labels: op.querySelectorAll('.end text').length,
            };
        })",
    );
    let ops = data["ops"].as_array().unwrap();
    assert_eq!(drawn.as_array().unwrap().len(), ops.len());
    for (op, seen) in ops.iter().zip(drawn.as_array().unwrap()) {
        let count = |of: &Value| of.as_array().unwrap().len();
        let cells = op["cells"].as_array().unwrap();
        let points: usize = cells.iter().map(|c| count(&c["times"])).sum();
        assert_eq!(seen["name"], op["op"]);
        assert_eq!(seen["points"], points, "{seen}");
        assert_eq!(
            seen["rows"],
            count(&op["cells"]) + count(&op["curve"]),
            "{seen}"
        );
        assert!(seen["size"][0].as_f64().unwrap() > 500.0, "{seen}");
        assert_eq!(seen["hidden"], 0, "{seen}");
        assert_eq!(seen["outside"], json!([]), "{seen}");
        assert!(seen["curves"].as_u64().unwrap() >= 2, "{seen}");
        assert!(seen["bands"].as_u64().unwrap() >= 2, "{seen}");
        assert!(seen["labels"].as_u64().unwrap() >= 2, "{seen}");
    }
    let judged = browser.eval("document.querySelectorAll('#confidence circle.share').length");
    assert!(judged.as_u64().unwrap() >= 1);
    assert_eq!(browser.eval("typeof window.hacked"), "undefined");
    assert_eq!(browser.eval("document.querySelectorAll('img').length"), 0);
    // The times under the pointer.
    let told = browser.eval(
        "(() => {
            const chart = document.querySelector('#op-own_op .chart'), svg = chart.querySelector('svg').getBoundingClientRect();
            const at = { bubbles: true, clientX: svg.left + svg.width / 2, clientY: svg.top + svg.height / 2 };
            chart.querySelector('svg').dispatchEvent(new PointerEvent('pointermove', at));
            return chart.querySelector('.reading').hidden ? '' : chart.querySelector('.reading').textContent;
        })()",
    );
    let told = told.as_str().unwrap();
    assert!(
        told.contains("slow") && told.contains("fast") && told.contains("µs"),
        "{told:?}"
    );
    assert_eq!(browser.errors, [""; 0]);
}

/// Least contrast of texts with the page, of lines with the page, and of letters on the strips.
const CONTRASTS: &str = "(() => {
    const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
    const rgb = colour => {
        canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
        return [...canvas.getImageData(0, 0, 1, 1).data].slice(0, 3);
    };
    const light = c => { const f = c.map(v => { v /= 255; return v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; }); return .2126 * f[0] + .7152 * f[1] + .0722 * f[2]; };
    const contrast = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + .05) / (y + .05); };
    const style = e => getComputedStyle(e);
    const paper = rgb(style(document.body).backgroundColor);
    const shown = e => e.getClientRects().length > 0;
    const all = (what, of) => [...document.querySelectorAll(what)].filter(shown).map(of);
    const texts = all('h1, h2 a, p, small, th, td, dt, dd, summary, .tiles span, a, .name, .worth', e => contrast(rgb(style(e).color), paper))
        .concat(all('svg text', e => contrast(rgb(style(e).fill), paper)));
    const lines = all('.curve', e => contrast(rgb(style(e).stroke), paper));
    const strips = all('.serve', g => {
        const r = style(g.querySelector('rect')), part = parseFloat(r.fillOpacity), fill = rgb(r.fill);
        return contrast(rgb(style(document.body).color), fill.map((v, i) => part * v + (1 - part) * paper[i]));
    });
    const lanes = all('.fill', e => contrast(rgb(style(e).color), rgb(style(e).backgroundColor)));
    return { paper, texts: Math.min(...texts), lines: Math.min(...lines), strips: Math.min(...strips, ...lanes), count: texts.length };
})()";

#[test]
fn both_themes_can_be_read() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let home = home();
    let url = page(home.path());
    let mut papers = Vec::new();
    for theme in ["light", "dark"] {
        browser.window(1280, theme);
        browser.open(&url);
        let seen = browser.eval(CONTRASTS);
        assert!(seen["count"].as_u64().unwrap() > 50, "{seen}");
        for (what, least) in [("texts", 4.5), ("strips", 4.5), ("lines", 3.0)] {
            assert!(
                seen[what].as_f64().unwrap() >= least,
                "{theme} {what}: {seen}"
            );
        }
        papers.push(seen["paper"].clone());
    }
    assert_ne!(papers[0], papers[1]);
    // The button goes the other way, whatever the system says.
    browser.eval("document.getElementById('theme').click()");
    let seen = browser.eval(CONTRASTS);
    assert_eq!(seen["paper"], papers[0], "from dark to light");
    assert!(seen["texts"].as_f64().unwrap() >= 4.5, "{seen}");
    assert_eq!(browser.errors, [""; 0]);
}

#[test]
fn a_variant_has_one_colour_and_no_two_of_an_op_look_alike() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let home = tempfile::tempdir().unwrap();
    let mut known = known();
    // More variants than colours, and some of the same name in several ops.
    for i in 0..12 {
        known
            .entries
            .extend(crossing("crowd", &format!("v{i}"), &format!("w{i}")));
    }
    known.entries.extend(crossing("other", "fast", "v3"));
    add(home.path(), &known);
    browser.window(1280, "light");
    browser.open(&page(home.path()));
    let looks = browser.eval(
        "[...document.querySelectorAll('.op')].map(op => [...op.querySelectorAll('.legend li')].map(li =>
            [li.textContent, li.querySelector('.key').className]))",
    );
    let mut by_name = std::collections::HashMap::new();
    for op in looks.as_array().unwrap() {
        let mut of_op = std::collections::HashSet::new();
        for pair in op.as_array().unwrap() {
            let (name, look) = (pair[0].as_str().unwrap(), pair[1].as_str().unwrap());
            assert!(of_op.insert(look.to_owned()), "{look} twice: {op}");
            let before = by_name.insert(name.to_owned(), look.to_owned());
            assert!(before.is_none_or(|b| b == look), "{name}");
        }
    }
    assert!(by_name.len() >= 28, "{looks}");
}

#[test]
fn a_phone_shows_all_of_it_without_scrolling_sideways() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let home = home();
    browser.window(390, "light");
    browser.open(&page(home.path()));
    browser.eval("document.querySelectorAll('details').forEach(d => d.open = true)");
    let width = browser.eval("document.documentElement.scrollWidth");
    assert!(width.as_u64().unwrap() <= 390, "{width}");
    let charts = browser.eval(
        "[...document.querySelectorAll('.chart')].map(c => [c.getBoundingClientRect().width, c.querySelectorAll('circle.point').length])",
    );
    for chart in charts.as_array().unwrap() {
        assert!(chart[0].as_f64().unwrap() > 300.0, "{charts}");
        assert!(chart[1].as_u64().unwrap() > 0, "{charts}");
    }
    let small = browser.eval(
        "Math.min(...[...document.querySelectorAll('.chart svg text')].filter(t => t.getClientRects().length)
            .map(t => parseFloat(getComputedStyle(t).fontSize) * t.getScreenCTM().a))",
    );
    assert!(small.as_f64().unwrap() >= 9.0, "letters of {small} px");
    let cut = browser.eval(
        "[...document.querySelectorAll('.chart .y, .chart .x')].filter(t => {
            const text = t.getBoundingClientRect(), chart = t.closest('.chart').getBoundingClientRect();
            return text.width > 0 && (text.left < chart.left - 0.5 || text.right > chart.right + 0.5);
        }).map(t => t.textContent)",
    );
    assert_eq!(cut, json!([]), "labels of the axes");
    let names = browser.eval(
        "[...document.querySelectorAll('.legend')].every(l => l.getClientRects().length > 0)",
    );
    assert_eq!(names, true, "lines have their names above the chart");
    assert_eq!(browser.errors, [""; 0]);
}

#[test]
fn a_live_page_follows_the_store_and_stays_where_it_is() {
    let Some(mut browser) = Browser::start() else {
        return;
    };
    let home = tempfile::tempdir().unwrap();
    add(home.path(), &known());
    let served = Served::start(home.path());
    browser.window(1280, "light");
    browser.open(&format!("http://{}/", served.address));
    browser.eval(
        "document.querySelector('#op-own_op details').open = true;
         document.querySelector('#op-own_op').marked = true;
         scrollTo({ top: document.querySelector('#op-own_op').getBoundingClientRect().top + scrollY - 40, behavior: 'instant' })",
    );
    let before = browser.eval("document.querySelector('#op-own_op').getBoundingClientRect().top");
    // Above what is looked at, so that it would be pushed down.
    let more = Knowledge {
        entries: crossing("another_op", "a", "b"),
        machines: Vec::new(),
    };
    add(home.path(), &more);
    browser.until("!!document.querySelector('#op-another_op circle.point')");
    let after = browser.eval(
        "(() => { const op = document.querySelector('#op-own_op');
            return { top: op.getBoundingClientRect().top, open: op.querySelector('details').open, same: op.marked === true,
                ops: [...document.querySelectorAll('.op h2')].map(h => h.textContent) }; })()",
    );
    let moved = after["top"].as_f64().unwrap() - before.as_f64().unwrap();
    assert!(moved.abs() <= 2.0, "moved by {moved} px: {after}");
    assert_eq!(
        (&after["open"], &after["same"]),
        (&true.into(), &true.into())
    );
    assert_eq!(after["ops"], json!(["another_op", "own_matmul", "own_op"]));
    // What changes is replaced, and what was open in it stays open.
    let more = Knowledge {
        entries: vec![account("own_op", "slow"), account("own_op", "fast")]
            .into_iter()
            .chain(crossing("own_op", "third", "fast"))
            .collect(),
        machines: Vec::new(),
    };
    add(home.path(), &more);
    browser.until("document.querySelector('#op-own_op .legend').textContent.includes('third')");
    let open = browser.eval("document.querySelector('#op-own_op details').open");
    assert_eq!(open, true);
    assert_eq!(
        browser.eval("document.getElementById('live').textContent"),
        "live"
    );
    assert_eq!(browser.errors, [""; 0]);
}
