//! Ops by name and shape, whatever their types: what a command line needs.

use pointsman::{Backend, BoxError, Explanation, Handle, OpStats, Single, Verify, Workload};

use crate::Float;
use crate::error::text;

/// An op whose calls are described by a few whole numbers; unless it says otherwise by one, the
/// length of its vectors.
pub trait Shaped: Verify + Default {
    /// What the numbers are, in order: `["m", "k", "n"]`.
    const AXES: &'static [&'static str] = &["n"];

    /// The workload of a call of this shape; as many numbers as there are axes.
    fn shaped(&self, shape: &[usize]) -> Workload;

    /// Arguments for a call of this shape; the same for the same seed.
    fn make(&self, shape: &[usize], seed: u64) -> Self::Sample;

    /// A typical shape of about this size, the number of elements of its largest array: what
    /// tuning goes through.
    fn of_size(&self, size: usize) -> Vec<usize> {
        vec![size]
    }
}

/// The workload of an op that does so many operations for each of n elements, of so many vectors.
#[inline]
pub(crate) fn per_element<T: Float>(n: usize, flops: usize, vectors: usize) -> Workload {
    Workload::new([n])
        .dtype(T::DTYPE)
        .flops(flops * n)
        .bytes(vectors * size_of::<T>() * n)
}

/// An op of the catalogue.
pub trait Entry: Send + Sync {
    /// The op's name.
    fn name(&self) -> &str;
    /// What the numbers of a shape are.
    fn axes(&self) -> &'static [&'static str];
    /// Names and backends of the variants, in order of declaration.
    fn variants(&self) -> Vec<(String, Backend)>;
    /// The workload of a call of this shape.
    fn workload(&self, shape: &[usize]) -> Result<Workload, String>;
    /// Who would serve a call of this shape, and why. Conditions are asked of the arguments
    /// that [`call`](Self::call) makes, unless those are huge: then the explanation says what was
    /// [assumed](pointsman::VariantReport::assumed).
    fn explain(&self, shape: &[usize]) -> Result<Explanation, String>;
    /// A typical shape of about this size.
    fn of_size(&self, size: usize) -> Vec<usize>;
    /// A call of this shape, ready to be run as often as one likes.
    fn call(&self, shape: &[usize], seed: u64) -> Result<Box<dyn Call>, String>;
    /// What choosing has cost so far.
    fn stats(&self) -> OpStats;
    /// Forgets what this process has learned of it; verdicts of checks stay known.
    fn reset(&self);
}

/// A call with arguments of its own.
pub trait Call {
    /// Runs the variant that is chosen.
    fn run(&mut self);
    /// Who would be chosen, and why.
    fn explain(&mut self) -> Explanation;
    /// Runs this variant, whatever was learned; nothing is learned from it.
    fn run_variant(&mut self, variant: &str) -> Result<(), BoxError>;
    /// Runs this variant and learns from it.
    fn measure(&mut self, variant: &str) -> Result<(), BoxError>;
}

/// Bytes of arguments that are made only to ask conditions of them: a fraction of a second.
const MOST_TO_ASK: f64 = (1 << 28) as f64;

/// Seed of those arguments; conditions are on shapes and formats.
const SEED: u64 = 1;

struct Listed<O: Shaped> {
    handle: Handle<O>,
    op: O,
}

/// Makes an entry of an op.
pub fn entry<O: Shaped>(handle: &Handle<O>) -> Box<dyn Entry>
where
    O::Sample: Send,
{
    Box::new(Listed {
        handle: handle.clone(),
        op: O::default(),
    })
}

impl<O: Shaped> Listed<O> {
    fn checked(&self, shape: &[usize]) -> Result<(), String> {
        let axes = O::AXES.len();
        if shape.len() == axes {
            return Ok(());
        }
        Err(format!(
            "{} takes {axes} sizes ({}), {} has {}",
            self.op.name(),
            O::AXES.join("x"),
            text(shape),
            shape.len()
        ))
    }
}

impl<O: Shaped> Entry for Listed<O> {
    fn name(&self) -> &str {
        self.op.name()
    }

    fn axes(&self) -> &'static [&'static str] {
        O::AXES
    }

    fn variants(&self) -> Vec<(String, Backend)> {
        let told = self.handle.explain(self.op.shaped(&self.op.of_size(1024)));
        let named = |v: pointsman::VariantReport| (v.name, v.backend);
        told.variants.into_iter().map(named).collect()
    }

    fn workload(&self, shape: &[usize]) -> Result<Workload, String> {
        self.checked(shape)?;
        Ok(self.op.shaped(shape))
    }

    fn explain(&self, shape: &[usize]) -> Result<Explanation, String> {
        let workload = self.workload(shape)?;
        let told = self.handle.explain(workload);
        let asked = told.variants.iter().any(|v| v.assumed);
        if asked && workload.byte_count() <= MOST_TO_ASK {
            return Ok(self.call(shape, SEED)?.explain());
        }
        Ok(told)
    }

    fn of_size(&self, size: usize) -> Vec<usize> {
        self.op.of_size(size)
    }

    fn call(&self, shape: &[usize], seed: u64) -> Result<Box<dyn Call>, String> {
        self.checked(shape)?;
        Ok(Box::new(Ready {
            handle: self.handle.clone(),
            sample: self.op.make(shape, seed),
            op: O::default(),
        }))
    }

    fn stats(&self) -> OpStats {
        self.handle.stats()
    }

    fn reset(&self) {
        self.handle.reset();
    }
}

struct Ready<O: Shaped> {
    handle: Handle<O>,
    op: O,
    sample: O::Sample,
}

impl<O: Shaped> Call for Ready<O> {
    fn run(&mut self) {
        std::hint::black_box(self.handle.run(self.op.args(&mut self.sample)));
    }

    fn explain(&mut self) -> Explanation {
        self.handle.explain_call(&self.op.args(&mut self.sample))
    }

    fn run_variant(&mut self, variant: &str) -> Result<(), BoxError> {
        let single = self.single(variant)?;
        std::hint::black_box(single.run(self.op.args(&mut self.sample))?);
        Ok(())
    }

    fn measure(&mut self, variant: &str) -> Result<(), BoxError> {
        let single = self.single(variant)?;
        std::hint::black_box(single.measure(self.op.args(&mut self.sample))?);
        Ok(())
    }
}

impl<O: Shaped> Ready<O> {
    fn single(&self, variant: &str) -> Result<Single<O>, BoxError> {
        self.handle.variant(variant).ok_or_else(|| {
            let known: Vec<&str> = self.handle.variants().collect();
            format!("no variant {variant:?}; there are {}", known.join(", ")).into()
        })
    }
}
