//! Statistics of selectors as metrics: read when they are sent, and at no other time.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use opentelemetry::KeyValue;
use opentelemetry::metrics::{AsyncInstrument, Meter, MeterProvider as _};
use opentelemetry_sdk::metrics::SdkMeterProvider;
use pointsman::{OpStats, Selector, VariantStats, WeakSelector};

use crate::export::Counts;

/// The selectors that are watched. They are not kept alive.
#[derive(Debug, Default)]
pub(crate) struct Watched(Mutex<Vec<WeakSelector>>);

impl Watched {
    pub(crate) fn add(&self, selector: &Selector) {
        let mut list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        list.retain(|known| known.upgrade().is_some());
        list.push(selector.downgrade());
    }

    pub(crate) fn clear(&self) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
    }

    /// Statistics of every op of every selector.
    fn stats(&self) -> Vec<OpStats> {
        let list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let live: Vec<Selector> = list.iter().filter_map(WeakSelector::upgrade).collect();
        drop(list);
        live.iter().flat_map(Selector::stats).collect()
    }

    /// Makes the instruments.
    pub(crate) fn register(provider: &SdkMeterProvider, counts: Arc<Counts>) -> Arc<Self> {
        let watched = Arc::<Watched>::default();
        let meter = provider.meter("pointsman");
        watched.count_selections(&meter);
        watched.count_variants(&meter, "pointsman.failures", "Failed attempts", |v| {
            v.failures
        });
        watched.count_variants(
            &meter,
            "pointsman.quarantines",
            "How often a variant was excluded for a while",
            |v| v.quarantines,
        );
        watched.time_trials(&meter);
        watched.estimate_regret(&meter);
        watched.gauge(
            &meter,
            "pointsman.confidence",
            "Probability that choices are within 5 % of the best, mean over calls",
            |op| op.confidence,
        );
        watched.gauge(
            &meter,
            "pointsman.right",
            "Share of choices that were within 5 % of the best measured alternative",
            |op| op.right_share,
        );
        count_spans(&meter, &counts, "exported", |c| &c.exported);
        count_spans(&meter, &counts, "failed", |c| &c.failed);
        count_spans(&meter, &counts, "dropped", |c| &c.dropped);
        watched
    }

    fn count_selections(self: &Arc<Self>, meter: &Meter) {
        let watched = self.clone();
        meter
            .u64_observable_counter("pointsman.selections")
            .with_description(
                "Calls, by who served them and why; settled: by a choice made earlier",
            )
            .with_callback(move |observer| {
                watched.each_variant(|op, variant| {
                    for (reason, count) in &variant.reasons {
                        let mut who = who(op, variant);
                        who.push(KeyValue::new("reason", *reason));
                        observer.observe(*count, &who);
                    }
                });
            })
            .build();
    }

    fn count_variants(
        self: &Arc<Self>,
        meter: &Meter,
        name: &'static str,
        what: &'static str,
        count: fn(&VariantStats) -> u64,
    ) {
        let watched = self.clone();
        meter
            .u64_observable_counter(name)
            .with_description(what)
            .with_callback(move |observer| {
                watched.each_variant(|op, v| observer.observe(count(v), &who(op, v)));
            })
            .build();
    }

    fn time_trials(self: &Arc<Self>, meter: &Meter) {
        let watched = self.clone();
        let observe = |observer: &dyn AsyncInstrument<f64>, ns: f64, kind, mut who: Vec<_>| {
            who.push(KeyValue::new("kind", kind));
            observer.observe(ns / 1e9, &who);
        };
        meter
            .f64_observable_counter("pointsman.trial.time")
            .with_unit("s")
            .with_description("Time spent in trials, and in first tries of variants")
            .with_callback(move |observer| {
                watched.each_variant(|op, v| {
                    observe(observer, v.trial_ns, "trial", who(op, v));
                    observe(observer, v.first_try_ns, "first_try", who(op, v));
                });
            })
            .build();
    }

    fn estimate_regret(self: &Arc<Self>, meter: &Meter) {
        let watched = self.clone();
        meter
            .f64_observable_counter("pointsman.regret")
            .with_unit("s")
            .with_description("Time beyond the best known variant, by cause: an estimate")
            .with_callback(move |observer| {
                for op in watched.stats() {
                    for (cause, ns) in [
                        ("trial", op.trial_excess_ns),
                        ("first_try", op.first_try_excess_ns),
                        ("wrong_choice", op.wrong_excess_ns),
                    ] {
                        let labels = [
                            KeyValue::new("op", op.op.clone()),
                            KeyValue::new("cause", cause),
                        ];
                        observer.observe(ns / 1e9, &labels);
                    }
                }
            })
            .build();
    }

    fn gauge(
        self: &Arc<Self>,
        meter: &Meter,
        name: &'static str,
        what: &'static str,
        figure: fn(&OpStats) -> Option<f64>,
    ) {
        let watched = self.clone();
        meter
            .f64_observable_gauge(name)
            .with_description(what)
            .with_callback(move |observer| {
                for op in watched.stats() {
                    if let Some(figure) = figure(&op) {
                        observer.observe(figure, &[KeyValue::new("op", op.op.clone())]);
                    }
                }
            })
            .build();
    }

    fn each_variant(&self, mut with: impl FnMut(&OpStats, &VariantStats)) {
        for op in self.stats() {
            op.variants.iter().for_each(|variant| with(&op, variant));
        }
    }
}

fn who(op: &OpStats, variant: &VariantStats) -> Vec<KeyValue> {
    vec![
        KeyValue::new("op", op.op.clone()),
        KeyValue::new("variant", variant.name.clone()),
        KeyValue::new("backend", variant.backend.to_string()),
    ]
}

fn count_spans(
    meter: &Meter,
    counts: &Arc<Counts>,
    what: &'static str,
    count: fn(&Counts) -> &AtomicU64,
) {
    let counts = counts.clone();
    meter
        .u64_observable_counter(format!("pointsman.otlp.spans.{what}"))
        .with_description("What became of the spans")
        .with_callback(move |observer| observer.observe(count(&counts).load(Relaxed), &[]))
        .build();
}
