//! Every ready kernel beside sums in `f64`.
//!
//! Bounds are γₙ Σ |terms| for n roundings in a row (Higham, §3.1), which hold for any order of
//! additions and with fused multiply-adds. A device may take denormals for zeros, so each rounding
//! may also be off by the least normal number.

#[path = "../common/mod.rs"]
mod common;
mod compare;
mod matrices;
mod refused;
mod signals;
mod vectors;
