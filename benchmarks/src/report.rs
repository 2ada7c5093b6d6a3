//! The figures, as JSON and as a table with the bars beside them.

use std::fmt;

use serde::Serialize;

/// What choosing costs on this machine. Times are nanoseconds beyond the direct call, medians over
/// interleaved rounds.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Overhead {
    /// The direct call itself: a dot product of 32 floats.
    pub direct_ns: f64,
    /// `plan.run`, steady.
    pub plan_run_ns: f64,
    /// `op.run`, steady.
    pub op_run_ns: f64,
    /// `selector.decide` and `selector.record` together, steady; the caller's clock not counted.
    pub decide_record_ns: f64,
    /// A call of a settled op that is timed and learned from.
    pub sampled_ns: f64,
    /// `selector.decide` in a cell never seen, with 1,000 cells known and ten candidates; whole, not
    /// beyond the direct call.
    pub new_cell_ns: f64,
    /// Time per call of `op.run` on two threads with one handle, divided by that on one thread;
    /// `None` on a single core.
    pub two_thread_ratio: Option<f64>,
    /// The same for the call between `decide` and `record`.
    pub two_thread_ratio_by_name: Option<f64>,
    /// The same for the direct call, which shares nothing: what the machine itself loses.
    pub two_thread_ratio_direct: Option<f64>,
    /// What looking whether anybody listens to spans adds to the direct call, where nobody does.
    pub trace_off_ns: f64,
    /// What `op.run` takes more of a hot op, which is not traced, where somebody listens.
    pub trace_hot_ns: f64,
    /// What tracing every call adds to an op of 120 µs, as a share of its time.
    pub trace_slow_share: f64,
    /// Heap allocations per steady call, the most of the three.
    pub allocations_per_call: f64,
    /// The usual designs, measured in the same rounds.
    pub rivals: Rivals,
}

/// The usual designs.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Rivals {
    /// A history per op and size behind one lock.
    pub history: Rival,
    /// A registry that copies and scores the candidates.
    pub registry: Rival,
}

/// What a rival takes.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Rival {
    /// Choosing.
    pub select_ns: f64,
    /// Reporting the outcome.
    pub record_ns: f64,
    /// Time per choice and report on two threads, divided by that on one.
    pub two_thread_ratio: Option<f64>,
}

/// Bars that the figures are held to: see `DESIGN.md`.
const PLAN_RUN_NS: f64 = 5.0;
const OP_RUN_NS: f64 = 15.0;
const DECIDE_RECORD_NS: f64 = 100.0;
const NEW_CELL_NS: f64 = 20_000.0;
const TWO_THREADS: f64 = 1.2;
const TRACE_OFF_NS: f64 = 1.0;
const TRACE_HOT_NS: f64 = 3.0;
const TRACE_SLOW_PERCENT: f64 = 1.0;

struct Line {
    what: &'static str,
    figure: Option<f64>,
    unit: &'static str,
    bar: Option<f64>,
}

impl Line {
    fn ns(what: &'static str, figure: f64, bar: Option<f64>) -> Self {
        Line {
            what,
            figure: Some(figure),
            unit: "ns",
            bar,
        }
    }

    fn ratio(what: &'static str, figure: Option<f64>, bar: Option<f64>) -> Self {
        Line {
            what,
            figure,
            unit: "×",
            bar,
        }
    }

    fn missed(&self) -> bool {
        let missed = |(figure, bar): (f64, f64)| figure.is_nan() || figure > bar;
        self.figure.zip(self.bar).is_some_and(missed)
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let unit = self.unit;
        match self.figure {
            Some(figure) => write!(f, "{:<34}{:>9.2} {unit:<4}", self.what, figure)?,
            None => write!(f, "{:<34}{:>9} {:<4}", self.what, "–", "")?,
        }
        let Some(bar) = self.bar else { return Ok(()) };
        write!(f, "{:>9}  ", format!("≤ {bar} {unit}").trim_end())?;
        f.write_str(match self.figure {
            None => "not measured",
            Some(_) if self.missed() => "missed",
            Some(_) => "ok",
        })
    }
}

impl Overhead {
    fn lines(&self) -> [Line; 13] {
        [
            Line::ns("direct call", self.direct_ns, None),
            Line::ns("plan.run", self.plan_run_ns, Some(PLAN_RUN_NS)),
            Line::ns("op.run", self.op_run_ns, Some(OP_RUN_NS)),
            Line::ns(
                "decide + record",
                self.decide_record_ns,
                Some(DECIDE_RECORD_NS),
            ),
            Line::ns("a call that is learned from", self.sampled_ns, None),
            Line::ns("decide in a new cell", self.new_cell_ns, Some(NEW_CELL_NS)),
            Line::ratio(
                "op.run, two threads",
                self.two_thread_ratio,
                Some(TWO_THREADS),
            ),
            Line::ratio(
                "decide + record, two threads",
                self.two_thread_ratio_by_name,
                Some(TWO_THREADS),
            ),
            Line::ratio(
                "direct call, two threads",
                self.two_thread_ratio_direct,
                None,
            ),
            Line::ns(
                "spans, nobody listens",
                self.trace_off_ns,
                Some(TRACE_OFF_NS),
            ),
            Line::ns("spans, a hot op", self.trace_hot_ns, Some(TRACE_HOT_NS)),
            Line {
                what: "spans of every call of 120 µs",
                figure: Some(100.0 * self.trace_slow_share),
                unit: "%",
                bar: Some(TRACE_SLOW_PERCENT),
            },
            Line {
                what: "allocations per call",
                figure: Some(self.allocations_per_call),
                unit: "",
                bar: Some(0.0),
            },
        ]
    }

    /// Names of the figures that miss their bar.
    pub fn missed(&self) -> Vec<&'static str> {
        let lines = self.lines().into_iter();
        lines.filter(Line::missed).map(|l| l.what).collect()
    }
}

impl fmt::Display for Overhead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{:<34}{:>9}     {:>9}",
            "beyond the direct call", "median", "bar"
        )?;
        for line in self.lines() {
            writeln!(f, "{}", line.to_string().trim_end())?;
        }
        writeln!(f)?;
        write!(
            f,
            "{:<34}{:>9} {:>9} {:>12}",
            "rivals", "select", "record", "two threads"
        )?;
        for (name, rival) in [
            ("history behind a lock", &self.rivals.history),
            ("registry with scores", &self.rivals.registry),
        ] {
            let ratio = rival
                .two_thread_ratio
                .map_or("–".to_owned(), |ratio| format!("{ratio:.2} ×"));
            write!(
                f,
                "\n{name:<34}{:>6.0} ns {:>6.0} ns {ratio:>12}",
                rival.select_ns, rival.record_ns
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures() -> Overhead {
        let rival = Rival {
            select_ns: 200.0,
            record_ns: 60.0,
            two_thread_ratio: Some(4.0),
        };
        Overhead {
            direct_ns: 5.0,
            plan_run_ns: 2.0,
            op_run_ns: 10.0,
            decide_record_ns: 60.0,
            sampled_ns: 700.0,
            new_cell_ns: 15_000.0,
            two_thread_ratio: Some(1.0),
            two_thread_ratio_by_name: Some(1.0),
            two_thread_ratio_direct: Some(1.0),
            trace_off_ns: 0.5,
            trace_hot_ns: 1.0,
            trace_slow_share: 0.005,
            allocations_per_call: 0.0,
            rivals: Rivals {
                history: rival.clone(),
                registry: rival,
            },
        }
    }

    #[test]
    fn a_missed_bar_is_named_and_a_met_one_is_not() {
        assert!(figures().missed().is_empty());
        let mut slow = figures();
        slow.op_run_ns = 15.1;
        slow.allocations_per_call = 0.001;
        slow.two_thread_ratio = None; // one core: nothing to hold it to
        slow.plan_run_ns = f64::NAN;
        assert_eq!(
            slow.missed(),
            ["plan.run", "op.run", "allocations per call"]
        );
        let table = slow.to_string();
        assert_eq!(table.matches("missed").count(), 3, "{table}");
        assert_eq!(table.matches("not measured").count(), 1, "{table}");
    }

    #[test]
    fn json_has_the_documented_names() {
        let json = serde_json::to_value(figures()).unwrap();
        for name in [
            "direct_ns",
            "plan_run_ns",
            "op_run_ns",
            "decide_record_ns",
            "sampled_ns",
            "new_cell_ns",
            "two_thread_ratio",
            "two_thread_ratio_by_name",
            "two_thread_ratio_direct",
            "trace_off_ns",
            "trace_hot_ns",
            "trace_slow_share",
            "allocations_per_call",
        ] {
            assert!(json[name].is_number(), "{name}");
        }
        for rival in ["history", "registry"] {
            assert!(json["rivals"][rival]["select_ns"].is_number());
            assert!(json["rivals"][rival]["record_ns"].is_number());
            assert!(json["rivals"][rival]["two_thread_ratio"].is_number());
        }
    }
}
