//! What becomes of our threads when the process forks.
//!
//! A forked child has the memory of its parent but only the thread that called `fork`: a lock that
//! another thread held stays locked for ever, and what waited to be saved would be saved twice.
//! Languages that fork, such as Python, tell us with [`before`], [`in_parent`] and [`in_child`]. A
//! Rust program that forks without `exec` calls them itself.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use crate::selector::Shared;

/// How long a fork waits for work on the store that is under way: what a busy disk takes.
const PATIENCE: Duration = Duration::from_secs(2);

/// Threads of ours that hold locks or work on a store now.
static BUSY: AtomicUsize = AtomicUsize::new(0);
static FORKING: AtomicBool = AtomicBool::new(false);

/// Every selector of the process.
static ALL: Mutex<Vec<Weak<Shared>>> = Mutex::new(Vec::new());

/// Marks work that must not be cut in two by a fork, until it is dropped.
pub(crate) struct Busy(());

impl Drop for Busy {
    fn drop(&mut self) {
        BUSY.fetch_sub(1, SeqCst);
    }
}

/// Waits for a fork that is under way, and then keeps others waiting. Not to be called by a thread
/// that is busy already.
pub(crate) fn busy() -> Busy {
    loop {
        BUSY.fetch_add(1, SeqCst);
        if !FORKING.load(SeqCst) {
            return Busy(());
        }
        BUSY.fetch_sub(1, SeqCst);
        std::thread::sleep(Duration::from_micros(50));
    }
}

pub(crate) fn register(shared: Weak<Shared>) {
    let mut all = ALL.lock().unwrap_or_else(|e| e.into_inner());
    all.retain(|known| known.strong_count() > 0);
    all.push(shared);
}

/// Every selector that is alive.
pub(crate) fn all() -> Vec<Arc<Shared>> {
    let all = ALL.lock().unwrap_or_else(|e| e.into_inner());
    all.iter().filter_map(Weak::upgrade).collect()
}

/// To be called right before a fork, by the thread that forks: waits until no thread of ours works on
/// a store, for two seconds at most. No other thread may be inside a call of an op, or learn, when
/// the fork happens.
pub fn before() {
    FORKING.store(true, SeqCst);
    let start = Instant::now();
    while BUSY.load(SeqCst) > 0 && start.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_micros(50));
    }
}

/// To be called in the parent after the fork, whether it succeeded or not.
pub fn in_parent() {
    FORKING.store(false, SeqCst);
}

/// To be called in the child. Its selectors go on with what was known, and save what they learn
/// from now on; what their parent has learned is their parent's to save. Where the fork cut work on
/// the store in two, the child keeps what it learns in memory.
pub fn in_child() {
    BUSY.store(0, SeqCst);
    FORKING.store(false, SeqCst);
    // A selector that was made in that very moment by another thread is not the child's to use.
    let Ok(all) = ALL.try_lock() else {
        return;
    };
    for shared in all.iter().filter_map(Weak::upgrade) {
        shared.forked();
    }
}
