//! How far tuning is, on a terminal.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

use super::measure::Task;

/// A bar that fills with the time or the work, whichever is further.
pub(super) struct Progress {
    bar: ProgressBar,
    tasks: usize,
    start: Instant,
    time: Duration,
}

/// Steps of the bar.
const STEPS: u64 = 1000;

impl Progress {
    /// Shown if standard error is a terminal.
    pub(super) fn new(tasks: usize, time: Duration) -> Self {
        let bar = ProgressBar::new(STEPS);
        let template = "{elapsed:>4} {bar:30} {percent:>3} %  {msg}";
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(200));
        Progress {
            bar,
            tasks,
            start: Instant::now(),
            time,
        }
    }

    /// A task begins.
    pub(super) fn at(&self, task: &Task<'_>, number: usize) {
        let by_work = number as f64 / self.tasks.max(1) as f64;
        let by_time = self.start.elapsed().as_secs_f64() / self.time.as_secs_f64().max(1e-9);
        let done = by_work.max(by_time).min(1.0);
        self.bar.set_position((done * STEPS as f64) as u64);
        let (op, size) = (task.op(), task.size());
        self.bar.set_message(format!("{op} {size}"));
    }

    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
