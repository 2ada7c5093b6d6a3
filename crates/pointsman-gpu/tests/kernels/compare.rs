//! What results are compared with.

use std::sync::OnceLock;
use std::time::Duration;

use pointsman_gpu::{Error, Gpu, Held, Job};

pub(crate) const SEEDS: [u64; 3] = [1, 2, 3];

/// Around quads, workgroups and what they share.
pub(crate) const LENGTHS: [usize; 17] = [
    0, 1, 2, 3, 4, 5, 7, 63, 64, 65, 255, 256, 257, 1000, 4095, 4097, 10_001,
];

/// One for all tests: to compile takes longer than to run.
pub(crate) fn gpu() -> Option<&'static Gpu> {
    static GPU: OnceLock<Option<Gpu>> = OnceLock::new();
    let gpu = GPU.get_or_init(|| crate::common::gpu(Duration::from_secs(120)));
    gpu.as_ref()
}

/// Between −1 and 1, the same for the same seed.
pub(crate) fn floats(n: usize, seed: u64) -> Vec<f32> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let float = |_| {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 40) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..n).map(float).collect()
}

/// What a kernel makes of buffers that are longer than it is told: NaN follows each input, and what
/// follows the result must stay. Results begin as NaN, so that one that is not written shows.
pub(crate) fn made(
    inputs: &[&[f32]],
    old: &[f32],
    work: impl FnOnce(&mut Job<'_>, &[Held], &Held) -> Result<(), Error>,
) -> Vec<f32> {
    const KEPT: [f32; 5] = [7.25; 5];
    let mut result = [old, &KEPT].concat();
    let gpu = gpu().unwrap();
    gpu.run(|job| {
        let mut held = Vec::new();
        for input in inputs {
            held.push(job.upload(&[input, &[f32::NAN; 5][..]].concat())?);
        }
        let out = job.upload(&result)?;
        work(job, &held, &out)?;
        job.download(&out, &mut result)
    })
    .unwrap();
    assert_eq!(result.split_off(old.len()), KEPT, "beyond the result");
    result
}

pub(crate) fn nothing(n: usize) -> Vec<f32> {
    vec![f32::NAN; n]
}

pub(crate) fn gamma(n: usize) -> f64 {
    let nu = n as f64 * f64::from(f32::EPSILON) / 2.0;
    nu / (1.0 - nu)
}

/// A sum in `f64`, and how far from it one in `f32` may be after so many roundings of each term.
pub(crate) fn sum(terms: impl Iterator<Item = f64>, roundings: usize) -> (f64, f64) {
    let (sum, all) = terms.fold((0.0, 0.0), |(s, a): (f64, f64), t| (s + t, a + t.abs()));
    let flushed = (roundings + 1) as f64 * f64::from(f32::MIN_POSITIVE);
    (sum, gamma(roundings) * all + flushed)
}

#[track_caller]
pub(crate) fn near(what: &str, got: f32, (exact, bound): (f64, f64)) {
    let off = (f64::from(got) - exact).abs();
    assert!(off <= bound, "{what}: {got}, not {exact}: {off} > {bound}");
}

pub(crate) fn wide(x: f32) -> f64 {
    f64::from(x)
}
