//! C libraries that a user would call instead, opened at run time where they are installed.
//!
//! The only unsafe code outside of `pointsman-ops`: calls into OpenBLAS and FFTW.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_uint, c_void};

use libloading::{Library, Symbol};

const ROW_MAJOR: c_int = 101;
const NO_TRANSPOSE: c_int = 111;

/// OpenBLAS.
pub(crate) struct OpenBlas(Library);

type Sgemm = unsafe extern "C" fn(
    c_int,
    c_int,
    c_int,
    c_int,
    c_int,
    c_int,
    f32,
    *const f32,
    c_int,
    *const f32,
    c_int,
    f32,
    *mut f32,
    c_int,
);

impl OpenBlas {
    /// Debian's `libopenblas0-pthread`, if it is installed.
    pub(crate) fn open() -> Option<Self> {
        // SAFETY: loading runs the library's initialisers, which set up its threads and nothing of
        // ours.
        unsafe { Library::new("libopenblas.so.0") }
            .ok()
            .map(OpenBlas)
    }

    /// How many threads its calls run on from now on.
    pub(crate) fn set_threads(&self, threads: usize) {
        // SAFETY: the signature is that of OpenBLAS's cblas.h.
        let set: Result<Symbol<'_, unsafe extern "C" fn(c_int)>, _> =
            unsafe { self.0.get(b"openblas_set_num_threads") };
        if let Ok(set) = set {
            // SAFETY: any positive number is fine.
            unsafe { set(threads.max(1) as c_int) };
        }
    }

    /// C ← A B of square matrices.
    pub(crate) fn multiply(&self, n: usize, a: &[f32], b: &[f32], c: &mut [f32]) {
        assert!([a.len(), b.len(), c.len()] == [n * n; 3]);
        // SAFETY: the signature is that of cblas.h.
        let sgemm: Result<Symbol<'_, Sgemm>, _> = unsafe { self.0.get(b"cblas_sgemm") };
        let Ok(sgemm) = sgemm else { return };
        let (n, no) = (n as c_int, NO_TRANSPOSE);
        let (a, b, c) = (a.as_ptr(), b.as_ptr(), c.as_mut_ptr());
        // SAFETY: the three slices hold n rows of n elements each, as was asserted.
        unsafe { sgemm(ROW_MAJOR, no, no, n, n, n, 1.0, a, n, b, n, 0.0, c, n) };
    }
}

/// FFTW in single precision.
pub(crate) struct Fftw(Library);

const FORWARD: c_int = -1;
const MEASURE: c_uint = 0;

/// A plan of FFTW for one length, made by measuring, on buffers of its own.
pub(crate) struct FftwPlan<'l> {
    plan: *mut c_void,
    execute: Symbol<'l, unsafe extern "C" fn(*mut c_void)>,
    destroy: Symbol<'l, unsafe extern "C" fn(*mut c_void)>,
    _buffers: [Vec<[f32; 2]>; 2],
}

type MakePlan =
    unsafe extern "C" fn(c_int, *mut [f32; 2], *mut [f32; 2], c_int, c_uint) -> *mut c_void;

impl Fftw {
    /// Debian's `libfftw3-single3`, if it is installed.
    pub(crate) fn open() -> Option<Self> {
        // SAFETY: loading runs the library's initialisers, which touch nothing of ours.
        unsafe { Library::new("libfftw3f.so.3") }.ok().map(Fftw)
    }

    /// Plans a forward transform of one row.
    pub(crate) fn plan(&self, n: usize) -> Option<FftwPlan<'_>> {
        let mut buffers = [vec![[0.0; 2]; n], vec![[0.0; 2]; n]];
        // SAFETY: the signatures are those of fftw3.h.
        let (make, execute, destroy) = unsafe {
            (
                self.0.get::<MakePlan>(b"fftwf_plan_dft_1d").ok()?,
                self.0.get(b"fftwf_execute").ok()?,
                self.0.get(b"fftwf_destroy_plan").ok()?,
            )
        };
        let [from, to] = &mut buffers;
        let (from, to) = (from.as_mut_ptr(), to.as_mut_ptr());
        // SAFETY: both buffers hold n complex numbers and live as long as the plan does.
        let plan = unsafe { make(n as c_int, from, to, FORWARD, MEASURE) };
        // Measuring overwrites the input.
        for (i, x) in buffers[0].iter_mut().enumerate() {
            *x = [(i % 17) as f32 - 8.0, (i % 13) as f32 - 6.0];
        }
        (!plan.is_null()).then_some(FftwPlan {
            plan,
            execute,
            destroy,
            _buffers: buffers,
        })
    }
}

impl FftwPlan<'_> {
    pub(crate) fn run(&self) {
        // SAFETY: the plan is whole, and its buffers are ours alone.
        unsafe { (self.execute)(self.plan) };
    }
}

impl Drop for FftwPlan<'_> {
    fn drop(&mut self) {
        // SAFETY: made by FFTW, and not used again.
        unsafe { (self.destroy)(self.plan) };
    }
}

/// C ← A B of square matrices with the crate `matrixmultiply`, whose interface is pointers too.
pub(crate) fn matrixmultiply(n: usize, a: &[f32], b: &[f32], c: &mut [f32]) {
    assert!([a.len(), b.len(), c.len()] == [n * n; 3]);
    let (rows, (a, b, c)) = (n as isize, (a.as_ptr(), b.as_ptr(), c.as_mut_ptr()));
    // SAFETY: the three slices hold n rows of n elements each, as was asserted, and c is not
    // shared.
    unsafe { matrixmultiply::sgemm(n, n, n, 1.0, a, rows, 1, b, rows, 1, 0.0, c, rows, 1) };
}
