//! Ops on data that stays on a GPU.

use std::fmt;

use pointsman::{
    Backend, BoxError, BuildError, Cap, Fallible, Handle, Op, RunError, Selector, Workload,
};
use pointsman_gpu::{DeviceArray, Kernel};

use super::kernels::{self, Product};
use super::{Ready, announced, known};
use crate::catalogue::Shaped as _;
use crate::{Ops, ShapeError, View, add, matmul, relu, scale};

/// Ops whose data is on a GPU, and whose results are on the same one.
///
/// Each call goes to the kernel there, or to the host and back, whichever is faster for this call
/// from where its data lies: a step that is slow on the GPU may still be faster there than the way.
/// What is learned about it is kept with what is known of the same op on the host.
///
/// ```
/// use pointsman::Selector;
/// use pointsman_ops::{Ops, gpu};
///
/// # let builder = Selector::builder().in_memory();
/// let selector = gpu::announce(builder).build()?;
/// let resident = gpu::Resident::new(&selector, &Ops::new(&selector)?)?;
/// if let Some(gpu) = gpu::devices::gpus().found.first() {
///     let x = gpu::DeviceArray::upload(gpu, &[1.0, -2.0, 3.0])?;
///     let y = resident.relu(&resident.add(&x, &x)?)?;
///     assert_eq!(y.to_vec()?, [2.0, 0.0, 6.0]);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Resident {
    add: Handle<Stay, Fallible>,
    matmul: Handle<Stay, Fallible>,
    relu: Handle<Stay, Fallible>,
    scale: Handle<Stay, Fallible>,
}

/// An array of numbers on a GPU.
type Array = DeviceArray<f32>;

impl Resident {
    /// Declares them. On the host, `ops` serve.
    pub fn new(selector: &Selector, ops: &Ops<f32>) -> Result<Self, BuildError> {
        Ok(Resident {
            add: declare(selector, ops, "add_f32", &[&kernels::ADD])?,
            matmul: declare(
                selector,
                ops,
                "matmul_f32",
                &[&kernels::REGISTERS, &kernels::PAD],
            )?,
            relu: declare(selector, ops, "relu_f32", &[&kernels::RELU])?,
            scale: declare(selector, ops, "scale_f32", &[&kernels::SCALE])?,
        })
    }

    /// x + y.
    pub fn add(&self, x: &Array, y: &Array) -> Result<Array, ResidentError> {
        if x.len() != y.len() {
            let rule = "both vectors must be of one length";
            return Err(ShapeError::new("add", &[x.len()], &[y.len()], rule).into());
        }
        together(x, y)?;
        Ok(self.add.run(Task::Add(x, y))?)
    }

    /// max(x, 0), element by element.
    pub fn relu(&self, x: &Array) -> Result<Array, ResidentError> {
        Ok(self.relu.run(Task::Relu(x))?)
    }

    /// a x.
    pub fn scale(&self, a: f32, x: &Array) -> Result<Array, ResidentError> {
        Ok(self.scale.run(Task::Scale(a, x))?)
    }

    /// A B for A of m rows and k columns and B of k rows and n columns, row by row.
    pub fn matmul(&self, a: &Array, b: &Array, sizes: [usize; 3]) -> Result<Array, ResidentError> {
        let [m, k, n] = sizes;
        let fits = |x: &Array, rows: usize, columns: usize| {
            let rule = "there must be an element for each row and column";
            match rows.checked_mul(columns) == Some(x.len()) {
                true => Ok(()),
                false => Err(ShapeError::new(
                    "matmul",
                    &[rows, columns],
                    &[x.len()],
                    rule,
                )),
            }
        };
        fits(a, m, k)?;
        fits(b, k, n)?;
        together(a, b)?;
        Ok(self.matmul.run(Task::Matmul(a, b, sizes))?)
    }

    /// The handles, to explain and count: add, matmul, relu and scale.
    pub fn handles(&self) -> [&Handle<Stay, Fallible>; 4] {
        [&self.add, &self.matmul, &self.relu, &self.scale]
    }
}

/// Whether two arrays are on one GPU.
fn together(x: &Array, y: &Array) -> Result<(), ResidentError> {
    let (x, y) = (x.gpu().backend(), y.gpu().backend());
    match x == y {
        true => Ok(()),
        false => Err(ResidentError::Apart(x, y)),
    }
}

/// An op on data that stays where it is.
#[derive(Clone, Copy, Debug)]
pub struct Stay(&'static str);

/// One call.
#[derive(Clone, Copy, Debug)]
pub enum Task<'a> {
    /// x + y.
    Add(&'a Array, &'a Array),
    /// max(x, 0).
    Relu(&'a Array),
    /// a x.
    Scale(f32, &'a Array),
    /// A B, with the sizes m, k and n.
    Matmul(&'a Array, &'a Array, [usize; 3]),
}

impl Op for Stay {
    type Args<'a> = Task<'a>;
    type Output = Array;

    fn name(&self) -> &str {
        self.0
    }

    fn workload(&self, task: &Task<'_>) -> Workload {
        let workload = match task {
            Task::Add(x, _) => add::Add::<f32>::default().shaped(&[x.len()]),
            Task::Relu(x) => relu::Relu::<f32>::default().shaped(&[x.len()]),
            Task::Scale(_, x) => scale::Scale::<f32>::default().shaped(&[x.len()]),
            Task::Matmul(_, _, sizes) => matmul::Matmul::<f32>::default().shaped(sizes),
        };
        workload.located(task.array().gpu().backend())
    }
}

impl Task<'_> {
    fn array(&self) -> &Array {
        match self {
            Task::Add(x, _) | Task::Relu(x) | Task::Scale(_, x) | Task::Matmul(x, ..) => x,
        }
    }

    /// There and back.
    fn on_host(&self, ops: &Ops<f32>) -> Result<Array, BoxError> {
        let x = self.array().to_vec()?;
        let mut out = vec![0.0; x.len()];
        match self {
            Task::Add(_, y) => ops.add.run(add::Args::new(&x, &y.to_vec()?, &mut out)?),
            Task::Relu(_) => ops.relu.run(relu::Args::new(&x, &mut out)?),
            Task::Scale(a, _) => {
                out = x;
                ops.scale.run(scale::Args::new(*a, &mut out));
            }
            Task::Matmul(_, b, [m, k, n]) => {
                let b = b.to_vec()?;
                out = vec![0.0; m * n];
                let (a, b) = (View::new(*m, *k, &x)?, View::new(*k, *n, &b)?);
                ops.matmul.run(matmul::Args::new(a, b, &mut out)?);
            }
        }
        Ok(DeviceArray::upload(self.array().gpu(), &out)?)
    }

    /// Where it is.
    fn on_gpu(&self) -> Result<Array, pointsman_gpu::Error> {
        let (x, gpu) = (self.array(), self.array().gpu());
        let elements = match self {
            Task::Matmul(_, _, [m, _, n]) => m * n,
            _ => x.len(),
        };
        DeviceArray::compute(gpu, elements, |job, out| match self {
            Task::Add(_, y) => kernels::add(job, x.held(), y.held(), out, elements),
            Task::Relu(_) => kernels::relu(job, x.held(), out, elements),
            Task::Scale(a, _) => {
                job.copy(x.held(), out)?;
                kernels::scale(job, *a, out, elements)
            }
            Task::Matmul(_, b, sizes) => {
                kernels::matmul(job, Product::Registers, x.held(), b.held(), out, *sizes)
            }
        })
    }
}

fn declare(
    selector: &Selector,
    ops: &Ops<f32>,
    name: &'static str,
    needs: &[&'static Kernel],
) -> Result<Handle<Stay, Fallible>, BuildError> {
    let ops = ops.clone();
    let mut builder = selector.op(Stay(name)).try_reference(
        "host",
        Backend::Threads,
        move |task: &mut Task<'_>| task.on_host(&ops),
    );
    for gpu in announced(selector) {
        let here = gpu.backend();
        let Backend::Gpu(n) = here else { continue };
        let ready = Ready(needs.iter().map(|kernel| gpu.prepared(kernel)).collect());
        builder = builder
            .try_variant(&format!("gpu{n}_resident"), here, |task: &mut Task<'_>| {
                task.on_gpu().map_err(known)
            })
            .requires(Cap::Gpu(n))
            .when(move |task| task.array().gpu().backend() == here)
            .available(ready);
    }
    builder.build()
}

/// Why a call on data on a GPU has no result.
#[derive(Debug)]
#[non_exhaustive]
pub enum ResidentError {
    /// Sizes that do not fit.
    Shape(ShapeError),
    /// Two arrays on different GPUs.
    Apart(Backend, Backend),
    /// Neither the GPU nor the host could serve it: the device was lost, above all.
    Run(RunError),
}

impl From<ShapeError> for ResidentError {
    fn from(error: ShapeError) -> Self {
        ResidentError::Shape(error)
    }
}

impl From<RunError> for ResidentError {
    fn from(error: RunError) -> Self {
        ResidentError::Run(error)
    }
}

impl fmt::Display for ResidentError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ResidentError::Shape(error) => error.fmt(f),
            ResidentError::Run(error) => error.fmt(f),
            ResidentError::Apart(one, other) => write!(
                f,
                "one array is on {one} and the other on {other}; both must be on one GPU"
            ),
        }
    }
}

impl std::error::Error for ResidentError {}
