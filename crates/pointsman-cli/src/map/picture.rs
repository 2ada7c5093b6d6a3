//! The map as a picture: a row per op, sizes from left to right, colours by backend.

use std::path::Path;

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use pointsman::Backend;

use super::{Map, OpMap};
use crate::output::Failure;

/// Height of a row, of the head and of the foot, width of the names and of the rest, in pixels.
const ROW: i32 = 26;
const HEAD: i32 = 44;
const FOOT: i32 = 16;
const NAMES: i32 = 150;
const WIDTH: i32 = 760;

/// Width of a letter in a span: variants that do not fit are left out.
const LETTER: i32 = 7;

/// Colours that people who see few colours can tell apart (Okabe and Ito), light enough for black
/// letters.
fn colour(backend: Backend) -> RGBColor {
    match backend {
        Backend::Scalar => RGBColor(200, 200, 200),
        Backend::Simd => RGBColor(86, 180, 233),
        Backend::Threads => RGBColor(230, 159, 0),
        Backend::Gpu(_) => RGBColor(0, 158, 115),
        _ => RGBColor(204, 121, 167),
    }
}

/// Draws the ops of which something is known.
pub(super) fn draw(map: &Map, path: &Path) -> Result<(), Failure> {
    let ops: Vec<&OpMap> = map.ops.iter().filter(|op| !op.spans.is_empty()).collect();
    let ends = |op: &&OpMap| Some((op.spans.first()?.from, op.spans.last()?.to));
    let low = ops.iter().filter_map(ends).map(|(from, _)| from).min();
    let high = ops.iter().filter_map(ends).map(|(_, to)| to).max();
    let (Some(low), Some(high)) = (low, high) else {
        return Err(Failure::new(
            "nothing is known to draw: `pointsman tune` measures",
        ));
    };
    let scale = Scale {
        low: (low as f64).log2(),
        high: (high as f64).log2(),
    };
    picture(&ops, &scale, path)
        .map_err(|error| Failure::new(format!("cannot draw {}: {error}", path.display())))
}

/// Sizes as places from left to right.
struct Scale {
    low: f64,
    high: f64,
}

impl Scale {
    fn x(&self, size: f64) -> i32 {
        let span = (self.high - self.low).max(1.0);
        NAMES + ((size.log2() - self.low) / span * f64::from(WIDTH)).round() as i32
    }
}

fn picture(ops: &[&OpMap], scale: &Scale, path: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let height = HEAD + ROW * ops.len() as i32 + FOOT;
    let size = ((NAMES + WIDTH + 20) as u32, height as u32);
    let area = SVGBackend::new(path, size).into_drawing_area();
    area.fill(&WHITE)?;
    let style = |h, v| {
        let font = ("sans-serif", 13).into_font().color(&BLACK);
        font.pos(Pos::new(h, v))
    };
    let grey = RGBColor(160, 160, 160);
    for exponent in (scale.low.ceil() as i32..=scale.high as i32).step_by(2) {
        let x = scale.x(2f64.powi(exponent));
        let line = [(x, HEAD - 6), (x, height - FOOT)];
        area.draw(&PathElement::new(line, grey.stroke_width(1)))?;
        let label = format!("2^{exponent}");
        let at = (x, HEAD - 10);
        area.draw_text(&label, &style(HPos::Center, VPos::Bottom), at)?;
    }
    let elements = "elements of the largest array";
    area.draw_text(elements, &style(HPos::Left, VPos::Top), (NAMES, 4))?;
    for (row, op) in ops.iter().enumerate() {
        let top = HEAD + ROW * row as i32;
        let middle = top + ROW / 2;
        let name = style(HPos::Right, VPos::Center);
        area.draw_text(&op.op, &name, (NAMES - 8, middle))?;
        for span in &op.spans {
            let (left, right) = (scale.x(span.from as f64), scale.x(span.to as f64 + 1.0));
            let corners = [(left, top + 2), (right.max(left + 2), top + ROW - 2)];
            area.draw(&Rectangle::new(corners, colour(span.backend).filled()))?;
            area.draw(&Rectangle::new(corners, WHITE.stroke_width(1)))?;
            if span.variant.len() as i32 * LETTER < right - left {
                let at = ((left + right) / 2, middle);
                area.draw_text(&span.variant, &style(HPos::Center, VPos::Center), at)?;
            }
        }
    }
    area.present()?;
    Ok(())
}
