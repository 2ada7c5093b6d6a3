//! Differences of powers without cancellation: the weights of fractional integrals and derivatives.

/// From here on series are used: their terms shrink by this each, so that [`TERMS`] of them are
/// exact to the last bit, and below it the plain difference loses three digits at most.
const LARGE: f64 = 16.0;
const TERMS: i32 = 16;

/// (m + 1)^p − m^p.
pub(crate) fn first(m: usize, p: f64) -> f64 {
    match m {
        0 => 1.0,
        _ => {
            let m = m as f64;
            m.powf(p) * (p * (1.0 / m).ln_1p()).exp_m1()
        }
    }
}

/// (m + 2)^p − 2 (m + 1)^p + m^p.
pub(crate) fn second(m: usize, p: f64) -> f64 {
    let middle = m as f64 + 1.0;
    if middle < LARGE {
        return (middle + 1.0).powf(p) - 2.0 * middle.powf(p) + (middle - 1.0).powf(p);
    }
    // 2 Σ C(p, i) middle^(p − i) over even i: the odd ones cancel.
    let even = |(i, term): (i32, f64)| if i % 2 == 0 { term } else { 0.0 };
    2.0 * binomial(p, 1.0 / middle).skip(2).map(even).sum::<f64>() * middle.powf(p)
}

/// m^(a + 1) − (m − a) (m + 1)^a.
pub(crate) fn start(m: usize, a: f64) -> f64 {
    let next = m as f64 + 1.0;
    if next < LARGE {
        return (next - 1.0).powf(a + 1.0) - (next - 1.0 - a) * next.powf(a);
    }
    // (next − 1)^(a + 1) without its first two terms.
    let rest = binomial(a + 1.0, -1.0 / next).skip(2);
    rest.map(|(_, term)| term).sum::<f64>() * next.powf(a + 1.0)
}

/// The terms C(p, i) z^i of (1 + z)^p.
fn binomial(p: f64, z: f64) -> impl Iterator<Item = (i32, f64)> {
    let mut term = 1.0;
    (0..TERMS).map(move |i| {
        let this = term;
        term *= (p - f64::from(i)) / f64::from(i + 1) * z;
        (i, this)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_that_are_whole_give_exact_differences() {
        for m in [0, 1, 5, 14, 15, 16, 100, 100_000] {
            let x = m as f64;
            let near = |got: f64, exact: f64| {
                assert!(
                    (got - exact).abs() <= 1e-12 * exact.abs(),
                    "{got}, {exact} at {m}"
                );
            };
            near(first(m, 1.0), 1.0);
            near(first(m, 2.0), 2.0 * x + 1.0);
            near(second(m, 2.0), 2.0);
            near(second(m, 3.0), 6.0 * x + 6.0);
            near(start(m, 1.0), 1.0);
            near(start(m, 2.0), 3.0 * x + 2.0);
        }
    }

    #[test]
    fn series_and_differences_meet() {
        for p in [1.1, 1.5, 1.9, 2.7] {
            let plain = 17_f64.powf(p) - 2.0 * 16_f64.powf(p) + 15_f64.powf(p);
            assert!((second(15, p) / plain - 1.0).abs() < 1e-11, "{p}");
            let a = p - 1.0;
            let plain = 15_f64.powf(p) - (15.0 - a) * 16_f64.powf(a);
            assert!((start(15, a) / plain - 1.0).abs() < 1e-11, "{p}");
        }
    }
}
