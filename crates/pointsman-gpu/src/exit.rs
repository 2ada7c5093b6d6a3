//! The end of the process. It takes the driver's own objects down, and a compiler that is still at work in the
//! background then crashes: seen in one of four runs of a short program on a busy machine. So the end waits for it.
//!
//! There are two places to wait in, and each misses something. What threads keep for themselves is dropped before
//! anything else, but only of the thread that ends the process. What was asked for with `atexit` comes
//! before what the driver had asked for by then, but not before what it asked for in the first compilation of all.

use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

/// The longest that the end of the process waits. Most kernels are compiled in a tenth of this.
const PATIENCE: Duration = Duration::from_secs(5);

struct Work {
    under_way: usize,
    ends: bool,
}

static WORK: Mutex<Work> = Mutex::new(Work {
    under_way: 0,
    ends: false,
});
static DONE: Condvar = Condvar::new();

fn work() -> MutexGuard<'static, Work> {
    WORK.lock().unwrap_or_else(|e| e.into_inner())
}

/// Work with a driver in the background, until it is dropped.
pub(crate) struct UnderWay(());

impl UnderWay {
    /// `None` when the process is about to end.
    pub(crate) fn begin() -> Option<Self> {
        let mut work = work();
        if work.ends {
            return None;
        }
        if work.under_way == 0 {
            // Again each time: what was asked for last comes first.
            // SAFETY: `wait` takes no arguments, cannot unwind (it neither panics nor calls anything that
            // does), and touches statics only, which live until the process is gone. If there is no room for
            // it, the process ends as it would without it.
            unsafe { libc::atexit(wait) };
        }
        work.under_way += 1;
        Some(UnderWay(()))
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

/// Has the end of the process wait, if this thread will be the one that ends it.
pub(crate) fn watch() {
    thread_local! {
        // Not `then_some`, which makes one and drops it.
        static END: Option<End> = (std::thread::current().name() == Some("main")).then(|| End);
    }
    // A thread that is about to end has nothing to watch any more.
    let _ = END.try_with(|_| ());
}

/// Lets nothing more begin, and waits for what has begun.
extern "C" fn wait() {
    let mut work = work();
    work.ends = true;
    drop(DONE.wait_timeout_while(work, PATIENCE, |work| work.under_way > 0));
}
