//! Tables that a person can read in a terminal.

use std::fmt;
use std::ops::Range;

/// Writes rows below their head, each column as wide as it must be. Numbers stand to the right.
pub(crate) fn table<const N: usize>(
    f: &mut fmt::Formatter<'_>,
    head: [&str; N],
    numbers: Range<usize>,
    rows: &[[String; N]],
) -> fmt::Result {
    let widths: [usize; N] = std::array::from_fn(|i| {
        let cells = rows.iter().map(|row| row[i].chars().count());
        cells.chain([head[i].chars().count()]).max().unwrap_or(0)
    });
    let mut line = |cells: [&str; N]| {
        let mut text = String::new();
        for (i, (cell, width)) in cells.into_iter().zip(widths).enumerate() {
            text += &if numbers.contains(&i) {
                format!("{cell:>width$}  ")
            } else {
                format!("{cell:<width$}  ")
            };
        }
        writeln!(f, "{}", text.trim_end())
    };
    line(head)?;
    rows.iter()
        .try_for_each(|row| line(row.each_ref().map(String::as_str)))
}
