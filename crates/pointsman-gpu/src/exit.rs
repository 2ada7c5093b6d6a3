//! The end of the process. It takes the driver's own objects down, and a compiler that is still at work in the
//! background then crashes: seen in one of four runs of a short program on a busy machine. So the end waits for it.
//!
//! There are two places to wait in, and each misses something. What threads keep for themselves is dropped before
//! anything else, but only of the thread that ends the process: by its name, the main thread of a Rust program. What was
//! asked for with `atexit` comes before what the driver had asked for by then, but not before what it asked for in the first
//! compilation of all, which stays unprotected where another thread ends the process, or where Rust does not own it.

use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// The longest that the end of the process waits in all. Most kernels are compiled in a tenth of this.
const PATIENCE: Duration = Duration::from_secs(5);

struct Work {
    under_way: usize,
    /// Until when the end of the process waits; nothing more begins then.
    ends: Option<Instant>,
}

static WORK: Mutex<Work> = Mutex::new(Work {
    under_way: 0,
    ends: None,
});
static DONE: Condvar = Condvar::new();

/// The process whose work it is: a forked child has neither the threads nor, perhaps, the lock.
static PROCESS: AtomicU32 = AtomicU32::new(0);

fn work() -> MutexGuard<'static, Work> {
    WORK.lock().unwrap_or_else(|e| e.into_inner())
}

/// Work with a driver in the background, until it is dropped.
pub(crate) struct UnderWay(());

impl UnderWay {
    /// `None` when the process is about to end.
    pub(crate) fn begin() -> Option<Self> {
        let first = {
            let mut work = work();
            if work.ends.is_some() {
                return None;
            }
            work.under_way += 1;
            work.under_way == 1
        };
        if first {
            // Again each time: what was asked for last comes first. Not under our lock, because handlers take it.
            // SAFETY: `wait` takes no arguments, does not unwind (nothing it calls panics), and touches nothing but
            // statics, which are there for as long as its code is: C libraries run the handlers of a library
            // before they unload it. If there is no room for it, the process ends as it would without it.
            unsafe { libc::atexit(wait) };
        }
        Some(UnderWay(()))
    }

    /// Whether there is time for more.
    pub(crate) fn goes_on(&self) -> bool {
        work().ends.is_none()
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        work().under_way -= 1;
        DONE.notify_all();
    }
}

/// Waits when it is dropped, with the main thread.
struct End;

impl Drop for End {
    fn drop(&mut self) {
        wait();
    }
}

/// To be called before work is given to another thread: has the end of the process wait, if this thread will be the one that
/// ends it.
pub(crate) fn watch() {
    PROCESS.store(std::process::id(), SeqCst);
    thread_local! {
        // Not `then_some`, which makes one and drops it.
        static END: Option<End> = (std::thread::current().name() == Some("main")).then(|| End);
    }
    // A thread that is about to end has nothing to watch any more.
    let _ = END.try_with(|_| ());
}

/// Lets nothing more begin, and waits for what has begun.
extern "C" fn wait() {
    if PROCESS.load(SeqCst) != std::process::id() {
        return;
    }
    let mut work = work();
    let until = *work.ends.get_or_insert_with(|| Instant::now() + PATIENCE);
    let left = until.saturating_duration_since(Instant::now());
    drop(DONE.wait_timeout_while(work, left, |work| work.under_way > 0));
}
