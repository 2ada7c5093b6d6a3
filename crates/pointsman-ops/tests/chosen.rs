//! The ops as a program uses them: whoever is chosen, the result is right.

use pointsman::{Cap, Checks, Machine, Refused, Selector, Workload};
use pointsman_ops::{Ops, axpy, dot};

fn selector(machine: Machine) -> Selector {
    Selector::builder()
        .in_memory()
        .ignore_environment()
        .checks(Checks::Inline)
        .machine(machine)
        .build()
        .unwrap()
}

#[test]
fn results_are_right_whoever_serves() {
    let selector = selector(Machine::detect());
    let Ops { dot, axpy, .. } = Ops::<f32>::new(&selector).unwrap();
    for n in [0, 1, 17, 64, 1000, 70_000] {
        let (x, y) = (vec![1.0; n], vec![2.0; n]);
        let mut z = vec![0.0; n];
        for _ in 0..100 {
            assert_eq!(dot.run(dot::Args::new(&x, &y).unwrap()), 2.0 * n as f32); // whole numbers below 2^24: exact
            axpy.run(axpy::Args::new(1.0, &x, &mut z).unwrap());
        }
        assert!(z.iter().all(|z| *z == 100.0), "added once a call, at {n}");
    }
    for stats in [dot.stats(), axpy.stats()] {
        assert_eq!(stats.calls, 600, "{}", stats.op);
        assert_eq!((stats.failures, stats.quarantines), (0, 0), "{}", stats.op);
    }
    assert!(dot.stats().checks > 0);
}

#[test]
fn threads_serve_no_small_call() {
    let Ops { dot, .. } = Ops::<f32>::new(&selector(Machine::detect())).unwrap();
    let eligible = |n: usize| {
        let explanation = dot.explain(Workload::new([n]));
        let threads = explanation.variants.iter().find(|v| v.name == "threads");
        threads.unwrap().eligible()
    };
    assert!(!eligible(4_095) && eligible(4_096));
}

#[test]
fn f34_without_its_instructions_the_vector_variant_does_not_serve() {
    let machine = Machine::detect().without(Cap::Avx2).without(Cap::Neon);
    let Ops { dot, .. } = Ops::<f32>::new(&selector(machine)).unwrap();
    let x = vec![1.0; 500];
    for _ in 0..100 {
        assert_eq!(dot.run(dot::Args::new(&x, &x).unwrap()), 500.0);
    }
    let served = dot.stats().variants;
    let simd = served.iter().find(|v| v.name == "simd").unwrap();
    assert_eq!(simd.calls, 0);
}

#[test]
fn the_catalogue_runs_every_variant_of_every_op() {
    let selector = selector(Machine::detect());
    let single = Ops::<f32>::new(&selector).unwrap().entries();
    let double = Ops::<f64>::new(&selector).unwrap().entries();
    let declared = selector.stats().len();
    assert_eq!(single.len() + double.len(), declared, "all are listed");
    for entry in single.iter().chain(&double) {
        for size in [1, 100, 10_000] {
            let shape = entry.of_size(size);
            let mut call = entry.call(&shape, 1).unwrap();
            for (variant, _) in entry.variants() {
                // Some serve only some shapes; nobody fails.
                if let Err(error) = call.run_variant(&variant) {
                    assert!(error.is::<Refused>(), "{}: {error}", entry.name());
                }
            }
        }
    }
}
