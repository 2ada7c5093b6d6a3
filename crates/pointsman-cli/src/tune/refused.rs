//! Which variants could not be measured, and why.

use std::collections::{BTreeMap, HashSet};
use std::fmt;

use serde::Serialize;

/// A variant that failed somewhere, or that no call was let through to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Refusal {
    op: String,
    variant: String,
    /// Whether it failed, gave a wrong result or could not be checked. Otherwise the machine, the
    /// user or its own conditions rule it out.
    failed: bool,
    /// The first reason there was.
    why: String,
    /// At how many shapes.
    shapes: usize,
}

/// What has become of variants so far.
#[derive(Default)]
pub(super) struct Refusals {
    /// By op and variant.
    refused: BTreeMap<(String, String), Refusal>,
    measured: HashSet<(String, String)>,
}

impl Refusals {
    /// A variant was measured.
    pub(super) fn measured(&mut self, op: &str, variant: &str) {
        self.measured.insert((op.to_owned(), variant.to_owned()));
    }

    /// A variant was ruled out at one more shape, or failed there.
    pub(super) fn refused(&mut self, op: &str, variant: &str, failed: bool, why: &str) {
        let new = || Refusal {
            op: op.to_owned(),
            variant: variant.to_owned(),
            failed,
            why: why.to_owned(),
            shapes: 0,
        };
        let key = (op.to_owned(), variant.to_owned());
        let known = self.refused.entry(key).or_insert_with(new);
        if failed && !known.failed {
            *known = new(); // what is wrong matters more than what is not asked for
        }
        known.shapes += usize::from(failed == known.failed);
    }

    /// Those that failed, and of the others those that were measured nowhere.
    pub(super) fn told(self) -> Vec<Refusal> {
        let Refusals { refused, measured } = self;
        let matters = |(key, refusal): &(_, Refusal)| refusal.failed || !measured.contains(key);
        refused
            .into_iter()
            .filter(matters)
            .map(|(_, r)| r)
            .collect()
    }
}

/// One line a variant; those of several ops that have a name and a reason in common share one.
pub(super) struct Lines<'r>(pub(super) &'r [Refusal]);

impl fmt::Display for Lines<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut groups: Vec<(&Refusal, Vec<&str>)> = Vec::new();
        for refusal in self.0 {
            let alike = |first: &Refusal| {
                let of = |r: &Refusal| (r.variant.clone(), r.failed, r.why.clone());
                !refusal.failed && of(first) == of(refusal)
            };
            match groups.iter_mut().find(|(first, _)| alike(first)) {
                Some((_, ops)) => ops.push(&refusal.op),
                None => groups.push((refusal, vec![&refusal.op])),
            }
        }
        for (refusal, ops) in groups {
            let Refusal {
                variant,
                failed,
                why,
                shapes,
                ..
            } = refusal;
            let what = if *failed { "failed" } else { "not measured" };
            match &ops[..] {
                [op] if *shapes == 1 => writeln!(f, "{op} {variant}: {what} at 1 shape: {why}")?,
                [op] => writeln!(f, "{op} {variant}: {what} at {shapes} shapes: {why}")?,
                ops => writeln!(f, "{variant} of {} ops: {what}: {why}", ops.len())?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_failed_is_told_and_what_was_ruled_out_only_if_it_was_nowhere_measured() {
        let mut refusals = Refusals::default();
        refusals.refused("dot", "threads", false, "size 16 is below 4096");
        refusals.measured("dot", "threads");
        refusals.refused("dot", "gpu", false, "size 16 is below 4096");
        refusals.refused("dot", "gpu", false, "size 32 is below 4096");
        refusals.refused("dot", "wrong", false, "its condition says no");
        refusals.refused("dot", "wrong", true, "differs at 16");
        refusals.refused("dot", "wrong", true, "differs at 32");
        refusals.refused("dot", "wrong", false, "its condition says no");
        refusals.measured("dot", "wrong");
        let told = refusals.told();
        let brief = |r: &Refusal| (r.variant.clone(), r.failed, r.why.clone(), r.shapes);
        assert_eq!(
            told.iter().map(brief).collect::<Vec<_>>(),
            [
                ("gpu".into(), false, "size 16 is below 4096".into(), 2),
                ("wrong".into(), true, "differs at 16".into(), 2),
            ]
        );
        assert_eq!(
            Lines(&told).to_string(),
            "dot gpu: not measured at 2 shapes: size 16 is below 4096\n\
             dot wrong: failed at 2 shapes: differs at 16\n"
        );
    }

    #[test]
    fn what_many_ops_lack_for_one_reason_is_one_line_and_what_failed_is_a_line_each() {
        let mut refusals = Refusals::default();
        for op in ["add", "dot", "sum"] {
            refusals.refused(op, "avx512", false, "this machine has no AVX-512");
            refusals.refused(op, "simd", true, "boom");
        }
        let lines = Lines(&refusals.told()).to_string();
        assert_eq!(lines.matches("avx512").count(), 1, "{lines}");
        assert!(
            lines.contains("avx512 of 3 ops: not measured: this machine"),
            "{lines}"
        );
        assert!(
            lines.contains("dot simd: failed at 1 shape: boom"),
            "{lines}"
        );
        assert_eq!(lines.lines().count(), 4, "{lines}");
    }
}
