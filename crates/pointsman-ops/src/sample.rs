//! Numbers for the checks against the reference.

use pointsman::Workload;

use crate::Float;

/// So many numbers between −1 and 1, the same for the same seed and stream. Signs vary and no two
/// neighbours are alike, so that a swapped, skipped or doubled element shows.
pub(crate) fn floats<T: Float>(len: usize, seed: u64, stream: u64) -> Vec<T> {
    let start = seed ^ stream.wrapping_mul(0xD1B5_4A32_D192_ED03);
    let float = |i: usize| {
        let bits = splitmix(start.wrapping_add(i as u64)) >> 40; // 24 bits: exact in either type
        T::of(bits as f64 / (1 << 23) as f64 - 1.0)
    };
    (0..len).map(float).collect()
}

/// Puts rare values in place of some elements, as many as there are places for.
pub(crate) fn sprinkle<T: Float>(x: &mut [T], rare: &[T]) {
    // A prime apart: in every lane sooner or later.
    for (x, rare) in x.iter_mut().step_by(7).zip(rare.iter().cycle()) {
        *x = *rare;
    }
}

/// What kernels get wrong first: the ends of the range, denormals, signed zeros, what is not finite.
pub(crate) fn rare<T: Float>() -> [T; 11] {
    let tiny = T::min_positive_value();
    let least = tiny * T::epsilon();
    [
        T::nan(),
        T::infinity(),
        T::neg_infinity(),
        T::max_value(),
        T::min_value(),
        tiny,
        least,
        -least,
        tiny - least,
        T::zero(),
        T::neg_zero(),
    ]
}

/// Whether all results are [`near`] the expected ones, within the bound for each.
pub(crate) fn near_all<T: Float>(expected: &[T], got: &[T], bound: impl Fn(T) -> f64) -> bool {
    let near = |(e, g): (&T, &T)| near(*e, *g, bound(*e));
    expected.len() == got.len() && expected.iter().zip(got).all(near)
}

/// Whether a result is the expected one, or finite and no further from it than `bound`. What is below
/// the smallest normal number may be 0, as it is on many GPUs.
pub(crate) fn near<T: Float>(expected: T, got: T, bound: f64) -> bool {
    let off = (expected.wide() - got.wide()).abs();
    let flushed = got.is_zero() && expected.abs() < T::min_positive_value();
    expected == got
        || (expected.is_nan() && got.is_nan())
        || (expected.is_finite() && off <= bound)
        || flushed
}

/// The features of a workload as the sizes they are.
pub(crate) fn sizes(workload: &Workload) -> Vec<usize> {
    workload.features().iter().map(|f| *f as usize).collect()
}

/// The most work of a sample, in operations of its reference: some 20 ms. Each variant is checked on
/// five of them in each block of sizes.
pub(crate) const MOST_WORK: f64 = 2e7;

/// The shape of a sample. Where the call would be too much work for a check, its largest sizes
/// shrink, and keep their remainder by 64, which is where kernels differ.
pub(crate) fn bounded(workload: &Workload, work: impl Fn(&[usize]) -> f64) -> Vec<usize> {
    shrunk(&sizes(workload), 64, work)
}

/// The same for a call whose work is a few operations per element.
pub(crate) fn short(workload: &Workload) -> Vec<usize> {
    bounded(workload, |shape| 50.0 * shape[0] as f64)
}

/// The same for shapes of many small sizes: they keep their remainder by this `step`.
pub(crate) fn shrunk(shape: &[usize], step: usize, work: impl Fn(&[usize]) -> f64) -> Vec<usize> {
    let mut shape = shape.to_vec();
    while work(&shape) > MOST_WORK {
        let Some(largest) = shape.iter_mut().max() else {
            break;
        };
        if *largest < 3 * step {
            break;
        }
        *largest = *largest / (2 * step) * step + *largest % step;
    }
    shape
}

/// γₙ = n u / (1 − n u): the relative error of n roundings in a row (Higham, §3.1).
pub(crate) fn gamma<T: Float>(n: usize) -> f64 {
    let nu = n as f64 * T::ROUNDOFF;
    if nu < 1.0 {
        nu / (1.0 - nu)
    } else {
        f64::INFINITY
    }
}

/// SplitMix64's output function.
fn splitmix(n: u64) -> u64 {
    let n = n.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let n = (n ^ n >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let n = (n ^ n >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    n ^ n >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_repeat_for_a_seed_and_differ_between_streams() {
        let floats = |seed, stream| floats::<f32>(1000, seed, stream);
        assert_eq!(floats(1, 0), floats(1, 0));
        assert_ne!(floats(1, 0), floats(1, 1));
        assert_ne!(floats(1, 0), floats(2, 0));
        assert!(floats(3, 0).iter().all(|x| (-1.0..1.0).contains(x)));
        assert!(floats(3, 0).iter().any(|x| *x < -0.9) && floats(3, 0).iter().any(|x| *x > 0.9));
    }

    #[test]
    fn bounded_shapes_shrink_and_keep_their_remainders() {
        let volume = |s: &[usize]| s.iter().product::<usize>() as f64;
        let of = |shape: [usize; 3]| bounded(&Workload::new(shape), volume);
        assert_eq!(of([10, 20, 30]), [10, 20, 30]);
        let shape = [2047, 1025, 1536];
        let smaller = of(shape);
        assert!(volume(&smaller) <= MOST_WORK, "{smaller:?}");
        for (a, b) in shape.iter().zip(&smaller) {
            assert_eq!(a % 64, b % 64, "{smaller:?}");
        }
        assert!(short(&Workload::new([1_u64 << 40]))[0] <= 1 << 19);
    }
}
