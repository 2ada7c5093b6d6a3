//! Stated confidence beside the share that was right.

use std::fmt::Write as _;

use super::confidence::Tenth;
use super::text::{counted, percent};

const SIDE: f64 = 300.0;
const LEFT: f64 = 44.0;
const TOP: f64 = 12.0;

fn x(share: f64) -> f64 {
    LEFT + share * SIDE
}

fn y(share: f64) -> f64 {
    TOP + (1.0 - share) * SIDE
}

pub(super) fn draw(stated: &[Tenth], held_out: &[Tenth]) -> String {
    let mut out = format!(
        r#"<figure class="square"><svg class="plot" viewBox="0 0 {} {}" role="img" aria-labelledby="confidence-t confidence-d"><title id="confidence-t">Share of choices that were right, by stated confidence</title><desc id="confidence-d">Points near the diagonal mean that confidence is what it says. The table below has the numbers.</desc>
"#,
        LEFT + SIDE + 24.0,
        TOP + SIDE + 44.0
    );
    for tick in [0.0, 0.25, 0.5, 0.75, 1.0] {
        let _ = writeln!(
            out,
            r#"<line class="grid" x1="{LEFT}" x2="{:.1}" y1="{:.1}" y2="{:.1}"/><text class="y" x="{:.1}" y="{:.1}">{}</text><text class="x" x="{:.1}" y="{:.1}">{}</text>"#,
            x(1.0),
            y(tick),
            y(tick),
            LEFT - 6.0,
            y(tick) + 4.0,
            percent(tick),
            x(tick),
            TOP + SIDE + 18.0,
            percent(tick)
        );
    }
    let _ = writeln!(
        out,
        r#"<path class="diagonal" d="M{:.1} {:.1}L{:.1} {:.1}"/><text class="axis" text-anchor="middle" x="{:.1}" y="{:.1}">stated confidence → share right ↑</text>"#,
        x(0.0),
        y(0.0),
        x(1.0),
        y(1.0),
        x(0.5),
        TOP + SIDE + 36.0
    );
    series(&mut out, held_out, "c0");
    series(&mut out, stated, "c1");
    out.push_str("</svg></figure>");
    out
}

fn series(out: &mut String, tenths: &[Tenth], class: &str) {
    let most = tenths.iter().map(|t| t.judged).max().unwrap_or(0).max(1) as f64;
    for tenth in tenths.iter().filter(|t| t.judged > 0) {
        let n = tenth.judged as f64;
        // One standard error, kept within what a share can be.
        let p = (tenth.right as f64 + 0.5) / (n + 1.0);
        let error = (p * (1.0 - p) / n).sqrt();
        let (low, high) = (
            (tenth.share() - error).max(0.0),
            (tenth.share() + error).min(1.0),
        );
        let at = x(tenth.stated());
        let _ = writeln!(
            out,
            r#"<path class="range {class}" d="M{at:.1} {:.1}V{:.1}"/><circle class="share {class}" cx="{at:.1}" cy="{:.1}" r="{:.1}"><title>stated {}, right {} of {}</title></circle>"#,
            y(low),
            y(high),
            y(tenth.share()),
            // As large as there are many.
            3.0 + 7.0 * (n / most).sqrt(),
            percent(tenth.stated()),
            percent(tenth.share()),
            counted(tenth.judged, "choice", "choices")
        );
    }
}
