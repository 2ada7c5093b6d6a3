//! The method of Diethelm, Ford and Freed: a rectangle rule predicts, a trapezoidal rule corrects.
//!
//! Every step needs two sums over all rates before it. The steps are halved again and again; what
//! the first half of a piece contributes to the sums of its second half is added at once when the
//! first half is done (Hairer, Lubich and Schlichte). How it is added is all in which the variants
//! differ.

use libm::tgamma;

use super::Args;
use crate::Float;
use crate::powers::{first, second, start};
use crate::scratch::{kept, part};

/// How rates contribute to the sums of later steps.
pub(super) trait History<T: Float>: Default + 'static {
    /// Steps of a piece that is not halved: its rates are added to the sums one by one.
    const PIECE: usize;

    /// A new solution begins.
    fn begin(&mut self) {}

    /// Adds to both sums of the next steps what these rates contribute.
    fn add(&mut self, weights: &Weights<T>, rates: &[T], sums: [&mut [T]; 2]);
}

/// The weights of an order.
#[derive(Default)]
pub(super) struct Weights<T> {
    order: f64,
    /// By how many steps ago, one step first: of the predictor and of the corrector.
    pub(super) lags: [Vec<T>; 2],
    /// By how many steps there were: what the corrector's weight of the first rate is beyond that.
    first: Vec<T>,
}

impl<T: Float> Weights<T> {
    fn prepare(&mut self, order: f64, steps: usize) {
        if self.order == order && self.first.len() >= steps {
            return;
        }
        self.order = order;
        let corrector = |lag| second(lag, order + 1.0);
        let fill = |weights: &mut Vec<T>, weight: &dyn Fn(usize) -> f64| {
            weights.clear();
            weights.extend((0..steps).map(|lag| T::of(weight(lag))));
        };
        fill(&mut self.lags[0], &|lag| first(lag, order));
        fill(&mut self.lags[1], &corrector);
        fill(&mut self.first, &|lag| start(lag, order) - corrector(lag));
    }
}

/// What a thread keeps.
#[derive(Default)]
struct Kept<T, H> {
    weights: Weights<T>,
    rates: Vec<T>,
    sums: [Vec<T>; 2],
    history: H,
}

/// Solves from the first point to the last.
pub(super) fn solve<T: Float, H: History<T>>(args: &mut Args<'_, T>) {
    let n = args.y.len();
    if n == 0 {
        return;
    }
    kept(|kept: &mut Kept<T, H>| {
        let order = args.order.wide();
        kept.weights.prepare(order, n);
        kept.history.begin();
        let sums = kept.sums.each_mut().map(|sums| part(sums, n));
        let scale = args.step.wide().powf(order);
        let mut run = Run {
            factors: [1.0, 2.0].map(|i| T::of(scale / tgamma(order + i))),
            weights: &kept.weights,
            rates: part(&mut kept.rates, n),
            sums,
            history: &mut kept.history,
            args,
        };
        run.sums.iter_mut().for_each(|sums| sums.fill(T::zero()));
        run.piece(0, n.next_power_of_two());
    });
}

struct Run<'r, 'a, T: Float, H> {
    factors: [T; 2],
    weights: &'r Weights<T>,
    rates: &'r mut [T],
    sums: [&'r mut [T]; 2],
    history: &'r mut H,
    args: &'r mut Args<'a, T>,
}

impl<T: Float, H: History<T>> Run<'_, '_, T, H> {
    /// So many steps, a power of two, or as far as they go. All before them is in their sums.
    fn piece(&mut self, from: usize, len: usize) {
        let end = (from + len).min(self.rates.len());
        if len <= H::PIECE {
            return (from..end).for_each(|k| self.step(k, end));
        }
        let middle = from + len / 2;
        self.piece(from, len / 2);
        if middle < end {
            let sums = self.sums.each_mut().map(|sums| &mut sums[middle..end]);
            let rates = &self.rates[from..middle];
            self.history.add(self.weights, rates, sums);
            self.piece(middle, len / 2);
        }
    }

    /// One step; its rate is added to the sums of those up to `end`.
    fn step(&mut self, k: usize, end: usize) {
        let t = self.args.step * T::of(k as f64);
        let begun = match self.args.start {
            [y, slope] => *y + *slope * t,
            [y, ..] => *y,
            [] => T::zero(),
        };
        let mut y = begun;
        if k > 0 {
            let [predictor, corrector] = self.factors;
            let predicted = begun + predictor * self.sums[0][k];
            let first = self.weights.first[k - 1] * self.rates[0];
            let rate = (self.args.rhs)(t, predicted);
            y = begun + corrector * (self.sums[1][k] + first + rate);
        }
        let rate = (self.args.rhs)(t, y);
        self.args.y[k] = y;
        self.rates[k] = rate;
        for (sums, weights) in self.sums.iter_mut().zip(&self.weights.lags) {
            for (sum, weight) in sums[k + 1..end].iter_mut().zip(weights) {
                *sum += *weight * rate;
            }
        }
    }
}
