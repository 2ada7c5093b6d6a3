//! Pointsman sends each call of an operation to the implementation that is fastest for this
//! workload on this machine, and learns from the calls.
//!
//! (The tutorial is written below the README.)
#![forbid(unsafe_code)]

mod backend;
mod builder;
mod by_name;
mod cell;
mod check;
mod clock;
mod decision;
mod eligible;
mod env;
mod error;
mod explain;
mod guard;
mod learn;
mod machine;
mod memory;
mod op;
mod outcome;
mod plan;
mod policy;
mod run;
mod save;
mod selector;
mod state;
mod stats;
pub mod store;
mod thread;
mod workload;

pub use backend::{Backend, BackendError, Custom};
pub use builder::SelectorBuilder;
pub use cell::Cell;
pub use check::{Checks, Verify};
pub use clock::{Clock, FakeClock, SystemClock};
pub use decision::{Decision, Explanation, Prediction, Reason, VariantReport};
pub use error::{Attempt, BoxError, BuildError, Failure, RunError};
pub use machine::{
    BackendCost, Calibration, CalibrationError, Cap, CapError, Machine, MachineRecord,
};
pub use memory::{HostMemory, Memory};
pub use op::{Fallible, Function, Kind, Op, OpBuilder, Sure};
pub use outcome::{Cost, Outcome, Rejection};
pub use plan::Plan;
pub use run::{Explained, Handle, Single};
pub use save::FlushError;
pub use selector::{Mode, Selector};
pub use state::RecentDecision;
pub use stats::OpStats;
pub use workload::{DType, Feature, MAX_CODES, MAX_FEATURES, Workload, WorkloadError};
