use proptest::prelude::*;

use super::*;

type Body<T> = fn(&[T], &mut [T]);

fn variants<T: Float>() -> [(&'static str, Body<T>); 4] {
    [
        ("std_stable", standard::stable),
        ("std_unstable", standard::unstable),
        ("radix", radix::sort),
        ("threads", standard::threads),
    ]
}

/// In order, and the same numbers as before.
fn right<T: Float>(x: &[T]) {
    let mut keys: Vec<u64> = x.iter().map(|x| x.key()).collect();
    keys.sort();
    for (name, sort) in variants() {
        let mut y = vec![T::one(); x.len()];
        sort(x, &mut y);
        assert!(
            y.iter().map(|y| y.key()).eq(keys.iter().copied()),
            "{name} of {}",
            x.len()
        );
    }
}

#[test]
fn every_variant_sorts_every_length() {
    for n in (0..=130).chain([1000, 4097, 70_000]) {
        right(&Sort::<f32>::default().make(&[n], 1).0);
        right(&Sort::<f64>::default().make(&[n], 2).0);
    }
}

#[test]
fn keys_order_as_total_cmp_does() {
    let halves = [
        0.0,
        f64::from_bits(1),
        1.0,
        f64::MAX,
        f64::INFINITY,
        f64::NAN,
    ];
    let ascending = halves.iter().rev().map(|x| -x).chain(halves);
    let ascending: Vec<f64> = ascending.collect();
    for (i, j) in (0..12).flat_map(|i| (0..12).map(move |j| (i, j))) {
        let (a, b) = (ascending[i], ascending[j]);
        assert_eq!(a.key().cmp(&b.key()), i.cmp(&j), "{a} and {b}");
        assert_eq!(a.total(&b), i.cmp(&j), "{a} and {b}");
        let (a, b) = (a as f32, b as f32);
        assert_eq!(a.key().cmp(&b.key()), a.total_cmp(&b), "{a} and {b}");
    }
}

#[test]
fn orders_that_are_easy_to_get_wrong_are_sorted() {
    let n = 10_000;
    let up: Vec<f32> = (0..n).map(|i| i as f32 - 5e3).collect();
    right(&up);
    right(&up.iter().rev().copied().collect::<Vec<_>>());
    right(&vec![-0.5_f64; n]);
    right(&(0..n).map(|i| (i % 3) as f64).collect::<Vec<_>>());
    right(
        &(0..n)
            .map(|i| f32::from_bits((i % 7) as u32))
            .collect::<Vec<_>>(),
    );
}

#[test]
fn the_check_sees_one_wrong_element() {
    let op = Sort::<f32>::default();
    let mut right = op.make(&[1000], 1);
    standard::stable(&right.0.clone(), &mut right.1);
    let agrees = |got: &(Vec<f32>, Vec<f32>)| op.agrees((&right, &()), (got, &()));
    assert!(agrees(&right));
    let mut swapped = right.clone();
    swapped.1.swap(500, 501);
    assert!(!agrees(&swapped));
    let mut doubled = right.clone();
    doubled.1[500] = doubled.1[501];
    assert!(!agrees(&doubled));
    let mut shorter = right.clone();
    shorter.1.pop();
    assert!(!agrees(&shorter));
}

#[test]
fn lengths_that_differ_are_an_error_that_names_both() {
    let error = Args::new(&[1.0_f32; 3], &mut [1.0; 4]).unwrap_err();
    assert!(error.to_string().contains("shapes 3 and 4"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_bits_are_sorted(single in prop::collection::vec(any::<u32>(), 0..600), double in prop::collection::vec(any::<u64>(), 0..600)) {
        right(&single.into_iter().map(f32::from_bits).collect::<Vec<_>>());
        right(&double.into_iter().map(f64::from_bits).collect::<Vec<_>>());
    }
}
