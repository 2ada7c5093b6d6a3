//! The settings of a selector.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::check::Checks;
use crate::clock::{Clock, SystemClock};
use crate::env::{Env, StoreChoice};
use crate::error::BuildError;
use crate::machine::{Calibration, Machine, MachineRecord};
use crate::memory::{Headroom, HostMemory, Memory};
use crate::policy::{self, Adaptive, Policy};
use crate::selector::{Mode, Selector};
use crate::store::{self, Knowledge, MemoryStore, Store, StoreError};
use crate::trace::Sampling;

/// Share of the serving time that trials may cost, unless told otherwise.
const DEFAULT_BUDGET: f64 = 0.01;

/// Share of free memory that is left alone, unless told otherwise.
const DEFAULT_RESERVE: f64 = 0.3;

/// How often changes are saved, unless told otherwise.
const DEFAULT_INTERVAL: Duration = Duration::from_secs(5);

/// Where knowledge is kept.
#[derive(Default)]
enum Keep {
    /// The user's cache directory.
    #[default]
    Default,
    Memory,
    File(PathBuf),
    Own(Box<dyn Store>),
}

/// Reads an environment variable.
type GetEnv = Box<dyn Fn(&str) -> Option<OsString>>;

/// Adds to a calibration.
type Calibrate = Box<dyn FnOnce(&mut Calibration)>;

/// Settings of a [`Selector`]. Environment variables win over them:
///
/// | variable | meaning |
/// |---|---|
/// | `POINTSMAN_FORCE` | serve from this variant or backend where it is eligible; `op=name` for one op; comma-separated |
/// | `POINTSMAN_DISABLE` | never choose this variant or backend; same form |
/// | `POINTSMAN_MODE` | `learn`, `frozen` or `reference` |
/// | `POINTSMAN_STORE` | a file, or `memory`; not instead of a store given with [`store`](Self::store) |
/// | `POINTSMAN_POLICY` | a policy by name, as [`policy::parse`] takes it |
/// | `POINTSMAN_SEED` | a whole number from 0 to 2^64 − 1 |
///
/// A value that means nothing is an error that names the valid ones.
#[must_use = "nothing is built before build()"]
pub struct SelectorBuilder {
    keep: Keep,
    mode: Mode,
    budget: f64,
    reserve: f64,
    seed: u64,
    policy: Arc<dyn Policy>,
    checks: Checks,
    sampling: Sampling,
    interval: Duration,
    clock: Arc<dyn Clock>,
    memory: Arc<dyn Memory>,
    machine: Option<Machine>,
    calibration: Option<Calibration>,
    calibrate: Option<Calibrate>,
    force: Vec<String>,
    disable: Vec<String>,
    get_env: GetEnv,
}

impl Default for SelectorBuilder {
    fn default() -> Self {
        SelectorBuilder {
            keep: Keep::Default,
            mode: Mode::Learn,
            budget: DEFAULT_BUDGET,
            reserve: DEFAULT_RESERVE,
            seed: 0,
            policy: Arc::new(Adaptive),
            checks: Checks::default(),
            sampling: Sampling::default(),
            interval: DEFAULT_INTERVAL,
            clock: Arc::new(SystemClock),
            memory: Arc::new(HostMemory),
            machine: None,
            calibration: None,
            calibrate: None,
            force: Vec::new(),
            disable: Vec::new(),
            get_env: Box::new(|name| std::env::var_os(name)),
        }
    }
}

impl SelectorBuilder {
    /// Keeps knowledge in this file, which many processes may share. It must lie on a local disk:
    /// SQLite's write-ahead log is unsafe on a network file system.
    pub fn store_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.keep = Keep::File(path.into());
        self
    }

    /// Keeps knowledge in memory only.
    pub fn in_memory(mut self) -> Self {
        self.keep = Keep::Memory;
        self
    }

    /// Keeps knowledge in a store of your own.
    pub fn store(mut self, store: impl Store + 'static) -> Self {
        self.keep = Keep::Own(Box::new(store));
        self
    }

    /// Whether it learns.
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// Share of the serving time that trials may cost: 0 to 1, 0.01 by default. The first three
    /// tries of each variant are outside it, also with 0; [`Mode::Frozen`] makes none. Other
    /// [policies](Self::policy) than the default do not keep to it.
    pub fn budget(mut self, share: f64) -> Self {
        self.budget = share;
        self
    }

    /// Share of free memory that is left alone: 0 to 1, 0.3 by default.
    pub fn memory_reserve(mut self, share: f64) -> Self {
        self.reserve = share;
        self
    }

    /// Who says how much memory is free; the operating system by default.
    pub fn memory(mut self, memory: impl Memory + 'static) -> Self {
        self.memory = Arc::new(memory);
        self
    }

    /// Seed of what is drawn by lot.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Who chooses; [`Adaptive`](crate::policy::Adaptive) by default. Only that one is bound by the
    /// [`budget`](Self::budget).
    ///
    /// ```
    /// use pointsman::{Selector, policy};
    ///
    /// let selector = Selector::builder().in_memory().policy(policy::Ucb1::default()).build()?;
    /// let same = Selector::builder().in_memory().policy(policy::parse("ucb1")?).build()?;
    /// assert_eq!(selector.policy(), same.policy());
    /// # Ok::<(), pointsman::BuildError>(())
    /// ```
    pub fn policy(mut self, policy: impl Policy + 'static) -> Self {
        self.policy = Arc::new(policy);
        self
    }

    /// When variants are checked against the reference.
    pub fn checks(mut self, checks: Checks) -> Self {
        self.checks = checks;
        self
    }

    /// Calls that are expected to take as long as this are all traced, if anybody listens; 100 µs by
    /// default. Others are by [`trace_share`](Self::trace_share).
    ///
    /// Spans go through [`tracing`](https://docs.rs/tracing), at level `INFO` with the target
    /// `pointsman::trace`: `backend_selection`, then `compute_block` or, on a GPU, `gpu_kernel`, both in the
    /// caller's current span. What is traced never changes what is learned.
    pub fn trace_slower_than(mut self, expected: Duration) -> Self {
        self.sampling.slow = expected;
        self
    }

    /// Share of the faster calls that are traced: 0 to 1, 0.01 by default.
    pub fn trace_share(mut self, share: f64) -> Self {
        self.sampling.share = share;
        self
    }

    /// An op that is called more often than this within a second is not traced until it is called
    /// less often; 10,000 by default, 0 for no traces at all, infinity for no limit.
    pub fn trace_hot_above(mut self, calls_per_second: f64) -> Self {
        self.sampling.hot_above = calls_per_second;
        self
    }

    /// How often changes are saved; 5 s by default.
    pub fn save_every(mut self, interval: Duration) -> Self {
        self.interval = interval;
        self
    }

    /// What tells the time; the system's clock by default.
    pub fn clock(mut self, clock: impl Clock + 'static) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// The machine to run for; the one detected by default.
    pub fn machine(mut self, machine: Machine) -> Self {
        self.machine = Some(machine);
        self
    }

    /// Constants of the cost model; from the store or measured by default.
    pub fn calibration(mut self, calibration: Calibration) -> Self {
        self.calibration = Some(calibration);
        self
    }

    /// Adds to a calibration what only the program can measure, GPUs above all. Called when this
    /// machine is calibrated, which is once: what comes out is kept in the store.
    pub fn calibrate(mut self, add: impl FnOnce(&mut Calibration) + 'static) -> Self {
        self.calibrate = Some(Box::new(add));
        self
    }

    /// Forces variants or backends, in the form of `POINTSMAN_FORCE`.
    pub fn force(mut self, rules: &str) -> Self {
        self.force.push(rules.to_owned());
        self
    }

    /// Disables variants or backends, in the form of `POINTSMAN_DISABLE`.
    pub fn disable(mut self, rules: &str) -> Self {
        self.disable.push(rules.to_owned());
        self
    }

    /// Reads environment variables through this function instead of from the process.
    pub fn environment(mut self, get: impl Fn(&str) -> Option<String> + 'static) -> Self {
        self.get_env = Box::new(move |name| get(name).map(OsString::from));
        self
    }

    /// Ignores the environment variables.
    pub fn ignore_environment(self) -> Self {
        self.environment(|_| None)
    }

    /// The selector, or what is wrong with its settings or the environment. A store that cannot be
    /// used is not an error: knowledge is kept in memory then, with one warning.
    pub fn build(self) -> Result<Selector, BuildError> {
        let share = |name, value: f64| match value {
            v if (0.0..=1.0).contains(&v) => Ok(()),
            v => Err(BuildError::Setting {
                name,
                value: v.to_string(),
                valid: "a number from 0 to 1",
            }),
        };
        share("budget", self.budget)?;
        share("memory reserve", self.reserve)?;
        self.policy.check()?;
        self.sampling.check()?;
        if self.interval.is_zero() {
            return Err(BuildError::Setting {
                name: "save_every",
                value: "0".to_owned(),
                valid: "a positive duration",
            });
        }
        let (mut env, bad) = Env::read(&self.get_env);
        if let Some(error) = bad {
            return Err(error);
        }
        for rules in &self.force {
            env.force.add(rules)?;
        }
        for rules in &self.disable {
            env.disable.add(rules)?;
        }
        Ok(self.finish(env, None))
    }

    /// The selector, whatever the environment says: the variables that make sense hold, and the
    /// first that does not is reported when an op is built.
    pub(crate) fn build_anyway(self) -> Selector {
        let (env, bad_env) = Env::read(&self.get_env);
        if let Some(error) = &bad_env {
            tracing::warn!(%error, "ignored");
        }
        self.finish(env, bad_env)
    }

    fn finish(self, env: Env, bad_env: Option<BuildError>) -> Selector {
        // A store that the program brings along is not the environment's to replace.
        let keep = match (&env.store, self.keep) {
            (_, Keep::Own(store)) => Keep::Own(store),
            (Some(StoreChoice::Memory), _) => Keep::Memory,
            (Some(StoreChoice::File(path)), _) => Keep::File(path.clone()),
            (None, keep) => keep,
        };
        let mode = env.mode.unwrap_or(self.mode);
        let seed = env.seed.unwrap_or(self.seed);
        let named = env.policy.as_deref().map(policy::parse);
        let policy = match named {
            Some(Ok(named)) => Arc::from(named),
            _ => self.policy,
        };
        let machine = self.machine.unwrap_or_else(Machine::detect);
        let fingerprint = machine.fingerprint();
        let (store, knowledge) = open(keep);
        let ours = |m: &&MachineRecord| m.fingerprint == fingerprint;
        let stored = knowledge.machines.iter().find(ours);
        let stored = stored.and_then(Calibration::from_record);
        let is_new = stored.is_none() && self.calibration.is_none() && mode == Mode::Learn;
        let calibration = self.calibration.or(stored).unwrap_or_else(|| match mode {
            Mode::Learn => {
                let mut calibration = measured_once();
                if let Some(add) = self.calibrate {
                    add(&mut calibration);
                }
                calibration
            }
            // What is measured differs from run to run; frozen decisions must not.
            Mode::Frozen | Mode::Reference => Calibration::nominal(),
        });
        Selector::assemble(Settings {
            seed,
            policy_name: policy.name().to_owned(),
            policy: policy.chooser(seed).is_some().then_some(policy),
            mode,
            env,
            bad_env,
            headroom: Headroom::new(self.memory, self.clock.clone(), self.reserve),
            checks: self.checks,
            sampling: self.sampling,
            budget: self.budget,
            clock: self.clock,
            machine,
            fingerprint,
            calibration,
            keep_calibration: is_new,
            store,
            knowledge,
            interval: self.interval,
        })
    }
}

/// What a selector is made of, with every default filled in.
pub(crate) struct Settings {
    pub(crate) mode: Mode,
    pub(crate) env: Env,
    pub(crate) bad_env: Option<BuildError>,
    pub(crate) seed: u64,
    /// Who chooses, if not `adaptive`.
    pub(crate) policy: Option<Arc<dyn Policy>>,
    pub(crate) policy_name: String,
    pub(crate) budget: f64,
    pub(crate) checks: Checks,
    pub(crate) sampling: Sampling,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) headroom: Headroom,
    pub(crate) machine: Machine,
    pub(crate) fingerprint: u64,
    pub(crate) calibration: Calibration,
    /// Whether the store does not have the calibration yet.
    pub(crate) keep_calibration: bool,
    pub(crate) store: Box<dyn Store>,
    pub(crate) knowledge: Knowledge,
    pub(crate) interval: Duration,
}

/// Calibration takes a tenth of a second: once per process is enough.
fn measured_once() -> Calibration {
    static MEASURED: OnceLock<Calibration> = OnceLock::new();
    MEASURED.get_or_init(Calibration::measure).clone()
}

/// Opens the store and reads it, or falls back to memory with one warning.
fn open(keep: Keep) -> (Box<dyn Store>, Knowledge) {
    let opened: Result<Box<dyn Store>, StoreError> = match keep {
        Keep::Memory => Ok(Box::new(MemoryStore::default())),
        Keep::Own(store) => Ok(store),
        Keep::File(path) => open_file(&path),
        Keep::Default => match store::default_path() {
            Some(path) => open_file(&path),
            None => Err(StoreError::Refused {
                path: PathBuf::from("~"),
                reason: "no home directory is known; set HOME or POINTSMAN_STORE".to_owned(),
            }),
        },
    };
    let loaded = opened.and_then(|mut store| {
        let knowledge = store.load()?;
        Ok((store, knowledge))
    });
    loaded.unwrap_or_else(|error| {
        tracing::warn!(%error, "the store cannot be used; learning in memory only");
        (Box::new(MemoryStore::default()), Knowledge::default())
    })
}

#[cfg(feature = "sqlite")]
fn open_file(path: &Path) -> Result<Box<dyn Store>, StoreError> {
    Ok(Box::new(store::SqliteStore::open(path)?))
}

#[cfg(not(feature = "sqlite"))]
fn open_file(path: &Path) -> Result<Box<dyn Store>, StoreError> {
    Err(StoreError::Refused {
        path: path.to_owned(),
        reason: "this build has no feature `sqlite`".to_owned(),
    })
}
