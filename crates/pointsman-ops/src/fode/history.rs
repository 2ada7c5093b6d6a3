//! The ways to add what a piece contributes.

use num_complex::Complex;
use rayon::prelude::*;

use super::steps::{History, Weights};
use crate::Float;
use crate::causal::rectangle;
use crate::fourier::half;
use crate::lanes::WIDE;
use crate::scratch::part;
use crate::team::share;

/// Steps done one by one where pieces are halved: a vector or two at a time.
const PIECE: usize = 32;

/// One rate after the other, to all later steps.
#[derive(Default)]
pub(super) struct Direct;

impl<T: Float> History<T> for Direct {
    const PIECE: usize = usize::MAX;

    fn add(&mut self, _: &Weights<T>, _: &[T], _: [&mut [T]; 2]) {}
}

/// In lanes.
#[derive(Default)]
pub(super) struct Simd;

impl<T: Float> History<T> for Simd {
    const PIECE: usize = PIECE;

    fn add(&mut self, weights: &Weights<T>, rates: &[T], sums: [&mut [T]; 2]) {
        for (weights, sums) in weights.lags.iter().zip(sums) {
            rectangle(weights, rates, sums);
        }
    }
}

/// In lanes, some of the steps on every thread.
#[derive(Default)]
pub(super) struct Threads;

/// Products below which nothing is shared out: some 5 µs of work, as long as it takes to hand it
/// over.
const WORTH_SHARING: usize = 1 << 17;

impl<T: Float> History<T> for Threads {
    const PIECE: usize = PIECE;

    fn add(&mut self, weights: &Weights<T>, rates: &[T], sums: [&mut [T]; 2]) {
        let [predictor, corrector] = sums;
        let [b, c] = &weights.lags;
        if rates.len() * predictor.len() < WORTH_SHARING {
            return Simd.add(weights, rates, [predictor, corrector]);
        }
        rayon::join(
            || shared(b, rates, predictor),
            || shared(c, rates, corrector),
        );
    }
}

fn shared<T: Float>(weights: &[T], rates: &[T], sums: &mut [T]) {
    // Whole steps of lanes: narrow ones take several times as long.
    let share = share(sums.len()).next_multiple_of(WIDE);
    let parts = sums.par_chunks_mut(share).enumerate();
    parts.for_each(|(i, sums)| rectangle(&weights[i * share..], rates, sums));
}

/// As products of spectra.
#[derive(Default)]
pub(super) struct Spectra<T> {
    /// Of both kinds of weights, for each length of a piece.
    levels: Vec<[Vec<Complex<T>>; 2]>,
    /// Which of them are of this solution, a bit each.
    known: u64,
    real: Vec<T>,
    rates: Vec<Complex<T>>,
    product: Vec<Complex<T>>,
}

/// Rates of a piece from which on spectra are used: with 256, three transforms of twice that length
/// take some 2 µs here, both sums in lanes 5.
const LONG: usize = 256;

impl<T: Float> History<T> for Spectra<T> {
    const PIECE: usize = PIECE;

    fn begin(&mut self) {
        self.known = 0;
    }

    fn add(&mut self, weights: &Weights<T>, rates: &[T], sums: [&mut [T]; 2]) {
        let n = rates.len();
        if n < LONG {
            return Simd.add(weights, rates, sums);
        }
        // Twice as long as the rates: what wraps around falls before the sums that are wanted.
        let length = 2 * n;
        let plan = T::spectrum(length);
        let real = part(&mut self.real, length);
        let level = n.ilog2();
        if self.known & 1 << level == 0 {
            self.known |= 1 << level;
            if self.levels.len() <= level as usize {
                self.levels.resize(level as usize + 1, Default::default());
            }
            let factor = T::of(1.0 / length as f64);
            for (spectrum, weights) in self.levels[level as usize].iter_mut().zip(&weights.lags) {
                let known = weights.len().min(length);
                for (real, weight) in real.iter_mut().zip(&weights[..known]) {
                    *real = *weight * factor;
                }
                real[known..].fill(T::zero());
                plan.forward(real, part(spectrum, half(length)));
            }
        }
        real[..n].copy_from_slice(rates);
        real[n..].fill(T::zero());
        let of_rates = part(&mut self.rates, half(length));
        plan.forward(real, of_rates);
        for (spectrum, sums) in self.levels[level as usize].iter().zip(sums) {
            let product = part(&mut self.product, half(length));
            for ((product, a), b) in product.iter_mut().zip(spectrum).zip(&*of_rates) {
                *product = *a * *b;
            }
            plan.inverse(product, real);
            for (sum, more) in sums.iter_mut().zip(&real[n - 1..]) {
                *sum += *more;
            }
        }
    }
}
