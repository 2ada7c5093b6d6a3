//! The ops by the names people give them, on a selector that they may steer.

use clap::Args;
use pointsman::store::{Knowledge, MemoryStore, Store as _};
use pointsman::{BuildError, Checks, Mode, Selector, SelectorBuilder};
use pointsman_ops::Ops;
use pointsman_ops::catalogue::Entry;

use crate::gpu;
use crate::kept::Kept;
use crate::listen;
use crate::output::Failure;

/// What overrides the choice, as the environment variables do.
#[derive(Args, Clone, Default)]
pub(crate) struct Steer {
    /// Serve from this variant or backend; op=name for one op; separated by commas
    #[arg(long, value_name = "NAMES")]
    force: Option<String>,
    /// Never choose this variant or backend; op=name for one op; separated by commas
    #[arg(long, value_name = "NAMES")]
    disable: Option<String>,
}

impl Steer {
    /// The same as settings of a selector.
    pub(crate) fn apply(&self, builder: SelectorBuilder) -> SelectorBuilder {
        let builder = match &self.force {
            Some(rules) => builder.force(rules),
            None => builder,
        };
        match &self.disable {
            Some(rules) => builder.disable(rules),
            None => builder,
        }
    }
}

/// All ops on one selector.
pub(crate) struct Catalogue {
    pub(crate) selector: Selector,
    entries: Vec<Box<dyn Entry>>,
}

impl Catalogue {
    /// Ops that learn and keep what they learn. Checks are made before a variant is measured.
    pub(crate) fn learning(steer: &Steer) -> Result<Self, Failure> {
        let builder = gpu::announce(Selector::builder()).checks(Checks::Inline);
        let catalogue = Self::new(steer.apply(builder))?;
        listen::watch(&catalogue.selector);
        Ok(catalogue)
    }

    /// Ops that know what the store knows. Looking neither makes nor changes one.
    pub(crate) fn looking(steer: &Steer) -> Result<Self, Failure> {
        Self::knowing(&Kept::look().knowledge()?, steer)
    }

    /// Ops that know this.
    pub(crate) fn knowing(known: &Knowledge, steer: &Steer) -> Result<Self, Failure> {
        let mut memory = MemoryStore::new().with_limit(known.entries.len().max(1));
        memory.merge(known).map_err(Failure::new)?;
        let builder = gpu::announce(Selector::builder());
        // Or all there is to say of GPUs is that kernels are being compiled, as the process ends.
        gpu::prepare(|_| {});
        Self::new(steer.apply(builder.mode(Mode::Frozen).store(memory)))
    }

    fn new(builder: SelectorBuilder) -> Result<Self, Failure> {
        let selector = builder.build().map_err(Failure::new)?;
        let entries = entries(&selector).map_err(Failure::new)?;
        Ok(Catalogue { selector, entries })
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = &dyn Entry> {
        self.entries.iter().map(|e| &**e)
    }

    /// An op by its full name, or without its type: `matmul` is `matmul_f32`.
    pub(crate) fn find(&self, name: &str) -> Result<&dyn Entry, Failure> {
        let single = format!("{name}_f32");
        let named = |e: &&dyn Entry| e.name() == name || e.name() == single;
        self.entries().find(named).ok_or_else(|| {
            let known: Vec<&str> = self.entries().map(|e| e.name()).collect();
            Failure::new(format!(
                "no op {name:?}; there are {} (_f32 may be left out)",
                known.join(", ")
            ))
        })
    }

    /// Those that are named, or all of them.
    pub(crate) fn chosen(&self, names: &[String]) -> Result<Vec<&dyn Entry>, Failure> {
        if names.is_empty() {
            return Ok(self.entries().collect());
        }
        let mut found: Vec<&dyn Entry> = Vec::new();
        for name in names {
            let entry = self.find(name)?;
            if found.iter().all(|e| e.name() != entry.name()) {
                found.push(entry);
            }
        }
        Ok(found)
    }
}

fn entries(selector: &Selector) -> Result<Vec<Box<dyn Entry>>, BuildError> {
    let mut entries = Ops::<f32>::new(selector)?.entries();
    entries.extend(Ops::<f64>::new(selector)?.entries());
    Ok(entries)
}

/// A shape as people write it: `512x512x512`.
pub(crate) fn shape(text: &str) -> Result<Vec<usize>, Failure> {
    let number = |part: &str| {
        part.trim().parse().map_err(|_| {
            Failure::new(format!(
                "{text:?} is no shape: {part:?} is not a whole number; a shape is like 65536 or 512x512x512"
            ))
        })
    };
    text.split(['x', 'X', '×']).map(number).collect()
}
