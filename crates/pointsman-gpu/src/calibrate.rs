//! How fast a GPU is: the constants of its cost model.

use std::time::{Duration, Instant};

use pointsman::BackendCost;
use serde::Serialize;

use crate::device::Gpu;
use crate::error::Error;
use crate::kernel::Kernel;

/// Rounds of multiply-adds over an array: with few of them memory is the limit, with many arithmetic.
static CHURN: Kernel = Kernel::new("churn", include_str!("churn.wgsl"), 1);

/// When no further repetition is begun: all of it shall take less than a second.
const DEADLINE: Duration = Duration::from_millis(600);

/// Elements of the array that is worked on: 4 MiB.
const ELEMENTS: usize = 1 << 20;

/// Invocations of a workgroup, and flops of a round of an invocation: see the kernel.
const GROUP: usize = 64;
const FLOPS: f64 = 16.0;

/// Rounds at most: a fast device reaches a measurable time before.
const MOST_ROUNDS: u32 = 1 << 16;

/// Times below this say more about the launch than about the work.
const TELLING: Duration = Duration::from_millis(20);

/// Repetitions of what is short.
const REPEATS: usize = 15;

/// What was measured of a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Measured {
    /// What a call takes that does nothing, in nanoseconds.
    pub launch_ns: f64,
    /// Floating-point operations a second.
    pub flops_per_s: f64,
    /// Bytes a second between its cores and its memory.
    pub bytes_per_s: f64,
    /// Bytes a second from the host to it.
    pub upload_bytes_per_s: f64,
    /// Bytes a second from it to the host.
    pub download_bytes_per_s: f64,
}

impl From<Measured> for BackendCost {
    /// As much comes back as was brought: the rate of transfers is the mean of both.
    fn from(measured: Measured) -> Self {
        let (up, down) = (measured.upload_bytes_per_s, measured.download_bytes_per_s);
        BackendCost {
            launch_ns: measured.launch_ns,
            flops_per_s: measured.flops_per_s,
            bytes_per_s: measured.bytes_per_s,
            transfer_bytes_per_s: Some(2.0 / (1.0 / up + 1.0 / down)),
        }
    }
}

impl Gpu {
    /// Measures launch, transfers, memory and arithmetic, in less than a second; compiling the
    /// kernel that it takes is not counted.
    pub fn calibrate(&self) -> Result<Measured, Error> {
        self.prepared(&CHURN).prepare()?;
        let start = Instant::now();
        let late = || start.elapsed() > DEADLINE;
        let mut data = vec![1.0f32; ELEMENTS];
        let bytes = size_of_val(&data[..]) as f64;
        self.run(|job| {
            let held = job.upload(&data)?;
            job.finish()?;
            let launch = best(REPEATS, late, || {
                job.dispatch(&CHURN, &[&held], &[0; 4], [1, 1, 1])?;
                job.finish()
            })?;
            let upload = best(3, late, || {
                job.upload(&data)?;
                job.finish()
            })?;
            let download = best(3, late, || job.download(&held, &mut data))?;
            let groups = [(ELEMENTS / GROUP) as u32, 1, 1];
            let mut churn = |rounds: u32| {
                best(1, late, || {
                    let params = [ELEMENTS as u32, rounds, 0, 0];
                    job.dispatch(&CHURN, &[&held], &params, groups)?;
                    job.finish()
                })
            };
            let once = churn(1)?;
            // What further rounds take is arithmetic alone.
            let (mut rounds, mut took) = (4, churn(4)?);
            while took < once + TELLING && rounds < MOST_ROUNDS && !late() {
                rounds *= 4;
                took = churn(rounds)?;
            }
            let seconds = |took: Duration| took.saturating_sub(launch).as_secs_f64().max(1e-9);
            let flops = ELEMENTS as f64 * FLOPS * f64::from(rounds - 1);
            let arithmetic = took.saturating_sub(once).as_secs_f64().max(1e-9);
            Ok(Measured {
                launch_ns: launch.as_nanos().max(1) as f64,
                flops_per_s: flops / arithmetic,
                bytes_per_s: 2.0 * bytes / seconds(once),
                upload_bytes_per_s: bytes / seconds(upload),
                download_bytes_per_s: bytes / seconds(download),
            })
        })
    }
}

/// The shortest of several runs, after one that does not count.
fn best(
    runs: usize,
    late: impl Fn() -> bool,
    mut run: impl FnMut() -> Result<(), Error>,
) -> Result<Duration, Error> {
    let mut timed = || {
        let start = Instant::now();
        run().map(|()| start.elapsed())
    };
    let mut best = timed()?;
    for _ in 0..runs {
        if late() {
            break;
        }
        best = best.min(timed()?);
    }
    Ok(best)
}
