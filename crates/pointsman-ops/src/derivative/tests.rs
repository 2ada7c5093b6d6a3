use libm::tgamma;
use proptest::prelude::*;

use super::*;

type Body<T> = fn(&[T], &[T], &mut [T]);

fn variants<T: Float>() -> [(&'static str, Body<T>); 4] {
    [
        ("direct", causal::direct),
        ("simd", causal::simd),
        ("threads", causal::threads),
        ("fft", causal::fft),
    ]
}

fn derived<M: Method, T: Float>(convolve: Body<T>, order: f64, step: f64, x: &[T]) -> Vec<T> {
    let mut y = vec![T::nan(); x.len()];
    let mut args = Args::<T, M>::new(T::of(order), T::of(step), x, &mut y).unwrap();
    derive(&mut args, convolve);
    y
}

/// The largest error of the derivative of t^β on n steps from 0 to 1.
fn error<M: Method>(convolve: Body<f64>, order: f64, power: f64, n: usize) -> f64 {
    let step = 1.0 / n as f64;
    let t = |k: usize| step * k as f64;
    let x: Vec<f64> = (0..=n).map(|k| t(k).powf(power)).collect();
    let y = derived::<M, f64>(convolve, order, step, &x);
    let factor = tgamma(power + 1.0) / tgamma(power + 1.0 - order);
    let exact = |k: usize| factor * t(k).powf(power - order);
    (1..=n).map(|k| (y[k] - exact(k)).abs()).fold(0.0, f64::max)
}

/// Half the step divides the error by 2^p, to a tenth of p.
fn converges<M: Method>(order: f64, power: f64, p: f64) {
    for (name, convolve) in variants() {
        let [coarse, fine] = [500, 1000].map(|n| error::<M>(convolve, order, power, n));
        let found = (coarse / fine).log2();
        assert!(
            (found / p - 1.0).abs() < 0.1,
            "{name}, {order}, t^{power}: order {found}"
        );
        assert!(fine < 0.01, "{name}, {order}, t^{power}: {fine}");
    }
}

#[test]
fn grunwald_letnikov_converges_to_known_derivatives_with_order_one() {
    for order in [0.3, 0.5, 0.9] {
        converges::<GrunwaldLetnikov>(order, 2.0, 1.0);
    }
    converges::<GrunwaldLetnikov>(0.5, 1.5, 1.0);
    converges::<GrunwaldLetnikov>(1.5, 3.0, 1.0);
}

#[test]
fn caputo_converges_to_known_derivatives_with_order_two_less_its_own() {
    for order in [0.3, 0.5, 0.7] {
        converges::<CaputoL1>(order, 2.0, 2.0 - order);
        converges::<CaputoL1>(order, 2.7, 2.0 - order);
    }
}

#[test]
fn first_and_second_differences_are_the_limits() {
    let x = [0.0, 1.0, 4.0, 9.0];
    let near = |a: &[f64], b: [f64; 4]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-6);
    let y = derived::<GrunwaldLetnikov, _>(causal::direct, 1.0, 0.5, &x);
    assert!(near(&y, [0.0, 2.0, 6.0, 10.0]), "{y:?}");
    let y = derived::<GrunwaldLetnikov, _>(causal::direct, 2.0 - 1e-9, 0.5, &x);
    assert!(near(&y, [0.0, 4.0, 8.0, 8.0]), "{y:?}");
    let y = derived::<CaputoL1, _>(causal::direct, 1.0 - 1e-9, 0.5, &x);
    assert!(near(&y, [0.0, 2.0, 6.0, 10.0]), "{y:?}");
}

#[test]
fn orders_near_one_do_not_lose_their_weights() {
    // C(α, 2) = α (α − 1) / 2, exact for this order.
    let order = 1.0 - f64::EPSILON;
    let exact = -order * f64::EPSILON / 2.0;
    let weight = GrunwaldLetnikov::weights(order).nth(2).unwrap();
    assert!((weight / exact - 1.0).abs() < 1e-15, "{weight}, {exact}");
}

#[test]
fn another_order_or_length_has_its_own_weights() {
    let op = Derivative::<f64, CaputoL1>::default();
    let (x, _) = op.make(&[300], 1);
    let fresh = |order: f64, n: usize| {
        let x = x[..n].to_vec();
        let run = move || derived::<CaputoL1, _>(causal::direct, order, 0.1, &x);
        std::thread::spawn(run).join().unwrap()
    };
    for (order, n) in [
        (0.5, 100),
        (0.5, 300),
        (0.5, 20),
        (0.6, 20),
        (0.5, 0),
        (0.5, 300),
    ] {
        let again = derived::<CaputoL1, _>(causal::direct, order, 0.1, &x[..n]);
        assert_eq!(again, fresh(order, n), "{order}, {n}");
    }
}

fn right<M: Method, T: Float>(order: f64, x: &[T]) {
    let order = T::of(order).wide();
    let signal: Vec<f64> = match M::DIFFERENCES {
        false => x.iter().map(|x| x.wide()).collect(),
        true => (0..x.len())
            .map(|k| x[k].wide() - x[k.saturating_sub(1)].wide())
            .collect(),
    };
    let w: Vec<f64> = M::weights(order).take(x.len()).collect();
    let factor = M::factor(order, STEP);
    // Weights, differences and factor are rounded too, which is at most two more in each product.
    let bound = 2.0 * error_bound::<T, M>(order, STEP, x)
        + 4.0 * T::ROUNDOFF * factor * signal.iter().map(|x| x.abs()).sum::<f64>();
    for (name, convolve) in variants::<T>() {
        let y = derived::<M, T>(convolve, order, STEP, x);
        for (k, y) in y.iter().enumerate() {
            let exact = factor * (0..=k).map(|j| w[k - j] * signal[j]).sum::<f64>();
            let off = (y.wide() - exact).abs();
            assert!(off <= bound, "{name}, {k} of {}: {off} > {bound}", x.len());
        }
    }
}

#[test]
fn every_variant_is_right_at_every_length() {
    for n in (0..=70).chain([257, 600]) {
        right::<GrunwaldLetnikov, f32>(0.6, &floats(n, 1, 0));
        right::<CaputoL1, f32>(0.6, &floats(n, 1, 0));
        right::<GrunwaldLetnikov, f64>(1.4, &floats(n, 1, 0));
        right::<CaputoL1, f64>(0.4, &floats(n, 1, 0));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn any_order_and_length_is_right(n in 0_usize..400, order in 0.01..0.99, seed: u64) {
        right::<CaputoL1, f32>(order, &floats(n, seed, 0));
        right::<GrunwaldLetnikov, f32>(2.0 * order, &floats(n, seed, 0));
        right::<GrunwaldLetnikov, f64>(2.0 * order, &floats(n, seed, 0));
    }
}

#[test]
fn the_check_sees_one_wrong_element() {
    let op = Derivative::<f32, CaputoL1>::default();
    let mut right = op.make(&[1000], 1);
    derive(&mut op.args(&mut right), causal::direct);
    assert!(op.agrees((&right, &()), (&right, &())));
    for wrong in [right.1[999] + 1.0, f32::NAN] {
        let mut got = right.clone();
        got.1[999] = wrong;
        assert!(!op.agrees((&right, &()), (&got, &())), "{wrong}");
    }
}

#[test]
fn what_makes_no_sense_is_an_error_that_names_it() {
    let told = |order, step, n| {
        let mut y = [0.0; 4];
        let error = Args::<f64, CaputoL1>::new(order, step, &[0.0; 3], &mut y[..n]);
        error.unwrap_err().to_string()
    };
    assert_eq!(
        told(1.0, 0.1, 3),
        "caputo_l1: order 1: must be above 0 and below 1"
    );
    assert!(told(f64::NAN, 0.1, 3).contains("order NaN"));
    assert!(told(0.5, 0.0, 3).contains("step 0: must be above 0 and finite"));
    assert!(told(0.5, f64::INFINITY, 3).contains("step inf"));
    assert!(told(0.5, 0.1, 4).contains("shapes 3 and 4"));
}
