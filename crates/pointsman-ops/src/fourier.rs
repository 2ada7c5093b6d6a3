//! Planned Fourier transforms for both element types.

use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use num_complex::Complex;
use realfft::{ComplexToReal, RealFftPlanner, RealToComplex};
use rustfft::{Fft, FftDirection, FftNum, FftPlanner, FftPlannerScalar};

use crate::scratch::{apart, kept};

/// Which instructions a transform uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// Plain ones.
    Scalar,
    /// The widest vectors of this CPU.
    Simd,
}

/// Finds plans. Part of [`Float`](crate::Float), and a trait of its own because the bounds of
/// rustfft's would make `abs` and `signum` of every `T: Float` ambiguous.
pub trait Fourier: Sized {
    /// A transform of rows of this length, at least 1, without a factor: with e^(−2πi jk/n), or
    /// with e^(+2πi jk/n) if `inverse`.
    fn transform(engine: Engine, inverse: bool, n: usize) -> Arc<dyn Transform<Self>>;

    /// Both transforms between so many real numbers and their spectrum.
    fn spectrum(n: usize) -> Arc<dyn Spectrum<Self>>;
}

/// A planned transform of complex numbers.
pub trait Transform<T>: Send + Sync {
    /// Transforms row after row.
    fn rows(&self, x: &[Complex<T>], y: &mut [Complex<T>]);
}

impl<T: FftNum + Default> Transform<T> for Arc<dyn Fft<T>> {
    fn rows(&self, x: &[Complex<T>], y: &mut [Complex<T>]) {
        kept(|scratch: &mut Vec<Complex<T>>| {
            let scratch = apart(scratch, self.get_immutable_scratch_len(), y);
            self.process_immutable_with_scratch(x, y, scratch);
        });
    }
}

/// A planned transform of real numbers, row after row.
pub trait Spectrum<T>: Send + Sync {
    /// Σ xⱼ e^(−2πi jk/n) for k up to n/2: the others are conjugates of these. The numbers are
    /// used as scratch.
    fn forward(&self, x: &mut [T], spectrum: &mut [Complex<T>]);

    /// The way back, n times as large. The spectra are used as scratch.
    fn inverse(&self, spectrum: &mut [Complex<T>], x: &mut [T]);
}

/// Complex numbers in the spectrum of n real ones.
pub(crate) fn half(n: usize) -> usize {
    n / 2 + 1
}

struct Real<T> {
    forward: Arc<dyn RealToComplex<T>>,
    inverse: Arc<dyn ComplexToReal<T>>,
}

impl<T: FftNum + Default> Spectrum<T> for Real<T> {
    fn forward(&self, x: &mut [T], spectrum: &mut [Complex<T>]) {
        kept(|scratch: &mut Vec<Complex<T>>| {
            let scratch = apart(scratch, self.forward.get_scratch_len(), spectrum);
            let n = self.forward.len();
            let rows = x
                .chunks_exact_mut(n)
                .zip(spectrum.chunks_exact_mut(half(n)));
            for (x, spectrum) in rows {
                let done = self.forward.process_with_scratch(x, spectrum, scratch);
                debug_assert!(done.is_ok(), "lengths are those of the plan");
            }
        });
    }

    fn inverse(&self, spectrum: &mut [Complex<T>], x: &mut [T]) {
        kept(|scratch: &mut Vec<Complex<T>>| {
            let scratch = apart(scratch, self.inverse.get_scratch_len(), x);
            let n = self.inverse.len();
            let rows = spectrum
                .chunks_exact_mut(half(n))
                .zip(x.chunks_exact_mut(n));
            for (spectrum, x) in rows {
                // The first and last number of such a spectrum are real but for rounding; anything
                // else is refused.
                spectrum[0].im = T::zero();
                if n.is_multiple_of(2) {
                    spectrum[n / 2].im = T::zero();
                }
                let done = self.inverse.process_with_scratch(spectrum, x, scratch);
                debug_assert!(done.is_ok(), "lengths are those of the plan");
            }
        });
    }
}

/// Plans that were used lately, the last one first.
struct Plans<P: ?Sized>(Mutex<Vec<(Key, Arc<P>)>>);

/// Engine, inverse, length.
type Key = (Engine, bool, usize);

/// Elements of the plans that are kept; a plan holds about two numbers per element. One plan is
/// kept whatever its length.
const MOST: usize = 1 << 22;

impl<P: ?Sized> Plans<P> {
    fn new() -> Self {
        Plans(Mutex::new(Vec::new()))
    }

    fn get(&self, key: Key, make: impl FnOnce() -> Arc<P>) -> Arc<P> {
        if let Some(plan) = self.find(key) {
            return plan;
        }
        let plan = make(); // may take milliseconds: others go on meanwhile
        let mut plans = self.lock();
        plans.insert(0, (key, plan.clone()));
        let mut elements = 0;
        plans.retain(|((.., n), _)| {
            let first = elements == 0;
            elements += n + 4096; // so that short ones are not kept in any number
            first || elements <= MOST
        });
        plan
    }

    fn find(&self, key: Key) -> Option<Arc<P>> {
        let mut plans = self.lock();
        let at = plans.iter().position(|(known, _)| *known == key)?;
        plans[..=at].rotate_right(1);
        Some(plans[0].1.clone())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<(Key, Arc<P>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn plan<T: FftNum + Default>((engine, inverse, n): Key) -> Arc<dyn Transform<T>> {
    let direction = if inverse {
        FftDirection::Inverse
    } else {
        FftDirection::Forward
    };
    Arc::new(match engine {
        Engine::Scalar => FftPlannerScalar::new().plan_fft(n, direction),
        Engine::Simd => FftPlanner::new().plan_fft(n, direction),
    })
}

fn plan_real<T: FftNum + Default>(n: usize) -> Arc<dyn Spectrum<T>> {
    let mut planner = RealFftPlanner::new();
    let (forward, inverse) = (planner.plan_fft_forward(n), planner.plan_fft_inverse(n));
    Arc::new(Real { forward, inverse })
}

macro_rules! fourier {
    ($float:ident) => {
        impl Fourier for $float {
            fn transform(engine: Engine, inverse: bool, n: usize) -> Arc<dyn Transform<Self>> {
                static PLANS: LazyLock<Plans<dyn Transform<$float>>> = LazyLock::new(Plans::new);
                let key = (engine, inverse, n);
                PLANS.get(key, || plan(key))
            }

            fn spectrum(n: usize) -> Arc<dyn Spectrum<Self>> {
                static PLANS: LazyLock<Plans<dyn Spectrum<$float>>> = LazyLock::new(Plans::new);
                PLANS.get((Engine::Simd, false, n), || plan_real(n))
            }
        }
    };
}

fourier!(f32);
fourier!(f64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_are_kept_but_not_without_end() {
        let plans = Plans::<usize>::new();
        let get = |n| *plans.get((Engine::Simd, false, n), || Arc::new(n));
        for n in 1..10_000 {
            assert_eq!(get(n), n);
        }
        let kept = plans.lock().len();
        assert!((100..=1024).contains(&kept), "{kept}");
        assert_eq!(
            *plans.get((Engine::Simd, false, 9_999), || Arc::new(0)),
            9_999
        );
        assert_eq!(get(2 * MOST), 2 * MOST);
        assert_eq!(
            plans.lock().len(),
            1,
            "the last one stays however long it is"
        );
    }

    #[test]
    fn both_directions_of_a_real_transform_give_the_numbers_back() {
        for n in [1, 2, 3, 8, 12, 15] {
            let x: Vec<f64> = (0..3 * n).map(|i| (i * i % 7) as f64).collect();
            let (mut y, mut spectrum) = (x.clone(), vec![Complex::default(); 3 * half(n)]);
            let plan = f64::spectrum(n);
            plan.forward(&mut y, &mut spectrum);
            for (x, spectrum) in x.chunks(n).zip(spectrum.chunks(half(n))) {
                assert!((spectrum[0].re - x.iter().sum::<f64>()).abs() < 1e-12);
            }
            plan.inverse(&mut spectrum, &mut y);
            for (x, y) in x.iter().zip(&y) {
                assert!((x - y / n as f64).abs() < 1e-13, "{n}");
            }
        }
    }
}
