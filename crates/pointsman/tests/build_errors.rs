//! Declarations that make no sense are errors that say what to do, before anything runs.

mod common;

use common::{Numbers, numbers, truth};
use pointsman::{Backend, BuildError, Cap, DType, FakeClock, Function, Op, Selector, Workload};

fn selector() -> Selector {
    common::selector(&FakeClock::new())
}

fn one(n: &mut &usize) -> usize {
    truth(**n)
}

fn op() -> Numbers {
    numbers(&selector(), "op").reference("plain", Backend::Scalar, one)
}

fn error<K: pointsman::Kind<Function<usize, usize>>>(
    builder: pointsman::OpBuilder<Function<usize, usize>, K>,
) -> BuildError {
    builder.build().err().expect("this must not build")
}

#[test]
fn names_are_1_to_128_bytes_without_control_characters() {
    let long = "x".repeat(129);
    let wide = "é".repeat(65); // 130 bytes in 65 characters
    for bad in ["", &long, &wide, "a\nb", "a\0", "\t", "\u{7f}", "\u{85}"] {
        let e = error(numbers(&selector(), bad).reference("plain", Backend::Scalar, one));
        assert_eq!(
            e,
            BuildError::Name {
                what: "op",
                name: bad.into()
            }
        );
        let e = error(op().variant(bad, Backend::Simd, one));
        assert_eq!(
            e,
            BuildError::Name {
                what: "variant",
                name: bad.into()
            }
        );
        let e = error(numbers(&selector(), "op").reference(bad, Backend::Scalar, one));
        assert_eq!(
            e,
            BuildError::Name {
                what: "variant",
                name: bad.into()
            }
        );
        let text = e.to_string();
        assert!(text.contains("128") && text.len() < 200, "{text}");
        assert!(!text.chars().any(char::is_control), "{text:?}");
    }
    let longest = "x".repeat(128);
    for good in [longest.as_str(), "é", "a b", "größe-1/α"] {
        let built = numbers(&selector(), good)
            .reference(good, Backend::Scalar, one)
            .build();
        assert_eq!(built.unwrap().run(&4), truth(4));
    }
}

#[test]
fn two_variants_of_one_name_are_refused() {
    let expected = BuildError::Duplicate {
        op: "op".into(),
        variant: "x".into(),
    };
    let e = error(
        op().variant("x", Backend::Simd, one)
            .variant("x", Backend::Threads, one),
    );
    assert_eq!(e, expected);
    let e = error(op().variant("plain", Backend::Simd, one));
    assert_eq!(
        e,
        BuildError::Duplicate {
            op: "op".into(),
            variant: "plain".into()
        }
    );
}

#[test]
fn there_is_exactly_one_reference() {
    let e = error(numbers(&selector(), "op").variant("x", Backend::Simd, one));
    assert_eq!(
        e,
        BuildError::References {
            op: "op".into(),
            found: 0
        }
    );
    let e = error(numbers(&selector(), "op"));
    assert_eq!(
        e,
        BuildError::References {
            op: "op".into(),
            found: 0
        }
    );
    let e = error(op().reference("second", Backend::Scalar, one));
    assert_eq!(
        e,
        BuildError::References {
            op: "op".into(),
            found: 2
        }
    );
    let e = error(op().try_reference("second", Backend::Scalar, |n| {
        Ok::<_, std::fmt::Error>(one(n))
    }));
    assert_eq!(
        e,
        BuildError::References {
            op: "op".into(),
            found: 2
        }
    );
}

#[test]
fn the_reference_can_have_no_limits() {
    let limited: Vec<(&str, Numbers)> = vec![
        ("requires", op().requires(Cap::Sse2)),
        ("min_size", op().min_size(1)),
        ("max_size", op().max_size(10)),
        ("dtypes", op().dtypes(&[DType::F32])),
        ("alignment", op().alignment(16)),
        ("without_gradient", op().without_gradient()),
        ("memory", op().memory(|_| 0)),
        ("when", op().when(|_| true)),
    ];
    for (limit, builder) in limited {
        let e = error(builder);
        assert!(matches!(&e, BuildError::Contradiction { variant, .. } if variant == "plain"));
        assert!(e.to_string().contains("reference"), "{limit}: {e}");
    }
    assert!(op().revision(3).build().is_ok(), "a revision is no limit");
}

#[test]
fn limits_that_contradict_each_other_are_named() {
    let x = || op().variant("x", Backend::Simd, one);
    let cases: Vec<(Numbers, &[&str])> = vec![
        (x().min_size(10).max_size(9), &["min_size 10", "max_size 9"]),
        (x().dtypes(&[]), &["dtypes"]),
        (x().alignment(0), &["alignment 0", "power of two"]),
        (x().alignment(48), &["alignment 48", "power of two"]),
    ];
    for (builder, parts) in cases {
        let e = error(builder);
        assert!(matches!(&e, BuildError::Contradiction { variant, .. } if variant == "x"));
        let text = e.to_string();
        for part in parts.iter().chain(&["op", "\"x\""]) {
            assert!(text.contains(part), "{text}");
        }
    }
    assert!(x().min_size(9).max_size(9).alignment(1).build().is_ok());
}

#[test]
fn a_limit_before_the_first_variant_is_not_silently_dropped() {
    // `.requires(Avx2)` that limits nothing is how an illegal instruction gets into production.
    let early = numbers(&selector(), "op")
        .requires(Cap::Avx2)
        .reference("plain", Backend::Scalar, one)
        .variant("avx2", Backend::Simd, one)
        .build();
    assert!(early.is_err(), "a limit on nothing must be an error");
}

#[test]
fn at_most_64_variants() {
    let with = |count: usize| {
        (1..count).fold(op(), |op, i| {
            op.variant(&format!("v{i}"), Backend::Simd, one)
        })
    };
    assert_eq!(with(64).build().unwrap().run(&8), truth(8));
    let e = error(with(65));
    assert!(
        matches!(
            e,
            BuildError::TooMany {
                found: 65,
                most: 64,
                ..
            }
        ),
        "{e}"
    );
}

#[test]
fn at_most_64_variants_of_one_op_under_all_its_declarations() {
    let selector = selector();
    let declare = |first: usize| {
        (first..first + 40)
            .fold(
                numbers(&selector, "op").reference("plain", Backend::Scalar, one),
                |op, i| op.variant(&format!("v{i}"), Backend::Simd, one),
            )
            .build()
    };
    let old = declare(0).unwrap();
    let e = declare(100).err().unwrap();
    assert!(matches!(e, BuildError::TooMany { most: 64, .. }), "{e}");
    assert_eq!(old.run(&8), truth(8), "the first declaration is not harmed");
    assert!(declare(0).is_ok());
}

#[test]
fn settings_out_of_range_are_named() {
    for (builder, name) in [
        (Selector::builder().budget(-0.1), "budget"),
        (Selector::builder().budget(1.1), "budget"),
        (Selector::builder().budget(f64::NAN), "budget"),
        (Selector::builder().budget(f64::INFINITY), "budget"),
        (Selector::builder().memory_reserve(2.0), "memory reserve"),
        (
            Selector::builder().memory_reserve(f64::NAN),
            "memory reserve",
        ),
        (
            Selector::builder().save_every(std::time::Duration::ZERO),
            "save_every",
        ),
    ] {
        let e = builder
            .in_memory()
            .ignore_environment()
            .build()
            .unwrap_err();
        assert!(
            matches!(&e, BuildError::Setting { name: n, .. } if *n == name),
            "{e}"
        );
    }
    for rules in ["", ",", "a=", "=b"] {
        let build = |b: pointsman::SelectorBuilder| b.in_memory().ignore_environment().build();
        assert!(
            build(Selector::builder().force(rules)).is_err(),
            "{rules:?}"
        );
        assert!(
            build(Selector::builder().disable(rules)).is_err(),
            "{rules:?}"
        );
    }
}

#[test]
fn an_error_leaves_the_selector_usable() {
    let selector = selector();
    for _ in 0..3 {
        let broken = numbers(&selector, "op")
            .variant("x", Backend::Simd, one)
            .build();
        assert!(broken.is_err());
    }
    let op = numbers(&selector, "op")
        .reference("plain", Backend::Scalar, one)
        .build()
        .unwrap();
    assert_eq!(op.run(&8), truth(8));
    assert_eq!(op.variants().collect::<Vec<_>>(), ["plain"]);
    assert!(op.variant("x").is_none());
}

/// An op that must not be run twice.
struct Once;

impl Op for Once {
    type Args<'a> = &'a mut Vec<u32>;
    type Output = ();
    fn name(&self) -> &str {
        "once"
    }
    fn workload(&self, data: &&mut Vec<u32>) -> Workload {
        Workload::new([data.len()])
    }
    fn may_run_again(&self) -> bool {
        false
    }
}

#[test]
fn a_variant_that_can_fail_must_promise_to_leave_arguments_untouched() {
    let once = || {
        selector()
            .op(Once)
            .reference("plain", Backend::Scalar, |data| data.push(1))
    };
    let fallible = |data: &mut &mut Vec<u32>| {
        data.push(1);
        Ok::<(), std::fmt::Error>(())
    };
    let e = once()
        .try_variant("x", Backend::Simd, fallible)
        .build()
        .err()
        .unwrap();
    assert!(matches!(&e, BuildError::Contradiction { variant, .. } if variant == "x"));
    assert!(e.to_string().contains("untouched_on_error"), "{e}");
    let promised = once()
        .try_variant("x", Backend::Simd, fallible)
        .untouched_on_error()
        .build();
    assert!(promised.is_ok());
}
