//! GPUs as the library sees them: scripted devices that wait in line, run out of memory, go away,
//! and are fast.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use pointsman::{
    Available, Backend, BackendCost, Calibration, Cap, Chain, Clock as _, FakeClock, Handle,
    Machine, Memory, Op, OutOfMemory, Selector, SelectorBuilder, Workload,
};

fn builder() -> SelectorBuilder {
    let machine = Machine::detect()
        .with_gpu("scripted", "1")
        .with_gpu("scripted", "1");
    Selector::builder()
        .in_memory()
        .ignore_environment()
        .machine(machine)
}

fn served<O: Op>(handle: &Handle<O>, variant: &str) -> u64 {
    let stats = handle.stats();
    let found = stats.variants.iter().find(|v| v.name == variant);
    found.map_or(0, |v| v.calls)
}

struct Square;

impl Op for Square {
    type Args<'a> = u64;
    type Output = u64;

    fn name(&self) -> &str {
        "square"
    }

    fn workload(&self, n: &u64) -> Workload {
        Workload::new([*n])
    }
}

#[test]
fn calls_go_to_the_device_that_is_free_first() {
    let clock = FakeClock::new();
    let selector = builder().clock(clock.clone()).build().unwrap();
    let device = |took: u64| {
        let clock = clock.clone();
        move |n: &mut u64| {
            clock.advance(Duration::from_millis(took));
            *n * *n
        }
    };
    // While this is locked, the first device does not finish what it has begun.
    let gate = Arc::new(Mutex::new(()));
    let (begun, begins) = mpsc::channel();
    let held = Arc::new(AtomicBool::new(false));
    let first = {
        let (gate, held, work) = (gate.clone(), held.clone(), device(4));
        move |n: &mut u64| {
            if held.load(Relaxed) {
                begun.send(()).unwrap();
                drop(gate.lock().unwrap());
            }
            work(n)
        }
    };
    // The second one is slower, so that alone it would never be chosen.
    let square = selector
        .op(Square)
        .reference("host", Backend::Scalar, device(50))
        .variant("gpu0", Backend::Gpu(0), first)
        .variant("gpu1", Backend::Gpu(1), device(6))
        .build()
        .unwrap();
    for name in ["host", "gpu0", "gpu1"] {
        let variant = square.variant(name).unwrap();
        (0..4).for_each(|_| assert_eq!(variant.measure(7).unwrap(), 49));
    }
    (0..200).for_each(|_| assert_eq!(square.run(7), 49));
    let alone = served(&square, "gpu1");
    assert!(alone <= 5, "{alone} of 200 calls went to the slower device");
    std::thread::scope(|scope| {
        let closed = gate.lock().unwrap();
        held.store(true, Relaxed);
        let busy = scope.spawn(|| square.run(7));
        begins.recv().unwrap();
        // 4 ms until it is free and 4 for the call, against 6.
        (0..20).for_each(|_| assert_eq!(square.run(7), 49));
        assert_eq!(served(&square, "gpu1"), alone + 20);
        held.store(false, Relaxed);
        drop(closed);
        assert_eq!(busy.join().unwrap(), 49);
    });
    (0..20).for_each(|_| assert_eq!(square.run(7), 49));
    assert!(served(&square, "gpu1") <= alone + 21, "it is free again");
}

/// Keeps a device busy until told otherwise.
struct Hold;

impl Op for Hold {
    type Args<'a> = ();
    type Output = ();

    fn name(&self) -> &str {
        "hold"
    }

    fn workload(&self, _: &()) -> Workload {
        Workload::new([1u64]).prefer(Backend::Gpu(1))
    }
}

#[test]
fn nobody_is_tried_on_a_device_that_is_busy() {
    let clock = FakeClock::new();
    let selector = builder().clock(clock.clone()).build().unwrap();
    let device = |took: u64| {
        let clock = clock.clone();
        move |n: &mut u64| {
            clock.advance(Duration::from_millis(took));
            *n * *n
        }
    };
    // As good as the first one, so that it is worth trying as soon as the budget allows.
    let square = selector
        .op(Square)
        .reference("gpu0", Backend::Gpu(0), device(5))
        .variant("gpu1", Backend::Gpu(1), device(5))
        .build()
        .unwrap();
    let (begun, begins) = mpsc::channel();
    let (end, ends) = mpsc::channel::<()>();
    let ends = Mutex::new(ends);
    let hold = selector
        .op(Hold)
        .reference("host", Backend::Scalar, |()| ())
        .variant("gpu1", Backend::Gpu(1), move |()| {
            begun.send(()).unwrap();
            let _ = ends.lock().unwrap().recv();
        })
        .build()
        .unwrap();
    std::thread::scope(|scope| {
        let end = end; // dropped, and the device let go, if an assertion fails
        scope.spawn(|| hold.run(()));
        begins.recv().unwrap();
        (0..500).for_each(|_| assert_eq!(square.run(7), 49));
        assert_eq!(served(&square, "gpu1"), 0, "it would wait, and say nothing");
        drop(end);
    });
    (0..500).for_each(|_| assert_eq!(square.run(7), 49));
    assert!(served(&square, "gpu1") > 0, "{}", square.stats());
}

#[test]
fn f32_no_memory_is_a_limit_on_size_and_ends() {
    let clock = FakeClock::new();
    let selector = builder().clock(clock.clone()).build().unwrap();
    let full = Arc::new(AtomicBool::new(true));
    let (is_full, time) = (full.clone(), clock.clone());
    let square = selector
        .op(Square)
        .reference("host", Backend::Scalar, {
            let clock = clock.clone();
            move |n| {
                clock.advance(Duration::from_micros(10));
                *n * *n
            }
        })
        .try_variant("gpu0", Backend::Gpu(0), move |n| {
            time.advance(Duration::from_micros(1));
            if *n >= 1000 && is_full.load(Relaxed) {
                return Err(OutOfMemory { bytes: *n });
            }
            Ok(*n * *n)
        })
        .build()
        .unwrap();
    for i in 0..200 {
        assert_eq!(square.run(900 + i % 50), (900 + i % 50).pow(2));
    }
    let small = served(&square, "gpu0");
    assert!(small > 150, "{small}");
    for _ in 0..100 {
        assert_eq!(square.run(2000), 4_000_000, "the call does not fail");
    }
    let told = square.explain(Workload::new([2000]));
    let why = told.variants[1].why_not.as_deref().unwrap();
    assert!(why.contains("memory") && why.contains("2000"), "{why}");
    assert!(square.explain(Workload::new([1500])).variants[1].eligible());
    for _ in 0..100 {
        square.run(910);
    }
    assert!(served(&square, "gpu0") >= small + 90, "small calls go on");
    full.store(false, Relaxed);
    clock.advance(Duration::from_secs(61));
    assert!(square.explain(Workload::new([2000])).variants[1].eligible());
    for _ in 0..200 {
        square.run(2000);
    }
    assert!(
        served(&square, "gpu0") >= small + 250,
        "and large ones later"
    );
}

struct Device {
    there: Arc<AtomicBool>,
    asked: Arc<AtomicU64>,
}

impl Available for Device {
    fn is_available(&self) -> bool {
        self.asked.fetch_add(1, Relaxed);
        self.there.load(Relaxed)
    }

    fn why_not(&self) -> String {
        "its kernel is being compiled".into()
    }
}

#[test]
fn f31_what_is_not_available_does_not_serve_and_says_why() {
    let machine = Machine::detect().no_more_gpus("no Vulkan driver\nfound");
    let clock = FakeClock::new();
    let selector = builder()
        .machine(machine.with_gpu("one", "1"))
        .clock(clock.clone())
        .build()
        .unwrap();
    let takes = |micros: u64| {
        let clock = clock.clone();
        move |n: &mut u64| {
            clock.advance(Duration::from_micros(micros));
            *n * *n
        }
    };
    let (there, asked) = (Arc::new(AtomicBool::new(false)), Arc::default());
    let device = Device {
        there: there.clone(),
        asked: Arc::clone(&asked),
    };
    let square = selector
        .op(Square)
        .reference("host", Backend::Scalar, takes(300))
        .variant("gpu0", Backend::Gpu(0), takes(10))
        .requires(Cap::Gpu(0))
        .available(device)
        .variant("gpu1", Backend::Gpu(1), takes(10))
        .requires(Cap::Gpu(1))
        .build()
        .unwrap();
    let told = square.explain(Workload::new([3]));
    let why = |at: usize| told.variants[at].why_not.clone().unwrap();
    assert_eq!(why(1), "its kernel is being compiled");
    assert!(why(2).contains("gpu:1") && why(2).contains("no Vulkan driver found"));
    for _ in 0..50 {
        assert_eq!(square.run(3), 9);
    }
    assert_eq!(served(&square, "host"), 50);
    assert!(asked.load(Relaxed) >= 50, "asked on every call");
    there.store(true, Relaxed);
    for _ in 0..200 {
        square.run(3);
    }
    assert!(served(&square, "gpu0") > 150);
}

/// y = f(x) over n elements, with data that may live on the device.
struct Step {
    flops_each: f64,
    name: &'static str,
}

/// How many elements, and where they are.
type Vector = (usize, Backend);

impl Op for Step {
    type Args<'a> = Vector;
    type Output = ();

    fn name(&self) -> &str {
        self.name
    }

    fn workload(&self, (n, place): &Vector) -> Workload {
        Workload::new([*n])
            .flops(self.flops_each * *n as f64)
            .bytes(8 * n)
            .located(*place)
    }
}

struct Plenty;

impl Memory for Plenty {
    fn free_bytes(&self, _: Backend) -> Option<u64> {
        Some(8 << 30)
    }
}

/// A GPU with 20 µs to launch, 10 TFLOP/s and 25 GB/s over the bus.
const FAST: BackendCost = BackendCost {
    launch_ns: 20_000.0,
    flops_per_s: 1e13,
    bytes_per_s: 1e12,
    transfer_bytes_per_s: Some(2.5e10),
};

/// A core with 50 GFLOP/s.
const HOST: BackendCost = BackendCost {
    launch_ns: 5.0,
    flops_per_s: 5e10,
    bytes_per_s: 5e10,
    transfer_bytes_per_s: None,
};

/// What a step really takes.
fn takes(step: &Step, (n, place): Vector, on: Backend) -> f64 {
    let (flops, bytes) = (step.flops_each * n as f64, 8.0 * n as f64);
    let moved = if place.is_host() == on.is_host() {
        0.0
    } else {
        bytes
    };
    let cost = if on.is_host() { HOST } else { FAST };
    cost.predict_ns(flops, bytes, 0.0) + moved / 2.5e10 * 1e9
}

fn fast_gpu(calibrated: bool) -> (Selector, FakeClock) {
    let clock = FakeClock::new();
    let mut calibration = Calibration::nominal();
    if calibrated {
        calibration.set(Backend::Gpu(0), FAST).unwrap();
    }
    let selector = builder()
        .clock(clock.clone())
        .calibration(calibration)
        .memory(Plenty)
        .seed(3)
        .build()
        .unwrap();
    (selector, clock)
}

fn step(
    selector: &Selector,
    clock: &FakeClock,
    name: &'static str,
    flops_each: f64,
) -> Handle<Step> {
    let on = |backend: Backend| {
        let clock = clock.clone();
        move |vector: &mut Vector| {
            let ns = takes(&Step { flops_each, name }, *vector, backend);
            clock.advance(Duration::from_nanos(ns as u64));
        }
    };
    let step = Step { flops_each, name };
    selector
        .op(step)
        .reference("host", Backend::Simd, on(Backend::Simd))
        .variant("gpu0", Backend::Gpu(0), on(Backend::Gpu(0)))
        .requires(Cap::Gpu(0))
        .memory(|w| w.byte_count() as u64)
        .build()
        .unwrap()
}

fn chosen(handle: &Handle<Step>, flops_each: f64, vector: Vector) -> String {
    let workload = Step {
        flops_each,
        name: "",
    }
    .workload(&vector);
    handle.explain(workload).chosen
}

#[test]
fn a_fast_gpu_is_chosen_above_the_right_size_whether_calibrated_or_not() {
    for calibrated in [true, false] {
        let (selector, clock) = fast_gpu(calibrated);
        let heavy = 200.0;
        let step = step(&selector, &clock, "heavy", heavy);
        let mut random = 1u64;
        for _ in 0..6000 {
            random = random
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            let n = 2f64.powf(6.0 + 16.0 * (random >> 40) as f64 / (1u64 << 24) as f64);
            step.run((n as usize, Backend::Scalar));
        }
        // The host takes 4 ns an element, the GPU 20 µs and 0.34 ns: equal at 5,464.
        for n in [100, 1000, 4000] {
            assert_eq!(chosen(&step, heavy, (n, Backend::Scalar)), "host", "{n}");
        }
        for n in [8000, 100_000, 1_000_000] {
            assert_eq!(chosen(&step, heavy, (n, Backend::Scalar)), "gpu0", "{n}");
        }
        let trials = step.stats();
        let spent: f64 = trials.variants.iter().map(|v| v.trial_excess_ns).sum();
        let all: f64 = clock.now_ns() as f64;
        assert!(spent <= 0.011 * all, "{spent} of {all}");
    }
}

#[test]
fn first_tries_that_the_cost_model_calls_dear_wait_for_the_budget() {
    let (selector, clock) = fast_gpu(true);
    let step = step(&selector, &clock, "small", 8.0);
    // Some 160 ns on the host; the GPU takes 20 µs to launch.
    (0..20_000).for_each(|_| step.run((1000, Backend::Scalar)));
    let stats = step.stats();
    assert_eq!(stats.first_tries, 0);
    let spent = stats.trial_excess_ns / clock.now_ns() as f64;
    assert!(spent <= 0.02, "{spent}"); // 1 % and one bad trial
    // The same without a word of how much work it is: nothing prices them.
    let takes = |ns: u64| {
        let clock = clock.clone();
        move |n: &mut u64| {
            clock.advance(Duration::from_nanos(ns));
            *n * *n
        }
    };
    let square = selector
        .op(Square)
        .reference("host", Backend::Scalar, takes(160))
        .variant("gpu0", Backend::Gpu(0), takes(20_000))
        .build()
        .unwrap();
    (0..1000).for_each(|_| assert_eq!(square.run(7), 49));
    // Three, and the first that counts once more: it is a hundred times slower than the other.
    assert_eq!(square.stats().first_tries, 4);
}

#[test]
fn before_anything_is_measured_both_ways_are_priced() {
    let (selector, clock) = fast_gpu(true);
    let step = step(&selector, &clock, "unmeasured", 8.0);
    let (n, workload) = (1_000_000, |vector: Vector| {
        let (flops_each, name) = (8.0, "");
        Step { flops_each, name }.workload(&vector)
    });
    let predicted = |place: Backend| {
        let told = step.explain(workload((n, place)));
        [0, 1].map(|at| told.variants[at].predicted.ns())
    };
    let (at_home, away) = (predicted(Backend::Scalar), predicted(Backend::Gpu(0)));
    // 8 MB at 25 GB/s.
    let way = 320_000.0;
    let close = |found: f64, wanted: f64| (found / wanted - 1.0).abs() < 0.01;
    assert!(close(away[0] - at_home[0], way), "{away:?} {at_home:?}");
    assert!(close(at_home[1] - away[1], way), "{away:?} {at_home:?}");
}

#[test]
fn where_the_data_is_decides_who_serves_and_a_chain_stays_there() {
    let (selector, clock) = fast_gpu(true);
    // A light step: not worth the way to the GPU, nor the way back.
    let light = 8.0;
    let step = step(&selector, &clock, "light", light);
    let n = 1_000_000;
    for _ in 0..300 {
        step.run((n, Backend::Scalar));
        step.run((n, Backend::Gpu(0)));
    }
    assert_eq!(chosen(&step, light, (n, Backend::Scalar)), "host");
    assert_eq!(chosen(&step, light, (n, Backend::Gpu(0))), "gpu0");
    // A chain of ten steps on data that is there: all of them stay.
    let before = served(&step, "gpu0");
    for _ in 0..10 {
        step.run((n, Backend::Gpu(0)));
    }
    let stayed = served(&step, "gpu0") - before;
    assert!(stayed >= 9, "{stayed} of 10");
    // So little that even the way back is shorter than a launch: it does not stay.
    let tiny = 64;
    for _ in 0..300 {
        step.run((tiny, Backend::Gpu(0)));
    }
    assert_eq!(chosen(&step, light, (tiny, Backend::Gpu(0))), "host");
}

#[test]
fn a_chain_is_brought_to_the_gpu_where_one_call_is_not() {
    let (selector, clock) = fast_gpu(true);
    let light = 8.0;
    let step = step(&selector, &clock, "light", light);
    let n = 1_000_000;
    for _ in 0..300 {
        step.run((n, Backend::Scalar));
        step.run((n, Backend::Gpu(0)));
    }
    let workload = Step {
        flops_each: light,
        name: "",
    }
    .workload(&(n, Backend::Scalar));
    let chain = |steps: usize| {
        let mut chain = Chain::new(&selector, 4 * n as u64, 4 * n as u64);
        for _ in 0..steps {
            chain = chain.step(&step, workload);
        }
        chain
    };
    // The host takes 160 µs a step, the GPU 28 and twice 180 for the way.
    assert_eq!(chain(1).best().0, Backend::Scalar);
    assert_eq!(chain(2).best().0, Backend::Scalar);
    assert_eq!(chain(5).best().0, Backend::Gpu(0));
    let ns = chain(5).expected_ns(Backend::Gpu(0)).unwrap();
    assert!((4.5e5..5.5e5).contains(&ns), "{ns}");
    assert_eq!(chain(5).expected_ns(Backend::Gpu(9)), None);
}
