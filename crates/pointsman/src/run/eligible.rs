//! The part of a call that finds out who may serve it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::Inner;
use crate::eligible::WhyNot;
use crate::guard;
use crate::learn::bits;
use crate::op::{Kind, Op};
use crate::workload::Workload;

impl<O: Op, K: Kind<O>> Inner<O, K> {
    /// Who may serve this call, by number. The reference if nobody else. Without arguments,
    /// conditions count as met.
    #[inline]
    pub(crate) fn eligible(&self, workload: &Workload, args: Option<&O::Args<'_>>) -> u64 {
        let choosy = workload.preference().is_some();
        let mut mask = self.able & !self.state.quarantine.mask();
        let full = self.state.quarantine.full();
        if mask & (self.conditional | full) != 0 {
            mask = self.met(mask, workload, args);
        }
        let forced = mask & self.forced;
        mask = if forced != 0 { forced } else { mask };
        if choosy {
            mask = self.preferred(mask, workload);
        }
        if mask == 0 { 1 << self.reference } else { mask }
    }

    /// Those of the mask whose conditions this call meets.
    #[inline(never)]
    fn met(&self, mut mask: u64, workload: &Workload, args: Option<&O::Args<'_>>) -> u64 {
        let full = self.state.quarantine.full();
        for id in bits(mask & (self.conditional | full)) {
            if self.why_not(self.place(id), workload, args).is_some() {
                mask &= !(1 << id);
            }
        }
        mask
    }

    /// Those of the mask on the backend that the call prefers; all of them if it has none there.
    #[cold]
    fn preferred(&self, mask: u64, workload: &Workload) -> u64 {
        let fits = |id: &u8| {
            Some(self.declared.variants[self.place(*id)].backend) == workload.preference()
        };
        let wanted = bits(mask).filter(fits).fold(0, |m, id| m | 1 << id);
        if wanted == 0 { mask } else { wanted }
    }

    #[inline]
    pub(super) fn why_not(
        &self,
        place: usize,
        workload: &Workload,
        args: Option<&O::Args<'_>>,
    ) -> Option<WhyNot> {
        let variant = &self.declared.variants[place];
        let headroom = &self.shared().headroom;
        if let Some(why) = variant.limits.why_not(workload, variant.backend, headroom) {
            return Some(why);
        }
        if let Some(why) = self.no_memory(self.ids[place], workload) {
            return Some(why);
        }
        if let Some(available) = &variant.available
            && !guard::attempt_sure(|| available.is_available()).unwrap_or(false)
        {
            return Some(WhyNot::Unavailable);
        }
        let (when, args) = (variant.when.as_ref()?, args?);
        // A condition that panics is a condition that does not hold.
        let holds = catch_unwind(AssertUnwindSafe(|| when(args))).unwrap_or(false);
        (!holds).then_some(WhyNot::When)
    }

    /// Whether it has run out of memory lately at this size or below.
    fn no_memory(&self, id: u8, workload: &Workload) -> Option<WhyNot> {
        if self.state.quarantine.full() & 1 << id == 0 {
            return None;
        }
        let (from, until) = self.state.quarantine.full_from(id)?;
        let left_ns = until.saturating_sub(self.shared().clock.now_ns());
        (workload.size() >= from).then_some(WhyNot::OutOfMemory { from, left_ns })
    }
}
