//! Variants that Trueno computes. That they agree with the references at any length is in `agree.rs`.
#![cfg(feature = "trueno")]

use pointsman::{Cap, Machine, Selector, Verify};
use pointsman_ops::catalogue::Shaped;
use pointsman_ops::{Ops, View, matmul};

fn builder() -> pointsman::SelectorBuilder {
    Selector::builder().in_memory().ignore_environment()
}

#[test]
fn they_are_there_for_single_precision() {
    let selector = builder().build().unwrap();
    let (single, double) = (
        Ops::<f32>::new(&selector).unwrap(),
        Ops::<f64>::new(&selector).unwrap(),
    );
    let of = |names: Vec<&str>| names.iter().filter(|n| n.starts_with("trueno")).count();
    assert_eq!(of(single.dot.variants().collect()), 2);
    assert_eq!(of(single.exp.variants().collect()), 1);
    assert_eq!(of(single.matmul.variants().collect()), 1);
    assert_eq!(of(double.dot.variants().collect()), 0);
}

#[test]
fn products_agree_at_any_shape() {
    let selector = builder().build().unwrap();
    let ops = Ops::<f32>::new(&selector).unwrap();
    let op = matmul::Matmul::<f32>::default();
    let trueno = ops.matmul.variant("trueno").unwrap();
    let naive = ops.matmul.variant("naive").unwrap();
    for shape in [
        [0, 3, 2],
        [1, 1, 1],
        [1, 70, 65],
        [5, 1, 7],
        [17, 64, 33],
        [65, 130, 64],
        [200, 70, 300],
    ] {
        let mut expected = op.sample(&op.shaped(&shape), 3);
        let mut got = expected.clone();
        naive.run(op.args(&mut expected)).unwrap();
        trueno.run(op.args(&mut got)).unwrap();
        assert!(op.agrees((&expected, &()), (&got, &())), "{shape:?}");
    }
    let x = [1.0_f32, 2.0];
    let mut c = [0.0_f32];
    let (row, column) = (View::new(1, 2, &x).unwrap(), View::new(2, 1, &x).unwrap());
    trueno
        .run(matmul::Args::new(row, column, &mut c).unwrap())
        .unwrap();
    assert_eq!(c, [5.0]);
}

/// An instruction that the CPU has not got would end the process.
#[test]
fn f34_what_the_cpu_has_not_got_is_refused() {
    let bare = [Cap::Sse2, Cap::Avx2];
    let bare = bare.into_iter().fold(Machine::detect(), Machine::without);
    let selector = builder().machine(bare).build().unwrap();
    let ops = Ops::<f32>::new(&selector).unwrap();
    let x = [1.0_f32; 8];
    for name in ["trueno_sse2", "trueno_avx2"] {
        let refused = ops.dot.variant(name).unwrap();
        let args = pointsman_ops::dot::Args::new(&x, &x).unwrap();
        assert!(refused.run(args).is_err(), "{name}");
    }
}
