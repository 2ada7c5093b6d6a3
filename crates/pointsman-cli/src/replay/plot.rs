//! Regret over calls, as a picture.

use std::path::Path;

use plotters::prelude::*;

use super::drive::Run;
use super::table::Table;
use crate::output::Failure;

/// Points of a curve: enough for its bends at the size it is drawn.
const POINTS: usize = 200;

/// Width and height of one panel in pixels.
const PANEL: (u32, u32) = (720, 360);

/// Colours that people who see few colours can tell apart (Okabe and Ito), darkest first.
const COLOURS: [RGBColor; 8] = [
    RGBColor(0, 0, 0),
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(140, 140, 140),
];

/// Cumulative regret of a policy: (calls so far, total ÷ oracle − 1), mean over its seeds.
#[derive(Clone, Debug)]
pub struct Curve {
    /// The policy.
    pub policy: String,
    /// The points, at calls that grow by about the same factor.
    pub points: Vec<(f64, f64)>,
    seeds: f64,
}

impl Curve {
    /// A curve without any seed yet.
    pub fn new(policy: &str) -> Self {
        Curve {
            policy: policy.to_owned(),
            points: Vec::new(),
            seeds: 0.0,
        }
    }

    /// Takes a seed into the mean. All seeds have the same number of calls.
    pub fn add(&mut self, table: &Table, run: &Run) {
        let marks = marks(run.served.len());
        let best: Vec<f64> = table.cases.iter().map(|case| case.best()).collect();
        let (mut truth, mut oracle, mut regrets) = (0.0, 0.0, Vec::with_capacity(POINTS));
        let mut next = marks.iter().copied().peekable();
        for (at, served) in run.served.iter().enumerate() {
            let case = served.case as usize;
            truth += table.cases[case].choices[served.choice as usize].truth;
            oracle += best[case];
            if next.next_if_eq(&(at + 1)).is_some() {
                regrets.push(truth / oracle - 1.0);
            }
        }
        if self.points.is_empty() {
            self.points = marks.iter().map(|calls| (*calls as f64, 0.0)).collect();
        }
        self.seeds += 1.0;
        for (point, regret) in self.points.iter_mut().zip(regrets) {
            point.1 += (regret - point.1) / self.seeds;
        }
    }
}

/// Numbers of calls at which a curve has a point: the first, the last, and others between them.
fn marks(calls: usize) -> Vec<usize> {
    let octaves = (calls as f64).ln();
    let mark = |at: usize| (octaves * at as f64 / POINTS as f64).exp().round() as usize;
    let mut marks: Vec<usize> = (0..=POINTS).map(mark).collect();
    marks.dedup();
    marks
}

/// The curves of one table.
#[derive(Clone, Debug)]
pub struct Panel {
    /// The table.
    pub title: String,
    /// One curve a policy.
    pub curves: Vec<Curve>,
}

impl Panel {
    /// Where the axis of regret ends. The first calls are a lottery: a regret of many hundred
    /// percent there would flatten all that follows.
    fn top(&self) -> f64 {
        let late = self.curves.iter().flat_map(|curve| {
            let last = curve.points.last().map_or(1.0, |point| point.0);
            curve.points.iter().filter(move |p| p.0 >= last / 100.0)
        });
        let highest = late.map(|point| point.1).fold(0.0, f64::max);
        (1.05 * highest).clamp(0.01, 1e9)
    }

    fn calls(&self) -> f64 {
        let ends = self.curves.iter().filter_map(|curve| curve.points.last());
        ends.map(|point| point.0).fold(10.0, f64::max)
    }
}

/// Draws the panels below each other into an SVG file.
pub fn draw(path: &Path, panels: &[Panel]) -> Result<(), Failure> {
    let svg = svg(panels).map_err(|why| Failure::new(format!("cannot draw: {why}")))?;
    std::fs::write(path, svg)
        .map_err(|why| Failure::new(format!("{}: cannot be written: {why}", path.display())))
}

/// The panels below each other as SVG.
pub fn svg(panels: &[Panel]) -> Result<String, Box<dyn std::error::Error>> {
    let mut text = String::new();
    {
        let height = PANEL.1 * panels.len() as u32;
        let area = SVGBackend::with_string(&mut text, (PANEL.0, height)).into_drawing_area();
        area.fill(&WHITE)?;
        for (panel, area) in panels.iter().zip(area.split_evenly((panels.len(), 1))) {
            let top = panel.top();
            let mut chart = ChartBuilder::on(&area)
                .margin(10)
                .caption(&panel.title, ("sans-serif", 16))
                .x_label_area_size(36)
                .y_label_area_size(60)
                .build_cartesian_2d((1.0..panel.calls()).log_scale(), 0.0..top)?;
            chart
                .configure_mesh()
                .max_light_lines(0)
                .x_desc("calls")
                .y_desc("time beyond the oracle's")
                .x_label_formatter(&|calls| format!("{calls:.0}"))
                .y_label_formatter(&|regret| format!("{:.1} %", 100.0 * regret))
                .draw()?;
            for (at, curve) in panel.curves.iter().enumerate() {
                let colour = COLOURS[at % COLOURS.len()];
                // Those above the axis are cut at its end.
                let points = curve
                    .points
                    .iter()
                    .map(|(calls, regret)| (*calls, regret.min(top)));
                chart
                    .draw_series(LineSeries::new(points, colour.stroke_width(2)))?
                    .label(&curve.policy)
                    .legend(move |(x, y)| {
                        PathElement::new([(x, y), (x + 16, y)], colour.stroke_width(2))
                    });
            }
            chart
                .configure_series_labels()
                .position(SeriesLabelPosition::UpperRight)
                .background_style(WHITE.mix(0.8))
                .border_style(BLACK.mix(0.3))
                .draw()?;
        }
        area.present()?;
    }
    Ok(text)
}
