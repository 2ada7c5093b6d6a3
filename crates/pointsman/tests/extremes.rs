//! Any numbers are safe, whoever gave them: row 40 of the table of faults, through every way in.

mod common;

use std::time::Duration;

use common::{builder, selector, spend};
use pointsman::store::MachineRecord;
use pointsman::{
    Backend, Calibration, Checks, DType, FakeClock, MAX_FEATURES, Mode, Op, Outcome, Verify,
    Workload,
};
use proptest::prelude::*;

const NUMBERS: [f64; 18] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    1e-300,
    -1e300,
    1e300,
    f64::MAX,
    f64::MIN,
    f64::MIN_POSITIVE,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::NAN,
    u64::MAX as f64,
    (1u64 << 53) as f64,
    3.4e38,
    16_777_217.0,
];

/// An op that takes its workload as its argument.
struct Anything;

impl Op for Anything {
    type Args<'a> = Workload;
    type Output = u64;
    fn name(&self) -> &str {
        "anything"
    }
    fn workload(&self, workload: &Workload) -> Workload {
        *workload
    }
}

impl Verify for Anything {
    type Sample = Workload;
    fn sample(&self, workload: &Workload, _: u64) -> Workload {
        *workload
    }
    fn args(&self, sample: &mut Workload) -> Workload {
        *sample
    }
    fn agrees(&self, expected: (&Workload, &u64), got: (&Workload, &u64)) -> bool {
        expected.1 == got.1
    }
}

fn all() -> Vec<Workload> {
    let mut out = vec![
        Workload::new::<usize, 0>([]),
        Workload::new([0usize]),
        Workload::new([usize::MAX]),
        Workload::new([usize::MAX; MAX_FEATURES]),
        Workload::new([usize::MAX])
            .flops(u128::MAX)
            .bytes(u128::MAX),
        Workload::new([i64::MIN])
            .codes([u32::MAX; 4])
            .gradient(true)
            .iterative(true),
        Workload::new([1])
            .sized(usize::MAX)
            .located(Backend::Gpu(255)),
        Workload::new([1]).aligned(0).prefer(Backend::Gpu(255)),
        Workload::new([1]).aligned(usize::MAX).dtype(DType::F64),
    ];
    for a in NUMBERS {
        out.push(Workload::new([a]).flops(a).bytes(a));
        for b in NUMBERS {
            out.push(Workload::from_slice(&[a, b, 7.0]).unwrap().flops(b));
        }
    }
    out
}

#[test]
fn f40_extremes_through_run_plan_and_decide() {
    for mode in [Mode::Learn, Mode::Frozen, Mode::Reference] {
        for checks in [Checks::Inline, Checks::Background] {
            let clock = FakeClock::new();
            let selector = builder(&clock).mode(mode).checks(checks).build().unwrap();
            let time = clock.clone();
            let op = selector
                .op(Anything)
                .reference("plain", Backend::Scalar, move |w| {
                    spend(&time, 40_000);
                    w.size()
                })
                .variant("fast", Backend::Simd, |w| w.size())
                .variant("picky", Backend::Gpu(0), |w| w.size())
                .min_size(1)
                .max_size(usize::MAX - 1)
                .alignment(1 << 62)
                .memory(|w| w.size().saturating_mul(8))
                .dtypes(&[DType::F64])
                .without_gradient()
                .verified()
                .build()
                .unwrap();
            for workload in all() {
                let plan = op.plan(workload);
                for _ in 0..3 {
                    assert_eq!(op.run(workload), workload.size());
                    assert_eq!(plan.run(workload), workload.size());
                    let decision = selector.decide("by name", &workload, &["a", "gpu:255"]);
                    selector.record(&decision, Outcome::took(Duration::from_nanos(1)));
                    spend(&clock, 1);
                }
                let told = op.run_explained(workload);
                assert_eq!(told.output, workload.size());
                let told = told.explanation;
                assert!(!told.to_string().is_empty());
                assert!((0.0..=1.0).contains(&told.confidence), "{told}");
                let json = serde_json::to_value(&told).unwrap();
                for variant in json["variants"].as_array().unwrap() {
                    for field in ["ns", "low_ns", "high_ns"] {
                        let value = &variant["predicted"][field];
                        assert!(value.is_f64(), "{workload}: {field} of {variant}");
                    }
                }
            }
            for stats in selector.stats() {
                assert!(stats.served_ns.is_finite() && stats.budget_left_ns.is_finite());
                assert!(stats.trial_ns.is_finite() && stats.first_try_excess_ns.is_finite());
            }
        }
    }
}

#[test]
fn f40_after_extremes_ordinary_workloads_are_still_learned() {
    // Whatever the cost model says of this machine.
    for flops_per_s in [1e8, 5e8, 1e9, 2e9, 3e9, 4e9, 6e9, 1e10, 1e11] {
        let record = MachineRecord {
            fingerprint: 0,
            text: "backends scalar simd".into(),
            numbers: vec![25.0, 5.0, flops_per_s, 1e10, 5.0, 1e10, 1e10],
        };
        let clock = FakeClock::new();
        let calibration = Calibration::from_record(&record).unwrap();
        let selector = builder(&clock).calibration(calibration).build().unwrap();
        let call = |workload: &Workload| {
            let decision = selector.decide("op", workload, &["slow", "fast"]);
            let us = if decision.variant() == "fast" { 10 } else { 40 };
            spend(&clock, us * 1_000);
            selector.record(&decision, Outcome::took(Duration::from_micros(us)));
            decision.variant()
        };
        for workload in all() {
            for _ in 0..3 {
                call(&workload);
            }
        }
        let ordinary = Workload::new([1_000]);
        let fast = (0..400).filter(|_| call(&ordinary) == "fast").count();
        let told = selector
            .explain("op", &ordinary, &["slow", "fast"])
            .unwrap();
        assert!(fast > 300, "{flops_per_s} flops/s: {fast} of 400: {told}");
    }
}

#[test]
fn too_many_features_are_an_error_and_no_panic() {
    let error = Workload::from_slice(&[1.0; MAX_FEATURES + 1]).unwrap_err();
    assert!(
        error.to_string().contains("17") && error.to_string().contains("16"),
        "{error}"
    );
    assert!(Workload::new([1]).codes_from_slice(&[0; 5]).is_err());
    assert!(Workload::from_slice(&[1.0; MAX_FEATURES]).is_ok());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn f40_any_stream_of_workloads_is_served(
        stream in prop::collection::vec(
            (
                prop::collection::vec(any::<f64>(), 0..=MAX_FEATURES),
                prop::collection::vec(any::<u32>(), 0..=4),
                any::<f64>(),
                any::<u64>(),
            ),
            1..60,
        )
    ) {
        let clock = FakeClock::new();
        let selector = selector(&clock);
        for (features, codes, flops, took) in stream {
            let workload = Workload::from_slice(&features)
                .unwrap()
                .codes_from_slice(&codes)
                .unwrap()
                .flops(flops);
            let decision = selector.decide("op", &workload, &["a", "b", "threads"]);
            prop_assert!((0.0..=1.0).contains(&decision.confidence()));
            selector.record(&decision, Outcome::took(Duration::from_nanos(took)));
            clock.set_ns(took);
            let told = selector.explain("op", &workload, &["a", "b", "threads"]).unwrap();
            for variant in &told.variants {
                let ns = variant.predicted.ns();
                prop_assert!(ns.is_finite() && ns > 0.0, "{} ns for {}", ns, workload);
            }
        }
    }
}
