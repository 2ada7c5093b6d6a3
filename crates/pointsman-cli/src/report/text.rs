//! Numbers and names as people read them, and as HTML may hold them.

/// Text for HTML, between tags and in attributes alike. Names come from files that anyone may have
/// written: marks that turn the direction of what follows are shown instead of obeyed.
pub(super) fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => out.push('\u{fffd}'),
            c if c.is_control() && c != '\n' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}

/// The first letters of a name, where there is no room for more.
pub(super) fn short(name: &str, most: usize) -> String {
    if name.chars().count() <= most {
        return name.to_owned();
    }
    let mut cut: String = name.chars().take(most.saturating_sub(1)).collect();
    cut.push('…');
    cut
}

/// Three significant digits, or all before the point.
fn digits(value: f64) -> String {
    match value {
        v if v < 9.995 => format!("{v:.2}"),
        v if v < 99.95 => format!("{v:.1}"),
        v => count(v.round() as u64),
    }
}

/// Nanoseconds in the unit that suits them.
pub(super) fn time(ns: f64) -> String {
    let (value, unit) = match ns {
        ns if ns < 999.5 => (ns, "ns"),
        ns if ns < 999.5e3 => (ns / 1e3, "µs"),
        ns if ns < 999.5e6 => (ns / 1e6, "ms"),
        ns if ns < 120e9 => (ns / 1e9, "s"),
        ns if ns < 7200e9 => (ns / 60e9, "min"),
        ns => (ns / 3600e9, "h"),
    };
    format!("{} {unit}", digits(value))
}

/// A power of ten of nanoseconds, for an axis.
pub(super) fn decade(exponent: i32) -> String {
    let (unit, name) = match exponent {
        ..3 => (0, "ns"),
        3..6 => (3, "µs"),
        6..9 => (6, "ms"),
        _ => (9, "s"),
    };
    format!(
        "{} {name}",
        count(10u64.pow((exponent - unit).clamp(0, 18) as u32))
    )
}

/// A whole number with its thousands apart.
pub(super) fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// One thing or several.
pub(super) fn counted(n: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(n), if n == 1 { one } else { many })
}

/// How many times something is.
pub(super) fn times(ratio: f64) -> String {
    format!("{}×", digits(ratio))
}

/// A share, without pretending to more than there is.
pub(super) fn percent(share: f64) -> String {
    let value = 100.0 * share;
    match value {
        0.0 => "0 %".to_owned(),
        v if v < 0.01 => "< 0.01 %".to_owned(),
        v if v < 1.0 => format!("{v:.2} %"),
        v if v < 9.95 => format!("{v:.1} %"),
        v if v < 100.0 && v.round() == 100.0 => format!("{v:.1} %"),
        v => format!("{v:.0} %"),
    }
}

/// Bytes as a person writes them.
pub(super) fn bytes(bytes: u64) -> String {
    match bytes {
        b if b >= 10 << 20 => format!("{} MiB", b >> 20),
        b if b >= 1 << 10 => format!("{} KiB", b >> 10),
        b => format!("{b} bytes"),
    }
}

/// A feature: whole numbers whole, large ones short.
pub(super) fn number(value: f64) -> String {
    let size = value.abs();
    if size >= 1e15 || (size < 1e-3 && size > 0.0) {
        format!("{value:.1e}")
    } else if value.fract() == 0.0 {
        let sign = if value < 0.0 { "−" } else { "" };
        format!("{sign}{}", count(size as u64))
    } else {
        digits(value)
    }
}

/// A shape: `512`, `64³`, `1×16×28×28`.
pub(super) fn shape(features: &[f64]) -> String {
    match features {
        [] => "any".to_owned(),
        [a, b] if a == b => format!("{}²", number(*a)),
        [a, b, c] if a == b && b == c => format!("{}³", number(*a)),
        all => all.iter().map(|f| number(*f)).collect::<Vec<_>>().join("×"),
    }
}

/// What a cell spans: `512–575`, feature by feature.
pub(super) fn ranges(ranges: impl Iterator<Item = (f64, f64)>) -> String {
    let one = |(from, to): (f64, f64)| {
        let whole = from.fract() == 0.0 && to.fract() == 0.0;
        match whole {
            // Whole numbers from the first up to before the second.
            true if (to - from).abs() > 1.0 => {
                let last = to - (to - from).signum();
                format!("{}–{}", number(from), number(last))
            }
            _ if from.fract() == 0.0 && (to - from).abs() <= 1.0 => number(from),
            _ => format!("{}–{}", number(from), number(to)),
        }
    };
    let parts: Vec<String> = ranges.map(one).collect();
    match &parts[..] {
        [] => "any".to_owned(),
        parts => parts.join(" × "),
    }
}

/// Seconds since 1970 as a date and time.
pub(super) fn moment(unix: u64) -> String {
    // Files may claim any second; no calendar goes further than this.
    let at = std::time::UNIX_EPOCH + std::time::Duration::from_secs(unix.min(253_402_300_799));
    let text = humantime::format_rfc3339_seconds(at).to_string();
    text.replace('T', " ").replace('Z', " UTC")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_of_a_name_is_markup() {
        assert_eq!(
            escape("<script>\"a\"&'b'</script>"),
            "&lt;script&gt;&quot;a&quot;&amp;&#39;b&#39;&lt;/script&gt;"
        );
        assert_eq!(escape("a\u{202e}b\u{7}"), "a\u{fffd}b\u{fffd}");
    }

    #[test]
    fn numbers_read_as_people_write_them() {
        assert_eq!(
            [3.25, 46_300.0, 999_900.0, 4.6e8].map(time),
            ["3.25 ns", "46.3 µs", "1.00 ms", "460 ms"]
        );
        assert_eq!(
            [2, 3, 5, 7, 11].map(decade),
            ["100 ns", "1 µs", "100 µs", "10 ms", "100 s"]
        );
        assert_eq!(
            [7, 1_000, 1_234_567].map(count),
            ["7", "1,000", "1,234,567"]
        );
        assert_eq!(
            [0.0, 0.00005, 0.005, 0.034, 0.5, 0.999, 1.0].map(percent),
            [
                "0 %", "< 0.01 %", "0.50 %", "3.4 %", "50 %", "99.9 %", "100 %"
            ]
        );
        assert_eq!(shape(&[64.0, 64.0, 64.0]), "64³");
        assert_eq!(shape(&[8.0, 1024.0]), "8×1,024");
        assert_eq!(
            ranges([(512.0, 576.0), (7.0, 7.5)].into_iter()),
            "512–575 × 7"
        );
        assert_eq!(moment(1_700_000_000), "2023-11-14 22:13:20 UTC");
        assert_eq!(moment(u64::MAX), "9999-12-31 23:59:59 UTC");
    }
}
