//! Measures the constants of the cost model, with short pieces of real work.
//!
//! Other programs can only make a piece of work slower, so rates come from the fastest of many
//! short runs. Launches come from the fastest tenth: the very fastest is luck, and the lower
//! quartile already follows whoever else uses the cores (27 to 150 µs on a busy machine where the
//! tenth stayed within 20 and 40). Every measurement has a time budget instead of a number of
//! rounds, so that slow machines and unoptimised builds are done in time too.

use std::hint::black_box;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::{self, Scope};
use std::time::{Duration, Instant};

use super::{BackendCost, Calibration, Machine};
use crate::backend::Backend;
use crate::clock::{Clock, SystemClock, clock_cost_ns};

/// Time for one constant; the eight that are measured make up the 0.1 s. On a 2-core cloud machine
/// twenty calibrations then agreed within 4 % in arithmetic on one core, within 45 % in reads on
/// one core, and within a factor of 2.3 in what all cores do together, which the host decides.
const BUDGET: Duration = Duration::from_millis(10);

/// Runs behind one constant at least, however late it is: one that was interrupted, perhaps after a
/// single repetition, says nothing, and a rate that is off by a thousand would be kept in the store.
const LEAST_RUNS: u32 = 3;

/// Shortest run that counts, ten thousand times the cost of the clock.
const RUN: Duration = Duration::from_micros(300);

/// Shortest run on all cores, so that the launch inside it is small.
const TEAM_RUN: Duration = Duration::from_millis(1);

/// Launches behind their fastest tenth at least.
const LEAST_LAUNCHES: usize = 10;

/// How long threads rest between launches: long enough that they have stopped spinning and sleep.
const REST: Duration = Duration::from_micros(100);

/// How long the caller watches for the others before it sleeps. A caller that sleeps at once frees
/// its own core for the helper, and what is measured then is not another core waking up: 12 µs in
/// some runs and 90 in others, where watching gives 20 to 40.
const WATCH: Duration = Duration::from_micros(200);

/// Most threads that are started, whatever the machine has.
const MAX_THREADS: usize = 256;

/// Chains of scalar arithmetic. So few are bound by the latency of their operations, as plain code
/// is, and no faster when the compiler packs them: three fill no vector, and LLVM, which pairs
/// two of them, gets the same one flop per cycle.
const SCALAR: usize = 3;

/// Chains of vector arithmetic: twelve 128-bit registers, which with the two operands fit the
/// sixteen of x86-64 and cover the latency of a multiply-add.
const VECTOR: usize = 48;

/// Steps of all chains in one repetition.
const STEPS: usize = 128;

/// Floats in one repetition of a read: 64 KiB.
const SEGMENT: usize = 16 * 1024;

pub(super) fn measure() -> Calibration {
    let machine = Machine::detect();
    let buffer = buffer(&machine);
    // Zero is a clock too coarse to tell; constants are positive.
    let clock_ns = clock_cost_ns(&SystemClock).max(1) as f64;
    let mut calibration = Calibration::new(clock_ns);
    let call_ns = call_ns();
    let scalar = host_cost::<SCALAR>(call_ns, &buffer);
    let simd = host_cost::<VECTOR>(call_ns, &buffer);
    let threads = threads_cost(machine.cores, &buffer);
    let measured = [
        (Backend::Scalar, Some(scalar)),
        (Backend::Simd, Some(simd)),
        (Backend::Threads, threads),
    ];
    for (backend, cost) in measured {
        if let Some(cost) = cost {
            let set = calibration.set(backend, cost);
            debug_assert_eq!(set, Ok(()), "`cost` keeps to what `set` demands");
        }
    }
    calibration
}

/// Memory to stream: larger than the second-level cache and if possible than the third, but not
/// so large that getting it from the system takes longer than the measurement.
fn buffer(machine: &Machine) -> Vec<f32> {
    let cache = machine.l3_bytes.or(machine.l2_bytes).unwrap_or(0);
    let bytes = cache.saturating_mul(2).clamp(8 << 20, 32 << 20) as usize;
    let mut buffer = vec![0.0; bytes / size_of::<f32>()];
    // Untouched pages are all the same page of zeros, which sits in the cache.
    buffer
        .iter_mut()
        .step_by(1024)
        .for_each(|float| *float = 1.0);
    black_box(buffer)
}

/// A cost from nanoseconds per repetition; all its constants are positive and finite.
fn cost(
    launch_ns: f64,
    lanes: usize,
    threads: usize,
    arithmetic_ns: f64,
    read_ns: f64,
) -> BackendCost {
    let sane = |value: f64| value.clamp(1e-3, 1e18);
    let flops = (2 * lanes * STEPS * threads) as f64;
    let bytes = (size_of::<f32>() * SEGMENT * threads) as f64;
    BackendCost {
        launch_ns: sane(launch_ns),
        flops_per_s: sane(flops / arithmetic_ns * 1e9),
        bytes_per_s: sane(bytes / read_ns * 1e9),
        transfer_bytes_per_s: None,
    }
}

/// One core, with this many chains of arithmetic.
fn host_cost<const LANES: usize>(call_ns: f64, buffer: &[f32]) -> BackendCost {
    let mut reader = Reader { buffer, at: 0 };
    let arithmetic_ns = best_ns(RUN, multiply_add::<LANES>);
    let read_ns = best_ns(RUN, |repeat| reader.read::<LANES>(repeat));
    cost(call_ns, LANES, 1, arithmetic_ns, read_ns)
}

/// All cores, each with the vector work; `None` if no thread can be started.
fn threads_cost(cores: usize, buffer: &[f32]) -> Option<BackendCost> {
    thread::scope(|scope| {
        // On one core a second thread still tells what a launch costs.
        let mut team = Team::start(scope, cores.clamp(2, MAX_THREADS), buffer)?;
        let launch_ns = launch_ns(&mut team);
        let arithmetic_ns = best_ns(TEAM_RUN, |repeat| team.run(Task::MultiplyAdd(repeat)));
        let read_ns = best_ns(TEAM_RUN, |repeat| team.run(Task::Read(repeat)));
        Some(cost(launch_ns, VECTOR, team.size(), arithmetic_ns, read_ns))
    })
}

/// Nanoseconds per repetition in the fastest of the runs that fit the budget.
fn best_ns(shortest: Duration, work: impl FnMut(u64)) -> f64 {
    best_ns_by(&SystemClock, shortest, work)
}

fn best_ns_by(clock: &dyn Clock, shortest: Duration, mut work: impl FnMut(u64)) -> f64 {
    let ns = |duration: Duration| duration.as_nanos() as u64;
    let begin = clock.now_ns();
    let mut repeat = 1;
    let mut best = f64::INFINITY;
    let mut runs = 0;
    loop {
        let start = clock.now_ns();
        work(repeat);
        let end = clock.now_ns();
        let took = end.saturating_sub(start);
        // The upper limit is for a clock that stands still.
        if took < ns(shortest) && repeat < 1 << 32 {
            repeat *= 2;
            continue;
        }
        best = best.min(took as f64 / repeat as f64);
        runs += 1;
        let late = end.saturating_sub(begin) >= ns(BUDGET) && runs >= LEAST_RUNS;
        if late || took == 0 {
            return best;
        }
    }
}

/// What a call through a pointer takes, as each variant is called.
fn call_ns() -> f64 {
    let call: &dyn Fn(u64) -> u64 = &|x| x ^ 1;
    best_ns(RUN, |repeat| {
        for x in 0..repeat {
            black_box(black_box(call)(x));
        }
    })
}

/// What waking a resting team, giving each of its threads nothing to do and waiting for all takes.
fn launch_ns(team: &mut Team) -> f64 {
    let begin = Instant::now();
    let mut launches = Vec::new();
    while begin.elapsed() < BUDGET || launches.len() < LEAST_LAUNCHES {
        let resting = Instant::now();
        while resting.elapsed() < REST {
            std::hint::spin_loop();
        }
        let start = Instant::now();
        team.run(Task::Nothing);
        launches.push(start.elapsed().as_nanos() as f64);
    }
    launches.sort_unstable_by(f64::total_cmp);
    launches[launches.len() / 10]
}

/// Independent chains of multiplications and additions.
#[inline(never)]
fn multiply_add<const LANES: usize>(repeat: u64) {
    // The values tend to 1, far from overflow and from the slow numbers near 0.
    let (factor, summand) = black_box((0.75_f32, 0.25_f32));
    let mut values = black_box([2.0_f32; LANES]);
    for _ in 0..repeat {
        for _ in 0..STEPS {
            for value in &mut values {
                *value = *value * factor + summand;
            }
        }
    }
    black_box(values);
}

/// Reads a buffer piece after piece, round and round.
struct Reader<'a> {
    buffer: &'a [f32],
    at: usize,
}

impl Reader<'_> {
    #[inline(never)]
    fn read<const LANES: usize>(&mut self, repeat: u64) {
        for _ in 0..repeat {
            if self.at + SEGMENT > self.buffer.len() {
                self.at = 0;
            }
            let mut sums = [0.0_f32; LANES];
            for piece in self.buffer[self.at..self.at + SEGMENT].chunks_exact(LANES) {
                for (sum, value) in sums.iter_mut().zip(piece) {
                    *sum += value;
                }
            }
            black_box(sums);
            self.at += SEGMENT;
        }
    }
}

#[derive(Clone, Copy)]
enum Task {
    Nothing,
    MultiplyAdd(u64),
    Read(u64),
}

impl Task {
    fn run(self, reader: &mut Reader) {
        match self {
            Task::Nothing => {}
            Task::MultiplyAdd(repeat) => multiply_add::<VECTOR>(repeat),
            Task::Read(repeat) => reader.read::<VECTOR>(repeat),
        }
    }
}

/// The caller and helper threads that do the same task at the same time. The helpers end when it
/// is dropped.
struct Team<'a> {
    helpers: Vec<Sender<Task>>,
    done: Receiver<()>,
    own: Reader<'a>,
}

impl<'a> Team<'a> {
    /// As many of the threads as the system grants; `None` if that is the caller alone.
    fn start<'s>(scope: &'s Scope<'s, 'a>, threads: usize, buffer: &'a [f32]) -> Option<Self> {
        let (done_sender, done) = mpsc::channel();
        let mut helpers = Vec::new();
        for n in 1..threads {
            let (helper, tasks) = mpsc::channel::<Task>();
            let done = done_sender.clone();
            // Each begins elsewhere, so that none finds in the cache what another just read.
            let at = buffer.len() / threads * n;
            let mut reader = Reader { buffer, at };
            let work = move || {
                while let Ok(task) = tasks.recv() {
                    task.run(&mut reader);
                    if done.send(()).is_err() {
                        return;
                    }
                }
            };
            if thread::Builder::new().spawn_scoped(scope, work).is_err() {
                break;
            }
            helpers.push(helper);
        }
        let own = Reader { buffer, at: 0 };
        (!helpers.is_empty()).then_some(Team { helpers, done, own })
    }

    fn size(&self) -> usize {
        self.helpers.len() + 1
    }

    fn run(&mut self, task: Task) {
        let given = self
            .helpers
            .iter()
            .filter(|helper| helper.send(task).is_ok())
            .count();
        task.run(&mut self.own);
        let begin = Instant::now();
        let mut missing = given;
        while missing > 0 {
            let watching = begin.elapsed() < WATCH;
            if self.done.try_recv().is_ok() {
                missing -= 1;
            } else if watching {
                std::hint::spin_loop();
            } else if self.done.recv().is_ok() {
                missing -= 1;
            } else {
                return; // all helpers are gone
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::FakeClock;

    #[test]
    fn an_interruption_of_the_first_run_is_not_a_rate() {
        let clock = FakeClock::new();
        let mut calls = 0;
        let ns = best_ns_by(&clock, RUN, |repeat| {
            calls += 1;
            let interrupted = if calls == 1 {
                4 * BUDGET
            } else {
                Duration::ZERO
            };
            clock.advance(interrupted + Duration::from_nanos(100 * repeat));
        });
        assert_eq!(ns, 100.0);
    }

    #[test]
    fn a_calibration_is_physically_possible() {
        let start = Instant::now();
        let calibration = measure();
        let took = start.elapsed();
        // A bound that catches a hang, not a busy machine.
        assert!(took < Duration::from_secs(5), "{took:?}");
        assert!((1.0..1e6).contains(&calibration.clock_ns()));
        for backend in [Backend::Scalar, Backend::Simd, Backend::Threads] {
            let cost = calibration.backend(backend).unwrap();
            assert!(
                (1e7..1e13).contains(&cost.flops_per_s),
                "{backend}: {cost:?}"
            );
            assert!(
                (1e7..1e13).contains(&cost.bytes_per_s),
                "{backend}: {cost:?}"
            );
            assert!((1e-3..1e9).contains(&cost.launch_ns), "{backend}: {cost:?}");
            assert_eq!(cost.transfer_bytes_per_s, None);
        }
        #[allow(clippy::print_stdout)] // for the record: `cargo test -- --nocapture`
        {
            println!("{took:?} {calibration:#?}");
        }
    }

    #[test]
    fn what_is_measured_is_work_that_the_compiler_kept() {
        let time = |repeat| {
            let start = Instant::now();
            multiply_add::<SCALAR>(repeat);
            start.elapsed()
        };
        // The best of ten small ones against one a thousand times as large: no scheduler turns
        // that round, only a compiler that removes the work.
        let few = (0..10).map(|_| time(50)).min().unwrap();
        let many = time(50_000);
        assert!(
            many > few,
            "{many:?} for a thousand times the work of {few:?}"
        );
    }

    #[test]
    fn a_launch_of_threads_is_dearer_than_a_call() {
        let calibration = measure();
        let launch = |backend| calibration.backend(backend).unwrap().launch_ns;
        assert!(launch(Backend::Threads) > launch(Backend::Scalar));
    }

    #[test]
    fn a_reader_stays_inside_its_buffer_and_a_team_ends() {
        let buffer = vec![1.0; SEGMENT * 2 + 1];
        let mut reader = Reader {
            buffer: &buffer,
            at: SEGMENT + 2,
        };
        reader.read::<VECTOR>(7);
        reader.read::<SCALAR>(1);
        assert!(reader.at <= buffer.len());
        let size = thread::scope(|scope| {
            let mut team = Team::start(scope, 3, &buffer).unwrap();
            team.run(Task::Read(2));
            team.run(Task::MultiplyAdd(2));
            team.size()
        });
        assert_eq!(size, 3);
    }
}
