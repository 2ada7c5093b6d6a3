//! Step 3 of a call: who should serve. One file per policy.

pub(crate) mod adaptive;
