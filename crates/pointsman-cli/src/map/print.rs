//! The map for people.

use std::fmt;

use super::{Map, OpMap, Span};

impl fmt::Display for Map {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.ops.iter().all(|op| op.spans.is_empty()) {
            return write!(f, "Nothing is known yet: `pointsman tune` measures.");
        }
        let width = self.ops.iter().map(|op| op.op.len()).max().unwrap_or(0);
        for op in &self.ops {
            write!(f, "{:<width$}  ", op.op)?;
            op.line(f)?;
        }
        Ok(())
    }
}

impl OpMap {
    /// Who serves from which size on, and what that is worth.
    fn line(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [first, rest @ ..] = &self.spans[..] else {
            return writeln!(f, "nothing is known yet");
        };
        write!(f, "{}", first.variant)?;
        for span in rest {
            write!(f, " │ {} → {}", shape(span), span.variant)?;
        }
        write!(f, "  ")?;
        if let Some(over) = self.over_reference {
            write!(f, "  {} the reference", times(over))?;
        }
        if let Some(fixed) = &self.best_fixed {
            write!(f, ", {} always {}", times(fixed.over), fixed.backend)?;
        }
        writeln!(f)
    }
}

/// A speed-up as people write it.
fn times(over: f64) -> String {
    let digits = if over < 10.0 { 2 } else { 1 };
    format!("{over:.digits$}×")
}

/// The shape from which on a variant serves.
fn shape(span: &Span) -> String {
    let numbers: Vec<String> = span.from_shape.iter().map(usize::to_string).collect();
    numbers.join("x")
}
