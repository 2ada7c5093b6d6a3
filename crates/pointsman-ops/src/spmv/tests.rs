use super::*;
use crate::variants::{Body, bodies};

fn variants<T: Float>() -> Vec<(&'static str, Body<SpMv<T>>)> {
    let mut variants = bodies::<SpMv<T>>(scalar::spmv);
    variants.push(("ell", ell::spmv));
    variants
}

fn right_at_every_shape<T: Float>() {
    let sides = [0, 1, 2, 5, 8, 9, 17, 40];
    let small = sides
        .iter()
        .flat_map(|r| sides.map(|n| Form::typical(*r, n)));
    let long_row = Form::possible(&[50, 3000, 4000, 2900]);
    let empty_rows = Form::possible(&[100, 100, 30, 3]);
    let large = Form::typical(3001, 7);
    for form in small.chain([long_row, empty_rows, large]) {
        let sample = made::<T>(form, 7);
        for (name, spmv) in variants() {
            let (a, x, mut y) = sample.clone();
            y.fill(T::nan()); // must be overwritten
            spmv(&mut Args::new(&a, &x, &mut y).unwrap());
            for (row, y) in y.iter().enumerate() {
                let (columns, values) = a.row(row);
                let products = columns.iter().zip(values);
                let exact: f64 = products
                    .map(|(c, v)| v.wide() * x[*c as usize].wide())
                    .sum();
                // For f64 the exact one is rounded as often.
                let bound = 2.0 * error_bound(&a, row, &x);
                let off = (y.wide() - exact).abs();
                assert!(
                    off <= bound,
                    "{name}, row {row} of {form:?}: {off} > {bound}"
                );
            }
        }
    }
}

#[test]
fn every_variant_is_right_at_every_shape() {
    right_at_every_shape::<f32>();
    right_at_every_shape::<f64>();
}

#[test]
fn an_infinite_element_shows_only_in_the_rows_that_use_it() {
    // Row r has r % 3 + 1 entries, so that most are padded.
    let (mut offsets, mut indices) = (vec![0], vec![]);
    for row in 0..20 {
        indices.extend(row % 5..=row % 5 + row % 3);
        offsets.push(indices.len());
    }
    let values = vec![1.0_f32; indices.len()];
    let a = Csr::new(20, 8, offsets, indices, values).unwrap().padded();
    assert!(a.ell().is_some());
    for (name, spmv) in variants() {
        for (at, special) in (0..8).flat_map(|at| [(at, f32::INFINITY), (at, f32::NAN)]) {
            let mut x = vec![1.0; 8];
            x[at as usize] = special;
            let mut y = vec![0.0; 20];
            spmv(&mut Args::new(&a, &x, &mut y).unwrap());
            for (row, y) in y.iter().enumerate() {
                let (columns, values) = a.row(row);
                match columns.contains(&at) {
                    true => assert_eq!(y.to_bits(), special.to_bits(), "{name}, row {row}"),
                    false => assert_eq!(*y, values.len() as f32, "{name}, row {row}"),
                }
            }
        }
    }
}

#[test]
fn threads_share_entries_and_not_rows() {
    use crate::team::Parts;
    use crate::variants::Lanes;
    // The first ten rows have as many entries as the other thousand.
    let offsets: Vec<usize> = (0..=10)
        .map(|r| 100 * r)
        .chain((1..=1000).map(|r| 1000 + r))
        .collect();
    let a = Csr::new(1010, 1, offsets, vec![0; 2000], vec![1.0_f32; 2000]).unwrap();
    let mut y = vec![0.0; 1010];
    let mut args = Args::new(&a, &[1.0], &mut y).unwrap();
    let (first, rest) = SpMv::kernel(&mut args).cut(1, 2);
    assert_eq!((first.len(), rest.len()), (10, 1000));
}

#[test]
fn only_matrices_with_a_padded_copy_go_to_ell() {
    let selector = Selector::builder().in_memory().ignore_environment();
    let handle = declare::<f32>(&selector.build().unwrap()).unwrap();
    let Some(ell) = handle.variant("ell") else {
        panic!("no variant ell");
    };
    let (a, x, mut y) = made::<f32>(Form::typical(50, 5), 1);
    let bare = {
        let (indices, values) = a.entries(0..a.nonzeros());
        let offsets = a.offsets().to_vec();
        Csr::new(50, a.columns(), offsets, indices.to_vec(), values.to_vec()).unwrap()
    };
    assert!(ell.run(Args::new(&bare, &x, &mut y).unwrap()).is_err());
    let has_vectors = handle
        .variant("simd")
        .unwrap()
        .run(Args::new(&a, &x, &mut y).unwrap());
    assert_eq!(
        ell.run(Args::new(&a, &x, &mut y).unwrap()).is_ok(),
        has_vectors.is_ok()
    );
}

#[test]
fn the_check_sees_one_wrong_element() {
    let op = SpMv::<f32>::default();
    let mut right = op.make(&[10, 5], 1);
    scalar::spmv(&mut op.args(&mut right));
    assert!(op.agrees((&right, &()), (&right, &())));
    for wrong in [f32::NAN, f32::INFINITY, right.2[9] + 0.001] {
        let mut got = right.clone();
        got.2[9] = wrong;
        assert!(!op.agrees((&right, &()), (&got, &())), "{wrong}");
    }
}

#[test]
fn shapes_that_do_not_fit_are_an_error_that_names_both() {
    let a = Csr::<f32>::new(2, 3, vec![0, 0, 0], vec![], vec![]).unwrap();
    let error = |x: &[f32], y: &mut [f32]| Args::new(&a, x, y).unwrap_err().to_string();
    assert!(error(&[0.0; 2], &mut [0.0; 2]).contains("2x3 and 2"));
    assert!(error(&[0.0; 3], &mut [0.0; 3]).contains("2x3 and 3"));
}
