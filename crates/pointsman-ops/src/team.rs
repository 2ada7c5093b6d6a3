//! Work shared out to threads that live for one call.

use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::Mutex;
use std::thread;

/// Elements below which no thread is worth starting. A start takes 22 µs here, in which one thread
/// streams 26 GB/s · 22 µs = 570 kB: a dot of 71,000 elements.
pub(crate) const WORTH_A_THREAD: usize = 65_536;

/// Elements per thread, for as many threads as there are cores.
pub(crate) fn share(len: usize) -> usize {
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    len.div_ceil(cores).max(1)
}

/// Runs all jobs, the first on this thread and each of the others on one of its own; their results
/// in order. A job whose thread has not begun when this one is free runs here, also one whose
/// thread could not be started.
pub(crate) fn run<J: Send, R: Send>(jobs: Vec<J>, work: impl Fn(J) -> R + Sync) -> Vec<R> {
    let slots: Vec<Mutex<Option<J>>> = jobs.into_iter().map(|j| Mutex::new(Some(j))).collect();
    let do_job = |at: usize| {
        let job = slots[at].lock().unwrap_or_else(|e| e.into_inner()).take();
        job.map(&work)
    };
    let do_job = &do_job;
    thread::scope(|scope| {
        let start = |at: usize| {
            let thread = thread::Builder::new().spawn_scoped(scope, move || do_job(at));
            (at, thread.ok())
        };
        let others: Vec<_> = (1..slots.len()).map(start).collect();
        let first = (!slots.is_empty()).then(|| do_job(0)).flatten();
        let rest = others.into_iter().map(|(at, thread)| {
            let here = do_job(at);
            // A panic of the work goes on as if it had happened on this thread.
            let there = thread.map(|t| t.join().unwrap_or_else(|panic| resume_unwind(panic)));
            here.or(there.flatten())
        });
        [first].into_iter().chain(rest).flatten().collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_job_is_done_once_and_results_keep_their_order() {
        for jobs in [0, 1, 2, 7] {
            let squares = run((0..jobs).collect(), |j: usize| j * j);
            assert_eq!(squares, (0..jobs).map(|j| j * j).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_panic_in_a_job_reaches_the_caller() {
        let caught = std::panic::catch_unwind(|| run(vec![0, 1, 2], |j| assert!(j < 2)));
        assert!(caught.is_err());
    }

    #[test]
    fn shares_cover_everything() {
        for len in [0, 1, 2, 3, 1000, 1001] {
            assert!(share(len) >= 1 && share(len) * 1024 >= len);
            assert!(len == 0 || share(len) <= len);
        }
    }
}
