//! What spans cost: where nobody listens, of an op that is too hot to be traced, and of slow calls,
//! which are all traced.

use std::fmt;
use std::hint::black_box;
use std::time::{Duration, Instant};

use pointsman::{Backend, BuildError, Selector, Workload};
use tracing::dispatcher::{self, Dispatch};
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id};
use tracing::{Level, Subscriber, callsite};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;

use crate::timing::{Contestant, median, rounds};

/// Just slow enough that every call is traced.
const SLOW: Duration = Duration::from_micros(120);

/// Time in which an op that is called all the time becomes hot, with some to spare.
const WARM_UP: Duration = Duration::from_millis(100);

/// Calls of a slow op that are made with and without a listener in turn.
const LISTENED: u32 = 64;

pub(crate) struct Traced {
    pub(crate) off_ns: f64,
    pub(crate) hot_ns: f64,
    pub(crate) slow_share: f64,
}

/// What a call does to learn whether anybody listens.
#[inline(always)]
pub(crate) fn look() {
    if Level::INFO <= LevelFilter::current() {
        heard();
    }
}

#[cold]
#[inline(never)]
fn heard() {
    black_box(());
}

/// Keeps every field of a span until it ends, as an exporter does.
struct Keeper;

struct Kept(Vec<(&'static str, Value)>);

#[allow(dead_code)] // kept, and never read
enum Value {
    Text(String),
    Number(i64),
    Real(f64),
    Bool(bool),
}

impl Visit for Kept {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.push((field.name(), Value::Text(value.to_owned())));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.0.push((field.name(), Value::Number(value)));
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.0.push((field.name(), Value::Real(value)));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.0.push((field.name(), Value::Bool(value)));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0
            .push((field.name(), Value::Text(format!("{value:?}"))));
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Keeper {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut kept = Kept(Vec::with_capacity(attributes.fields().len()));
        attributes.record(&mut kept);
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(kept);
        }
    }
}

fn listener() -> Dispatch {
    Dispatch::new(tracing_subscriber::registry().with(Keeper))
}

/// Runs rounds while somebody listens.
fn heard_rounds<const N: usize>(contestants: [&Contestant<'_>; N], count: u32) -> [Vec<f64>; N] {
    let listener = listener();
    let took = dispatcher::with_default(&listener, || rounds(contestants, count));
    drop(listener);
    // Without this, everybody would go on asking whether they are heard.
    callsite::rebuild_interest_cache();
    took
}

/// `looked` is the direct call after a look; `run` the same call through a settled op.
pub(crate) fn measure(
    direct: &Contestant<'_>,
    looked: &Contestant<'_>,
    run: &Contestant<'_>,
    count: u32,
) -> Result<Traced, BuildError> {
    let mut off = Vec::new();
    let mut hot = Vec::new();
    let start = Instant::now();
    while start.elapsed() < WARM_UP {
        heard_rounds([run], 10);
    }
    // Listening is switched on and off all the time, so that both are measured in the same weather.
    for _ in 0..count.div_ceil(4) {
        let [silent, looking, unheard] = rounds([direct, looked, run], 4);
        let [beside, heard] = heard_rounds([direct, run], 4);
        for i in 0..silent.len() {
            off.push(looking[i] - silent[i]);
            hot.push((heard[i] - beside[i]) - (unheard[i] - silent[i]));
        }
    }
    Ok(Traced {
        off_ns: median(off),
        hot_ns: median(hot),
        slow_share: slow_share(count)?,
    })
}

/// What tracing adds to an op of which every call is traced, as a share of its time.
fn slow_share(count: u32) -> Result<f64, BuildError> {
    let selector = Selector::builder()
        .in_memory()
        .ignore_environment()
        .build()?;
    let wait = |n: &u64, longer: u32| {
        let start = Instant::now();
        while start.elapsed() < SLOW * longer {
            std::hint::spin_loop();
        }
        *n
    };
    let op = selector
        .function("overhead_slow", |n: &u64| Workload::new([*n]))
        .reference("patient", Backend::Scalar, move |n| wait(n, 2))
        .variant("quick", Backend::Simd, move |n| wait(n, 1))
        .build()?;
    for _ in 0..200 {
        black_box(op.run(&64));
    }
    let run = Contestant::new(|| _ = black_box(op.run(&64)));
    let mut shares = Vec::new();
    // Long enough that a listener's own first steps do not count.
    for _ in 0..count.div_ceil(LISTENED) {
        let [unheard] = rounds([&run], LISTENED);
        let [heard] = heard_rounds([&run], LISTENED);
        shares.push(median(heard) / median(unheard) - 1.0);
    }
    Ok(median(shares))
}
