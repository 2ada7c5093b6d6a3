//! Keeps the store up to date, off the path of every call.
//!
//! One thread per selector works on the store, from the first thing worth saving on. Changes that
//! cannot be written wait there and are tried again; calls never notice.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::{Duration, Instant};

use crate::fork;
use crate::selector::Shared;
use crate::store::{Entry, Knowledge, Store, StoreError};

/// Changes that wait for a store that cannot be written; older ones are dropped beyond this.
const MAX_WAITING: usize = 65_536;

/// Requests that may wait; more are refused, because the store is stuck.
const MAX_REQUESTS: usize = 16;

/// Something to do with the store, on its thread.
type Request = Box<dyn FnOnce(&mut Keeper) + Send>;

/// Changes on their way to the store: nothing is lost if a request is refused.
type Outbox = Arc<Mutex<Knowledge>>;

/// The store and what could not be written to it yet.
pub(crate) struct Keeper {
    pub(crate) store: Box<dyn Store>,
    outbox: Outbox,
    waiting: Knowledge,
    warned: bool,
}

impl Keeper {
    /// Forgets one op, or everything: in the store, and in what is on its way there.
    pub(crate) fn forget(&mut self, op: Option<&str>) -> Result<(), StoreError> {
        let stays = |e: &Entry| op.is_some_and(|op| *e.op != *op);
        self.waiting.entries.retain(stays);
        let mut outbox = self.outbox.lock().unwrap_or_else(|e| e.into_inner());
        outbox.entries.retain(stays);
        drop(outbox);
        self.store.forget(op)
    }

    /// Merges what is in the outbox, together with what is still waiting.
    pub(crate) fn merge(&mut self) -> Result<(), StoreError> {
        let change = std::mem::take(&mut *self.outbox.lock().unwrap_or_else(|e| e.into_inner()));
        self.waiting.entries.extend(change.entries);
        self.waiting.machines.extend(change.machines);
        let surplus = self.waiting.entries.len().saturating_sub(MAX_WAITING);
        self.waiting.entries.drain(..surplus);
        if self.waiting.entries.is_empty() && self.waiting.machines.is_empty() {
            return Ok(());
        }
        let result = self.store.merge(&self.waiting);
        match &result {
            Ok(()) => {
                self.waiting = Knowledge::default();
                self.warned = false;
            }
            Err(error) => {
                // What is invalid today is invalid tomorrow: trying again would block all else.
                if matches!(error, StoreError::Invalid { .. }) {
                    self.waiting = Knowledge::default();
                }
                if !std::mem::replace(&mut self.warned, true) {
                    tracing::warn!(%error, store = self.store.describe(), "cannot save");
                }
            }
        }
        result
    }
}

/// Hands work to the store's thread.
pub(crate) struct Saver {
    /// Worked on by the store's thread only; shared with it because threads do not survive a fork.
    keeper: Arc<Mutex<Keeper>>,
    outbox: Outbox,
    requests: Mutex<Option<SyncSender<Request>>>,
    started: AtomicBool,
    interval: Duration,
}

/// Why a request to the store was not carried out.
#[derive(Debug)]
#[non_exhaustive]
pub enum FlushError {
    /// The store did not answer in time, or there is no thread for it. What was to be saved waits
    /// for the next save.
    Deadline,
    /// The store refused.
    Store(StoreError),
}

impl std::fmt::Display for FlushError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            FlushError::Deadline => {
                f.write_str("the store did not answer before the deadline; a longer one may do")
            }
            FlushError::Store(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for FlushError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            FlushError::Deadline => None,
            FlushError::Store(error) => Some(error),
        }
    }
}

impl Saver {
    pub(crate) fn new(store: Box<dyn Store>, interval: Duration) -> Self {
        let outbox = Outbox::default();
        let keeper = Keeper {
            store,
            outbox: outbox.clone(),
            waiting: Knowledge::default(),
            warned: false,
        };
        Saver {
            keeper: Arc::new(Mutex::new(keeper)),
            outbox,
            requests: Mutex::new(None),
            started: AtomicBool::new(false),
            interval,
        }
    }

    /// Adds a change to what the next save takes.
    pub(crate) fn add(&self, change: Knowledge) {
        let mut outbox = self.outbox.lock().unwrap_or_else(|e| e.into_inner());
        outbox.entries.extend(change.entries);
        outbox.machines.extend(change.machines);
        let surplus = outbox.entries.len().saturating_sub(MAX_WAITING);
        outbox.entries.drain(..surplus);
    }

    fn requests(&self) -> MutexGuard<'_, Option<SyncSender<Request>>> {
        self.requests.lock().unwrap_or_else(|e| e.into_inner())
    }

    pub(crate) fn is_started(&self) -> bool {
        self.started.load(Relaxed)
    }

    /// Starts the store's thread. Where no thread can be started, nothing is saved.
    pub(crate) fn start(&self, shared: Weak<Shared>) {
        let mut requests = self.requests();
        if self.started.swap(true, Relaxed) {
            return; // somebody else was faster
        }
        let keeper = self.keeper.clone();
        let (sender, receiver) = sync_channel(MAX_REQUESTS);
        let interval = self.interval;
        let thread = std::thread::Builder::new().name("pointsman-store".to_owned());
        match thread.spawn(move || keep(&keeper, &receiver, &shared, interval)) {
            Ok(_) => *requests = Some(sender),
            Err(error) => {
                tracing::warn!(%error, "cannot start the thread that saves; nothing will be saved")
            }
        }
    }

    /// Has something done on the store's thread, and waits for it until the deadline.
    pub(crate) fn ask<T: Send + 'static>(
        &self,
        deadline: Instant,
        work: impl FnOnce(&mut Keeper) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, FlushError> {
        let (answer, answered) = sync_channel(1);
        let mut request: Request = Box::new(move |keeper| drop(answer.send(work(keeper))));
        let requests = {
            let _whole = fork::busy();
            self.requests().clone()
        };
        let Some(requests) = requests else {
            return Err(FlushError::Deadline);
        };
        loop {
            match requests.try_send(request) {
                Ok(()) => break,
                Err(TrySendError::Full(back)) if Instant::now() < deadline => {
                    request = back;
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(_) => return Err(FlushError::Deadline),
            }
        }
        let left = deadline.saturating_duration_since(Instant::now());
        match answered.recv_timeout(left) {
            Ok(result) => result.map_err(FlushError::Store),
            Err(_) => Err(FlushError::Deadline),
        }
    }

    /// Starts over in a forked child: the thread stayed behind, and what was to be saved is the
    /// parent's to save.
    pub(crate) fn forked(&self) {
        let (Ok(mut requests), Ok(mut outbox), Ok(mut keeper)) = (
            self.requests.try_lock(),
            self.outbox.try_lock(),
            self.keeper.try_lock(),
        ) else {
            return; // cut in two: nothing will be saved
        };
        *outbox = Knowledge::default();
        keeper.waiting = Knowledge::default();
        // Never dropped: the thread at its other end may have been about to change it.
        std::mem::forget(requests.take());
        self.started.store(false, Relaxed);
    }
}

/// The store's thread: requests as they come, and a save every interval.
fn keep(
    keeper: &Mutex<Keeper>,
    requests: &Receiver<Request>,
    shared: &Weak<Shared>,
    interval: Duration,
) {
    loop {
        match requests.recv_timeout(interval) {
            Ok(request) => {
                let _whole = fork::busy();
                request(&mut keeper.lock().unwrap_or_else(|e| e.into_inner()));
            }
            Err(RecvTimeoutError::Timeout) => {
                // Gone or going: its last change comes as a request, then the channel closes.
                if let Some(shared) = shared.upgrade() {
                    let whole = fork::busy();
                    shared.collect();
                    // Not while busy: it may be the last, and asks for a save then.
                    drop(whole);
                    drop(shared);
                    let _whole = fork::busy();
                    let mut keeper = keeper.lock().unwrap_or_else(|e| e.into_inner());
                    let _ = keeper.merge(); // warned about; waits for the next turn
                }
            }
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

/// Runs checks on a thread of their own, one at a time.
#[derive(Default)]
pub(crate) struct Checker {
    busy: Arc<AtomicBool>,
}

impl Checker {
    /// Runs it unless another check is under way: whoever wants it asks again.
    pub(crate) fn spawn(&self, check: impl FnOnce() + Send + 'static) {
        if self.busy.swap(true, Relaxed) {
            return;
        }
        let done = Done(self.busy.clone());
        let thread = std::thread::Builder::new().name("pointsman-check".to_owned());
        let started = thread.spawn(move || {
            let _done = done;
            check();
        });
        if let Err(error) = started {
            tracing::warn!(%error, "cannot start a thread to check a variant; it will not serve");
        }
    }

    /// In a forked child there is no thread that checks.
    pub(crate) fn forked(&self) {
        self.busy.store(false, Relaxed);
    }
}

struct Done(Arc<AtomicBool>);

impl Drop for Done {
    fn drop(&mut self) {
        self.0.store(false, Relaxed);
    }
}
