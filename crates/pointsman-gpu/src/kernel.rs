//! A program for GPUs.

/// A kernel: one WGSL module with the entry point `main`. Kernels are statics, known by their names.
///
/// Binding 0 of group 0 is a uniform, the parameters of a call as `u32`s; the buffers follow from
/// binding 1 on. With all parameters 0 it must finish at once and touch nothing: that is how it is
/// warmed up.
#[derive(Debug)]
pub struct Kernel {
    pub(crate) name: &'static str,
    pub(crate) source: &'static str,
    pub(crate) buffers: usize,
}

impl Kernel {
    /// A kernel with this many buffers.
    pub const fn new(name: &'static str, source: &'static str, buffers: usize) -> Self {
        Kernel {
            name,
            source,
            buffers,
        }
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.name
    }
}
