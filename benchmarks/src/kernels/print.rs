//! The figures for people.

use std::fmt;

use super::Kernels;

impl fmt::Display for Kernels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut last = ("", "");
        for r in &self.results {
            if last != (&r.op, &r.shape) {
                last = (&r.op, &r.shape);
                writeln!(f, "\n{} {}", r.op, r.shape)?;
            }
            let whose = if r.rival { "rival" } else { "" };
            writeln!(
                f,
                "  {:<26}{:>10.1} µs {:>9.2} {}  {whose}",
                r.who,
                r.ns / 1e3,
                r.rate,
                r.unit
            )?;
        }
        if !self.bars.is_empty() {
            writeln!(f, "\n{:<36}{:>8}  bar", "ours ÷ rival", "ratio")?;
        }
        for b in &self.bars {
            let missed = if b.ratio < b.bar { "  missed" } else { "" };
            writeln!(f, "{:<36}{:>8.2}  {:.1}{missed}", b.what, b.ratio, b.bar)?;
        }
        for rival in &self.missing {
            writeln!(f, "SKIPPED: {rival} is not installed")?;
        }
        Ok(())
    }
}
