//! The constants of the cost model: how fast each backend of this machine is.

use std::collections::BTreeMap;
use std::fmt;

use serde::Serialize;

use super::{MAX_NUMBERS, MAX_TEXT, MachineRecord, measure};
use crate::backend::Backend;

/// Most backends with a cost: with four numbers each and the clock's they fit a record.
const MAX_BACKENDS: usize = (MAX_NUMBERS - 1) / 4;

/// Begins the line of a record that names the backends of its numbers.
const NAMES: &str = "backends ";

/// Follows the name of a backend that has a fourth number, the speed of transfers.
const TRANSFER: &str = "+transfer";

/// How fast one backend is: the constants of its cost model.
///
/// ```
/// use pointsman::BackendCost;
///
/// let gpu = BackendCost {
///     launch_ns: 20_000.0,
///     flops_per_s: 1e13,
///     bytes_per_s: 5e11,
///     transfer_bytes_per_s: Some(1e10),
/// };
/// // 1e10 flops take 1 ms, fetching 1e7 bytes over the bus another.
/// assert_eq!(gpu.predict_ns(1e10, 1e7, 1e7), 2_020_000.0);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct BackendCost {
    /// What a call takes before its work begins, in nanoseconds.
    pub launch_ns: f64,
    /// Floating-point operations a second when data is at hand.
    pub flops_per_s: f64,
    /// Bytes a second between the backend and the memory it works on.
    pub bytes_per_s: f64,
    /// Bytes a second to bring data from the host and back; `None` where they share memory.
    pub transfer_bytes_per_s: Option<f64>,
}

impl BackendCost {
    /// Expected nanoseconds of a call: its launch, then its work (arithmetic and memory overlap,
    /// the slower one counts), then its transfers.
    ///
    /// Finite and at least 1 for any numbers, because a cost is. Amounts that are negative or
    /// not a number count as 0. More work is never predicted faster, nor a faster backend slower.
    pub fn predict_ns(&self, flops: f64, bytes: f64, transfer_bytes: f64) -> f64 {
        let work = span_ns(flops, self.flops_per_s).max(span_ns(bytes, self.bytes_per_s));
        let transfer = self
            .transfer_bytes_per_s
            .map_or(0.0, |rate| span_ns(transfer_bytes, rate));
        (self.launch_ns.max(0.0) + work + transfer).clamp(1.0, f64::MAX)
    }

    fn numbers(&self) -> impl Iterator<Item = (&'static str, f64)> {
        [
            ("launch_ns", self.launch_ns),
            ("flops_per_s", self.flops_per_s),
            ("bytes_per_s", self.bytes_per_s),
        ]
        .into_iter()
        .chain(
            self.transfer_bytes_per_s
                .map(|rate| ("transfer_bytes_per_s", rate)),
        )
    }
}

/// Nanoseconds for an amount at a rate: at least 0, and never NaN (which `max` drops).
fn span_ns(amount: f64, per_s: f64) -> f64 {
    (amount.clamp(0.0, f64::MAX) / per_s * 1e9).max(0.0)
}

fn is_constant(value: f64) -> bool {
    value.is_finite() && value > 0.0
}

/// Measured constants of the cost model on this machine.
///
/// A first guess that need only be right to a factor of a few: it makes the first calls sensible,
/// and what is learned from calls replaces it.
///
/// ```
/// use pointsman::{Backend, Calibration};
///
/// let calibration = Calibration::measure();
/// let scalar = calibration.backend(Backend::Scalar).unwrap();
/// assert!(scalar.predict_ns(1e9, 0.0, 0.0) > scalar.predict_ns(1e3, 0.0, 0.0));
/// assert_eq!(calibration.backend(Backend::Gpu(0)), None); // nothing was measured
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Calibration {
    clock_ns: f64,
    /// By name, so that a record may speak of a custom backend this process has not yet named.
    backends: BTreeMap<String, BackendCost>,
}

impl Calibration {
    /// Measures the clock and the host's backends, in about 0.1 s.
    ///
    /// `scalar` is three chains of multiply-adds, and three sums over memory. `simd` is what
    /// vectorised *safe* code reaches in this build, so with the vectors every CPU of the target
    /// has; kernels written for newer instructions may be faster. `threads` is the same on all
    /// cores; its launch is how long it takes until threads at rest, as in a pool, have each been
    /// woken and have answered a caller that is busy with its own share. A kernel that starts its
    /// threads anew pays about twice that. `threads` is absent if no thread can be started.
    pub fn measure() -> Self {
        measure::measure()
    }

    pub(super) fn new(clock_ns: f64) -> Self {
        Calibration {
            clock_ns,
            backends: BTreeMap::new(),
        }
    }

    /// What timing a call adds to it, in nanoseconds.
    pub fn clock_ns(&self) -> f64 {
        self.clock_ns
    }

    /// How fast this backend is; `None` if nobody measured it.
    pub fn backend(&self, backend: Backend) -> Option<BackendCost> {
        self.backends.get(&backend.to_string()).copied()
    }

    /// All backends with a cost, by name.
    pub fn backends(&self) -> impl Iterator<Item = (&str, BackendCost)> {
        self.backends
            .iter()
            .map(|(name, cost)| (name.as_str(), *cost))
    }

    /// Adds or replaces the cost of a backend, such as a GPU that was measured elsewhere.
    ///
    /// ```
    /// use pointsman::{Backend, Calibration};
    ///
    /// let mut calibration = Calibration::measure();
    /// let mut cost = calibration.backend(Backend::Simd).unwrap();
    /// cost.flops_per_s = f64::NAN;
    /// let error = calibration.set(Backend::Gpu(0), cost).unwrap_err();
    /// assert_eq!(
    ///     error.to_string(),
    ///     "backend gpu:0: flops_per_s is NaN; it must be positive and finite"
    /// );
    /// ```
    pub fn set(&mut self, backend: Backend, cost: BackendCost) -> Result<(), CalibrationError> {
        let name = backend.to_string();
        if let Some((what, value)) = cost.numbers().find(|(_, value)| !is_constant(*value)) {
            return Err(CalibrationError(format!(
                "backend {name}: {what} is {value}; it must be positive and finite"
            )));
        }
        if self.backends.len() >= MAX_BACKENDS && !self.backends.contains_key(&name) {
            return Err(CalibrationError(format!(
                "backend {name}: {MAX_BACKENDS} backends have a cost already, which is the most"
            )));
        }
        self.backends.insert(name, cost);
        Ok(())
    }

    /// The line that names the backends, and the numbers: the clock's, then three or four of each
    /// backend in that order.
    pub(super) fn encode(&self) -> (String, Vec<f64>) {
        let mut names = Vec::new();
        let mut numbers = vec![self.clock_ns];
        for (name, cost) in &self.backends {
            let mark = cost.transfer_bytes_per_s.map_or("", |_| TRANSFER);
            names.push(format!("{name}{mark}"));
            numbers.extend(cost.numbers().map(|(_, value)| value));
        }
        (format!("{NAMES}{}", names.join(" ")), numbers)
    }

    /// Round figures of an ordinary machine, for where nothing has been measured and nothing may be:
    /// the same in every process.
    pub fn nominal() -> Self {
        let mut calibration = Calibration::new(30.0);
        let host = [
            ("scalar", 2.0, 3e9, 1e10),
            ("simd", 2.0, 4e10, 1.5e10),
            ("threads", 2e4, 8e10, 3e10),
        ];
        for (name, launch_ns, flops_per_s, bytes_per_s) in host {
            let cost = BackendCost {
                launch_ns,
                flops_per_s,
                bytes_per_s,
                transfer_bytes_per_s: None,
            };
            calibration.backends.insert(name.into(), cost);
        }
        calibration
    }

    /// Reads what [`Machine::record`](super::Machine::record) wrote; `None` for anything else.
    pub fn from_record(record: &MachineRecord) -> Option<Self> {
        let numbers = &record.numbers;
        if record.text.len() > MAX_TEXT || numbers.len() > MAX_NUMBERS {
            return None;
        }
        if !numbers.iter().all(|value| is_constant(*value)) {
            return None;
        }
        let names = record.text.rsplit('\n').next()?.strip_prefix(NAMES)?;
        let mut numbers = numbers.iter().copied();
        let mut calibration = Calibration::new(numbers.next()?);
        for listed in names.split(' ') {
            let (name, cost) = decode_backend(listed, &mut numbers)?;
            let in_order = calibration
                .backends
                .last_key_value()
                .is_none_or(|(last, _)| **last < *name);
            if !in_order {
                return None; // also when a name comes twice
            }
            calibration.backends.insert(name.into(), cost);
        }
        let host = ["scalar", "simd"]
            .iter()
            .all(|name| calibration.backends.contains_key(*name));
        let whole = numbers.next().is_none() && calibration.backends.len() <= MAX_BACKENDS;
        (host && whole).then_some(calibration)
    }
}

fn decode_backend<'a>(
    listed: &'a str,
    numbers: &mut impl Iterator<Item = f64>,
) -> Option<(&'a str, BackendCost)> {
    let (name, own_memory) = match listed.strip_suffix(TRANSFER) {
        Some(name) => (name, true),
        None => (listed, false),
    };
    let cost = BackendCost {
        launch_ns: numbers.next()?,
        flops_per_s: numbers.next()?,
        bytes_per_s: numbers.next()?,
        transfer_bytes_per_s: if own_memory {
            Some(numbers.next()?)
        } else {
            None
        },
    };
    names_backend(name).then_some((name, cost))
}

/// Whether a backend may be called this. Asked without naming one: names live as long as the
/// process, and a hostile record could use them up.
fn names_backend(name: &str) -> bool {
    if name.contains(':') {
        return name
            .parse::<Backend>()
            .is_ok_and(|gpu| gpu.to_string() == name);
    }
    let valid = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.');
    (1..=32).contains(&name.len()) && name != "gpu" && name.bytes().all(valid)
}

/// A cost that cannot be one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CalibrationError(String);

impl fmt::Display for CalibrationError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for CalibrationError {}

#[cfg(test)]
mod tests {
    use super::super::Machine;
    use super::*;
    use proptest::prelude::*;

    const HOST: BackendCost = BackendCost {
        launch_ns: 2.0,
        flops_per_s: 3e9,
        bytes_per_s: 1e10,
        transfer_bytes_per_s: None,
    };

    const GPU: BackendCost = BackendCost {
        launch_ns: 2e4,
        flops_per_s: 1e13,
        bytes_per_s: 1e12,
        transfer_bytes_per_s: Some(1e10),
    };

    fn calibration() -> Calibration {
        let mut calibration = Calibration::new(27.0);
        for backend in [Backend::Scalar, Backend::Simd, Backend::Threads] {
            calibration.set(backend, HOST).unwrap();
        }
        calibration
    }

    #[test]
    fn costs_of_gpus_and_custom_backends_go_round() {
        let mut written = calibration();
        let numba = Backend::custom("numba").unwrap();
        written.set(Backend::Gpu(0), GPU).unwrap();
        written.set(Backend::Gpu(12), HOST).unwrap();
        written.set(numba, GPU).unwrap();
        let record = Machine::detect().record(&written);
        let read = Calibration::from_record(&record).unwrap();
        assert_eq!(read, written);
        assert_eq!(read.backend(Backend::Gpu(0)), Some(GPU));
        assert_eq!(read.backend(numba), Some(GPU));
        assert_eq!(read.backend(Backend::Gpu(1)), None);
        assert_eq!(read.backends().count(), 6);
    }

    #[test]
    fn a_record_may_speak_of_a_backend_that_was_never_named_here() {
        let mut record = Machine::detect().record(&calibration());
        record.text.push_str(" tpu-of-another-build");
        record.numbers.extend([1.0, 2.0, 3.0]);
        let read = Calibration::from_record(&record).unwrap();
        assert!(
            read.backends()
                .any(|(name, _)| name == "tpu-of-another-build")
        );
        assert!(
            "tpu-of-another-build".parse::<Backend>().is_err(),
            "it was named by reading"
        );
        let named = Backend::custom("tpu-of-another-build").unwrap();
        assert_eq!(read.backend(named).unwrap().bytes_per_s, 3.0);
    }

    #[test]
    fn f18_a_cost_that_is_no_number_is_refused_and_named() {
        let mut calibration = calibration();
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0, -1.0] {
            let with = [
                (
                    "launch_ns",
                    BackendCost {
                        launch_ns: bad,
                        ..GPU
                    },
                ),
                (
                    "flops_per_s",
                    BackendCost {
                        flops_per_s: bad,
                        ..GPU
                    },
                ),
                (
                    "bytes_per_s",
                    BackendCost {
                        bytes_per_s: bad,
                        ..GPU
                    },
                ),
                (
                    "transfer_bytes_per_s",
                    BackendCost {
                        transfer_bytes_per_s: Some(bad),
                        ..GPU
                    },
                ),
            ];
            for (what, cost) in with {
                let error = calibration
                    .set(Backend::Gpu(0), cost)
                    .unwrap_err()
                    .to_string();
                assert!(
                    error.contains(what) && error.contains(&bad.to_string()),
                    "{error}"
                );
            }
        }
        assert_eq!(calibration.backend(Backend::Gpu(0)), None);
    }

    #[test]
    fn p7_more_backends_than_a_record_holds_are_refused() {
        let mut calibration = calibration();
        let room = MAX_BACKENDS - calibration.backends().count();
        for n in 0..room {
            calibration.set(Backend::Gpu(n as u8), GPU).unwrap();
        }
        let error = calibration
            .set(Backend::Gpu(200), GPU)
            .unwrap_err()
            .to_string();
        assert!(error.contains("gpu:200") && error.contains("15"), "{error}");
        calibration.set(Backend::Gpu(0), HOST).unwrap();
        let record = Machine::detect().record(&calibration);
        assert!(record.numbers.len() <= MAX_NUMBERS);
        assert_eq!(Calibration::from_record(&record), Some(calibration));
    }

    #[test]
    fn f03_a_record_that_nobody_wrote_is_refused() {
        let good = Machine::detect().record(&calibration());
        assert!(Calibration::from_record(&good).is_some());
        let numbers: [fn(&mut Vec<f64>); 8] = [
            |n| n.clear(),
            |n| n.truncate(9),
            |n| n.push(1.0),
            |n| n.resize(65, 1.0),
            |n| n[3] = f64::NAN,
            |n| n[0] = 0.0,
            |n| n[9] = f64::INFINITY,
            |n| n[4] = -1.0,
        ];
        for (i, change) in numbers.iter().enumerate() {
            let mut bad = good.clone();
            change(&mut bad.numbers);
            assert_eq!(Calibration::from_record(&bad), None, "numbers {i}");
        }
        let long = format!("{}\n{}", "x".repeat(MAX_TEXT), good.text);
        for text in [
            "",
            "backends",
            "backends ",
            "backends scalar simd",
            "backends scalar simd threads\ncpu x",
            "backends scalar simd threads\n",
            "backends scalar simd threads\r",
            "backends simd scalar threads",
            "backends scalar scalar simd",
            "backends scalar simd threads ",
            "backends  scalar simd threads",
            "backends gpu scalar simd",
            "backends gpu:00 scalar simd",
            "backends gpu:256 scalar simd",
            "backends a/b scalar simd",
            "backends dsp scalar threads",
            "backends scalar simd+transfer threads",
            "Backends scalar simd threads",
            &long,
        ] {
            let bad = MachineRecord {
                text: text.into(),
                ..good.clone()
            };
            assert_eq!(Calibration::from_record(&bad), None, "{text:?}");
        }
    }

    #[test]
    fn work_and_transfer_are_predicted_by_the_constants() {
        assert_eq!(HOST.predict_ns(3e9, 0.0, 0.0), 1e9 + 2.0);
        assert_eq!(HOST.predict_ns(3e9, 2e10, 1e20), 2e9 + 2.0);
        assert_eq!(GPU.predict_ns(0.0, 0.0, 1e10), 1e9 + 2e4);
        assert_eq!(HOST.predict_ns(f64::NAN, -1.0, f64::NAN), 2.0);
        let broken = BackendCost {
            launch_ns: f64::NAN,
            flops_per_s: 0.0,
            bytes_per_s: f64::NAN,
            transfer_bytes_per_s: Some(-1.0),
        };
        assert_eq!(broken.predict_ns(0.0, 0.0, 1.0), 1.0);
        assert_eq!(broken.predict_ns(1.0, 1.0, 1.0), f64::MAX);
    }

    fn cost() -> impl Strategy<Value = BackendCost> {
        let number = || 1e-3..1e15f64;
        (number(), number(), number(), prop::option::of(number())).prop_map(
            |(launch_ns, flops_per_s, bytes_per_s, transfer_bytes_per_s)| BackendCost {
                launch_ns,
                flops_per_s,
                bytes_per_s,
                transfer_bytes_per_s,
            },
        )
    }

    proptest! {
        #[test]
        fn f40_any_amounts_and_any_constants_give_a_finite_positive_prediction(
            launch_ns: f64, flops_per_s: f64, bytes_per_s: f64,
            transfer_bytes_per_s: Option<f64>,
            amounts in prop::array::uniform3(prop::num::f64::ANY),
        ) {
            let any = BackendCost { launch_ns, flops_per_s, bytes_per_s, transfer_bytes_per_s };
            for cost in [any, HOST, GPU] {
                let ns = cost.predict_ns(amounts[0], amounts[1], amounts[2]);
                prop_assert!(ns.is_finite() && ns >= 1.0, "{cost:?} gives {ns}");
            }
        }

        #[test]
        fn more_work_is_never_predicted_faster_nor_a_faster_backend_slower(
            slow in cost(),
            gain in prop::array::uniform4(1.0..1e3f64),
            amounts in prop::array::uniform3(0.0..1e18f64),
            more in prop::array::uniform3(1.0..1e3f64),
        ) {
            let fast = BackendCost {
                launch_ns: slow.launch_ns / gain[0],
                flops_per_s: slow.flops_per_s * gain[1],
                bytes_per_s: slow.bytes_per_s * gain[2],
                transfer_bytes_per_s: slow.transfer_bytes_per_s.map(|rate| rate * gain[3]),
            };
            let [flops, bytes, transfer] = amounts;
            let ns = slow.predict_ns(flops, bytes, transfer);
            prop_assert!(fast.predict_ns(flops, bytes, transfer) <= ns);
            prop_assert!(
                slow.predict_ns(flops * more[0], bytes * more[1], transfer * more[2]) >= ns
            );
        }

        #[test]
        fn f03_exactly_the_records_that_we_write_are_read(
            names in prop::sample::subsequence(NAMED.to_vec(), 1..=NAMED.len()),
            own_memory: [bool; NAMED.len()],
            numbers in prop::collection::vec(prop::num::f64::POSITIVE, 1 + 4 * NAMED.len()),
            surplus in -1..=1_i8,
        ) {
            let mark = |own: &bool| if *own { TRANSFER } else { "" };
            let listed: Vec<String> =
                names.iter().zip(&own_memory).map(|(name, own)| format!("{name}{}", mark(own))).collect();
            let transfers = own_memory.iter().take(names.len()).filter(|own| **own).count();
            let fitting = 1 + 3 * names.len() + transfers;
            let given = fitting.saturating_add_signed(surplus.into()).min(numbers.len());
            let record = MachineRecord {
                fingerprint: 1,
                text: format!("cpu x\n{NAMES}{}", listed.join(" ")),
                numbers: numbers[..given].to_vec(),
            };
            let ours = names.contains(&"scalar") && names.contains(&"simd")
                && given == fitting && numbers[..given].iter().all(|n| is_constant(*n));
            let read = Calibration::from_record(&record);
            prop_assert_eq!(read.is_some(), ours);
            if let Some(calibration) = read {
                let (names, numbers) = calibration.encode();
                prop_assert!(record.text.ends_with(&names));
                prop_assert_eq!(numbers, record.numbers);
            }
        }

        #[test]
        fn f03_any_text_and_numbers_are_read_without_panic(
            text in "(backends )?[ -~\n]{0,40}",
            numbers in prop::collection::vec(prop::num::f64::ANY, 0..70),
        ) {
            Calibration::from_record(&MachineRecord { fingerprint: 1, text, numbers });
        }
    }

    const NAMED: [&str; 6] = ["dsp", "gpu:0", "gpu:10", "scalar", "simd", "threads"];
}
