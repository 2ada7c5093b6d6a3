//! Pointsman sends each call of an operation to the implementation that is fastest for this
//! workload on this machine, and learns from the calls.
//!
//! An *op* is an operation, a *variant* one implementation of it, and the *reference* the variant
//! whose result is the truth. A [`Selector`] holds what all ops of a program share.
//!
//! # Declaring an op
//!
//! An op on one shared argument needs no type: [`Selector::function`]. Anything else implements
//! [`Op`], with outputs that are written in place as `&mut` in its [`Args`](Op::Args). Limits follow
//! the variant that they limit: see [`OpBuilder`].
//!
//! ```
//! use pointsman::{Backend, Selector, Workload};
//!
//! let selector = Selector::builder().in_memory().build()?;
//! let sum = selector
//!     .function("sum_u64", |x: &[u64]| Workload::new([x.len()]).bytes(8 * x.len()))
//!     .reference("plain", Backend::Scalar, |x| x.iter().sum::<u64>())
//!     .variant("pairs", Backend::Simd, |x| {
//!         let (pairs, rest) = x.as_chunks::<2>();
//!         let [a, b] = pairs.iter().fold([0, 0], |[a, b], [x, y]| [a + x, b + y]);
//!         a + b + rest.iter().sum::<u64>()
//!     })
//!     .min_size(16) // of `pairs`
//!     .build()?;
//! assert_eq!(sum.run(&[1, 2, 3]), 6);
//! # Ok::<(), pointsman::BuildError>(())
//! ```
//!
//! # Running
//!
//! [`Handle::run`] is a plain call. A variant that fails gives way to the next best within the same
//! call, in the end to the reference; see [`OpBuilder::try_variant`]. Handles are cheap to clone and
//! are shared by threads. With [`OpBuilder::try_reference`], `run` returns a `Result` whose
//! [`RunError`] has every attempt. [`Handle::variant`] runs one variant whatever was learned.
//!
//! # Hot loops
//!
//! A [`Plan`] is for many calls of one workload: it computes neither features nor cell.
//!
//! ```
//! # use pointsman::{Backend, Selector, Workload};
//! # let selector = Selector::builder().in_memory().build()?;
//! # let sum = selector
//! #     .function("sum_u64", |x: &[u64]| Workload::new([x.len()]))
//! #     .reference("plain", Backend::Scalar, |x| x.iter().sum::<u64>())
//! #     .build()?;
//! let plan = sum.plan(Workload::new([4]));
//! let rows = vec![[1, 2, 3, 4]; 1000];
//! let total: u64 = rows.iter().map(|row| plan.run(row)).sum();
//! assert_eq!(total, 10_000);
//! # Ok::<(), pointsman::BuildError>(())
//! ```
//!
//! # Explaining, and statistics
//!
//! [`Handle::explain`] says who would serve a workload and why, [`Handle::run_explained`] who has
//! served a call. An [`Explanation`] prints as a table; [`OpStats`] prints what choosing has cost. Both
//! serialise with serde.
//!
//! ```
//! # use pointsman::{Backend, Reason, Selector, Workload};
//! # let selector = Selector::builder().in_memory().build()?;
//! # let sum = selector
//! #     .function("sum_u64", |x: &[u64]| Workload::new([x.len()]))
//! #     .reference("plain", Backend::Scalar, |x| x.iter().sum::<u64>())
//! #     .variant("back", Backend::Scalar, |x| x.iter().rev().sum::<u64>()).min_size(16)
//! #     .build()?;
//! sum.run(&[1, 2, 3]);
//! let told = sum.explain(Workload::new([3]));
//! assert_eq!(told.chosen, "plain");
//! assert_eq!(told.reason, Reason::OnlyEligible);
//! assert_eq!(told.variants[1].why_not.as_deref(), Some("size 3 is below 16"));
//! assert_eq!(sum.stats().calls, 1);
//! # Ok::<(), pointsman::BuildError>(())
//! ```
//!
//! # By name
//!
//! Callers who run the work themselves, such as other languages, ask with [`Selector::decide`] and
//! report with [`Selector::record`]. The first candidate is the reference. Those who ask often prepare
//! the op and its candidates first: [`Selector::prepare`].
//!
//! ```
//! # use std::time::Instant;
//! # use pointsman::{Outcome, Selector, Workload};
//! # let selector = Selector::builder().in_memory().build()?;
//! let mut keys = vec![3, 1, 2];
//! let decision = selector.decide("sort", &Workload::new([3]), &["stable", "unstable"]);
//! let start = Instant::now();
//! match decision.variant() {
//!     "stable" => keys.sort(),
//!     _ => keys.sort_unstable(),
//! }
//! selector.record(&decision, Outcome::took(start.elapsed()));
//! # Ok::<(), pointsman::BuildError>(())
//! ```
//!
//! # Checks
//!
//! An op that implements [`Verify`] and is built with [`OpBuilder::verified`] has each variant compared
//! with the reference, on samples of its own, before that variant first serves. [`Checks`] says when.
//! The example in [`Verify`] is complete.
//!
//! # Store and modes
//!
//! [`Selector::new`] keeps what was learned in a file in the user's cache directory
//! ([`store::default_path`]); [`SelectorBuilder::store_file`] names another, and
//! [`SelectorBuilder::in_memory`] none. [`Mode::Frozen`] uses what is known and changes nothing.
//!
//! ```
//! use std::time::Duration;
//! use pointsman::store::MemoryStore;
//! use pointsman::{Mode, Outcome, Selector, Workload};
//!
//! let store = MemoryStore::new(); // or a file, with `store_file`
//! let learning = Selector::builder().ignore_environment().store(store.clone()).build()?;
//! for _ in 0..100 {
//!     let decision = learning.decide("sort", &Workload::new([8]), &["slow", "quick"]);
//!     let us = if decision.variant() == "slow" { 90 } else { 10 };
//!     learning.record(&decision, Outcome::took(Duration::from_micros(us)));
//! }
//! learning.flush(Duration::from_secs(5))?;
//!
//! let frozen = Selector::builder().ignore_environment().store(store).mode(Mode::Frozen).build()?;
//! let decision = frozen.decide("sort", &Workload::new([8]), &["slow", "quick"]);
//! assert_eq!(decision.variant(), "quick");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Spans
//!
//! Slow calls, and 1 % of the others, emit two spans through `tracing`: `backend_selection` says who was
//! chosen and why, `compute_block` or `gpu_kernel` is the execution. They lie in the caller's current span.
//! [`SelectorBuilder::trace_slower_than`], [`trace_share`](SelectorBuilder::trace_share) and
//! [`trace_hot_above`](SelectorBuilder::trace_hot_above) say which calls; `docs/observability.md` has all fields.
//!
//! # Policies
//!
//! Who chooses can be changed: [`policy`] has the usual methods, from fixed rules to bandits, and the
//! traits for one of your own.
//!
//! # Environment
//!
//! `POINTSMAN_FORCE`, `_DISABLE`, `_MODE`, `_POLICY`, `_STORE` and `_SEED` win over what the code says: see
//! [`SelectorBuilder`]. The library never prints; warnings go to `tracing`.
//!
//! # Cargo features
//!
//! `sqlite` (default): the store in a file. Without it, knowledge is kept in memory only.
#![forbid(unsafe_code)]

mod backend;
mod builder;
mod by_name;
mod cell;
mod chain;
mod check;
mod clock;
mod decision;
mod eligible;
mod env;
mod error;
mod explain;
pub mod fork;
mod guard;
mod learn;
mod machine;
mod memory;
mod op;
mod outcome;
mod plan;
pub mod policy;
mod prepared;
mod run;
mod save;
mod selector;
mod state;
mod stats;
pub mod store;
mod table;
mod thread;
mod trace;
mod workload;

pub use backend::{Backend, BackendError, Custom};
pub use builder::SelectorBuilder;
pub use cell::Cell;
pub use chain::Chain;
pub use check::{Checks, Verdict, Verify};
pub use clock::{Clock, FakeClock, SystemClock};
pub use decision::{Decision, Explanation, Prediction, Reason, VariantReport};
pub use eligible::Available;
pub use error::{Attempt, BoxError, BuildError, Failure, OutOfMemory, Refused, RunError};
pub use machine::{
    BackendCost, Calibration, CalibrationError, Cap, CapError, Machine, MachineRecord,
};
pub use memory::{HostMemory, Memory};
pub use op::{Fallible, Function, Kind, Op, OpBuilder, Sure};
pub use outcome::{Cost, Outcome, Rejection};
pub use plan::Plan;
pub use prepared::{Candidate, Chosen, Prepared};
pub use run::{Explained, Handle, Single};
pub use save::FlushError;
pub use selector::{Mode, Selector, WeakSelector};
pub use state::RecentDecision;
pub use stats::{BackendStats, OpStats, VariantStats};
pub use workload::{DType, Feature, MAX_CODES, MAX_FEATURES, Workload, WorkloadError};

#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/choosing.md")]
struct Choosing;
