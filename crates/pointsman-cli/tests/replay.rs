//! The parts of `pointsman replay`: tables, streams, the driver and the figures.

use std::collections::HashSet;
use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use pointsman::{Cell, FakeClock, Reason};
use pointsman_cli::replay::drive::{Run, Served, drive, selector};
use pointsman_cli::replay::plot::{Curve, Panel, svg};
use pointsman_cli::replay::score::{Score, Subject, score};
use pointsman_cli::replay::stream::{Order, stream};
use pointsman_cli::replay::table::Table;
use proptest::prelude::*;

fn read(text: &str) -> Table {
    Table::read("t", text.as_bytes()).unwrap()
}

fn refused(text: &str) -> String {
    Table::read("t", text.as_bytes()).unwrap_err().to_string()
}

/// Four workloads; the last has three rows.
const FOUR: &str = "x:n,t:a,t:b\n1,1,2\n2,4,2\n3,,3\n4,1,6\n4,3,\n4,8,4\n";

#[test]
fn rows_with_equal_features_are_one_workload_whose_costs_are_medians() {
    let table = read(FOUR);
    assert_eq!(table.variants, ["a", "b"]);
    let rows: Vec<(usize, usize)> = table.cases.iter().map(|c| (c.row, c.rows)).collect();
    assert_eq!(rows, [(0, 1), (1, 1), (2, 1), (3, 3)]);
    let truths = |case: usize| -> Vec<(usize, f64)> {
        let choices = table.cases[case].choices.iter();
        choices.map(|c| (c.variant, c.truth)).collect()
    };
    assert_eq!(truths(0), [(0, 1.0), (1, 2.0)]);
    assert_eq!(truths(2), [(1, 3.0)]); // a blank time: it cannot run
    assert_eq!(truths(3), [(0, 3.0), (1, 5.0)]); // of an even number, the mean of two
}

#[test]
fn equal_features_are_equal_however_they_are_written() {
    let table = read("x:n,c:k,t:a,t:b\n1e3,u,1,2\n\" 1000.0\",\"u\",3,2\n-0,v,1,1\n0,v,1,1\r\n");
    let rows: Vec<usize> = table.cases.iter().map(|c| c.rows).collect();
    assert_eq!(rows, [2, 2]);
}

#[test]
fn more_categories_than_a_workload_has_codes_are_merged_without_loss() {
    let mut text = "c:1,c:2,c:3,c:4,c:5,c:6,t:a,t:b\n".to_owned();
    for bits in 0..64 {
        let values: Vec<String> = (0..6).map(|c| format!("v{}", bits >> c & 1)).collect();
        text += &format!("{},1,2\n", values.join(","));
    }
    let table = read(&text);
    let cells: HashSet<Cell> = table.cases.iter().map(|c| c.workload.cell()).collect();
    assert_eq!(cells.len(), 64);
}

#[test]
fn a_malformed_table_is_refused_with_its_line_and_column() {
    let is = |text: &str, words: &[&str]| {
        let told = refused(text);
        assert_eq!(told.lines().count(), 1, "{told}");
        assert!(told.starts_with("t: line "), "{told}");
        for word in words {
            assert!(told.contains(word), "{word:?} is missing: {told}");
        }
    };
    let head = "x:n,c:k,t:a,t:b,m:b\n1,u,1,2,0\n";
    let row = |row: &str| format!("{head}{row}\n");
    is("", &["line 1", "empty", "x:…, c:… and t:…"]);
    is("\n\n", &["line 1", "empty"]);
    is("x:n,t:a,t:b\n", &["line 1", "no row"]);
    is("x:n,t:a\n1,2\n", &["line 1", "one variant only", "\"a\""]);
    is("x:n\n1\n", &["line 1", "no column t:…"]);
    is("t:a,t:b\n1,2\n", &["line 1", "no column x:… or c:…"]);
    is(
        "x:n,t:a,t:b,time\n",
        &["line 1", "column 4 (time)", "t:VARIANT"],
    );
    is("x:n,t:a,t:b,y:q\n", &["line 1", "column 4 (y:q)"]);
    is("x:n,t:a,t:b,x:\n", &["line 1", "column 4 (x:)", "missing"]);
    is(
        "x:n,t:a,t:b,x:n\n",
        &["line 1", "column 4 (x:n)", "column 1"],
    );
    is(
        "x:n,t:a,t:b,t:a\n",
        &["line 1", "column 4 (t:a)", "column 2"],
    );
    is("x:n,t:a,t:b,m:c\n", &["line 1", "column 4 (m:c)", "t:c"]);
    is(
        &row("2,u,1,2"),
        &["line 3", "4 fields", "5 columns", "column 5 (m:b)"],
    );
    is(&row("2,u,1,2,0,0"), &["line 3", "6 fields", "5 columns"]);
    is(
        &row("many,u,1,2,0"),
        &["line 3", "column 1 (x:n)", "\"many\""],
    );
    is(&row(",u,1,2,0"), &["line 3", "column 1 (x:n)", "\"\""]);
    is(
        &row("NaN,u,1,2,0"),
        &["line 3", "column 1 (x:n)", "\"NaN\""],
    );
    is(
        &row("inf,u,1,2,0"),
        &["line 3", "column 1 (x:n)", "\"inf\""],
    );
    for time in ["fast", "-1", "0", "nan", "inf", "1e999", "1e-30", "1 s"] {
        let quoted = format!("{time:?}");
        is(
            &row(&format!("2,u,{time},2,0")),
            &["line 3", "column 3 (t:a)", &quoted, "seconds"],
        );
    }
    is(
        &row("2,u,1,2,-1"),
        &["line 3", "column 5 (m:b)", "\"-1\"", "bytes"],
    );
    is(
        &row("2,u,1,2,much"),
        &["line 3", "column 5 (m:b)", "\"much\""],
    );
    is(&row("2,u,,,"), &["line 3", "no variant can run"]);
    is(&row("2,\u{7}\r,1,2,0"), &["line 3", "carriage return"]);
    let long = "z".repeat(5_000);
    is(&row(&format!("{long},u,1,2,0")), &["line 3", "zzz…\""]);
}

#[test]
fn a_workload_is_refused_where_its_first_row_is() {
    let told = refused("x:n,t:a,t:b\n1,1,2\n2,,\n3,1,1\n2,,\n");
    assert!(told.starts_with("t: line 3: no variant can run"), "{told}");
    // One row with a time is enough.
    assert_eq!(read("x:n,t:a,t:b\n2,,\n2,1,\n").cases.len(), 1);
}

#[test]
fn a_table_of_too_many_rows_is_refused() {
    let rows = "1,1,2\n".repeat(2_000_001);
    let told = refused(&format!("x:n,t:a,t:b\n{rows}"));
    assert!(
        told.starts_with("t: line 2000002: more than 2000000 rows"),
        "{told}"
    );
}

#[test]
fn limits_of_a_selector_are_named() {
    let variants = |n: usize| -> String { (0..n).map(|v| format!(",t:v{v}")).collect() };
    let times = |n: usize| ",1".repeat(n);
    assert!(
        refused(&format!("x:n{}\n", variants(65)))
            .contains("65 variants; a selector tells at most 64")
    );
    let table = read(&format!("x:n{}\n1{}\n", variants(64), times(64)));
    assert_eq!(table.cases[0].choices.len(), 64);
    let features = |n: usize| -> String { (0..n).map(|x| format!("x:f{x},")).collect() };
    assert!(refused(&format!("{}t:a,t:b\n", features(17))).contains("17 columns x:…"));
    read(&format!(
        "{}t:a,t:b\n{}1,1\n",
        features(16),
        "7,".repeat(16)
    ));
    let name = "n".repeat(129);
    assert!(refused(&format!("x:n,t:a,t:{name}\n")).contains("column 3"));
}

#[test]
fn times_reach_the_selector_without_losing_precision() {
    let scale = |least: f64, most: f64| read(&format!("x:n,t:a,t:b\n1,{least},{most}\n")).scale;
    assert_eq!(scale(1e-6, 1.0), 1.0);
    assert_eq!(scale(2e-9, 1.0), 1_000.0);
    assert_eq!(scale(1.6e-12, 1e-9), 1e6);
    assert_eq!(scale(2e-9, 2_000.0), 1.0); // or the longest would be no cost
    assert_eq!(scale(1.0, 1e9), 1e-5);
}

#[test]
fn a_memory_cap_leaves_those_that_fit() {
    let table = read("x:n,t:a,t:b,m:a,m:b\n1,1,2,100,0\n2,1,2,100,\n3,1,2,100,200\n");
    assert!(table.knows_memory && !read(FOUR).knows_memory);
    let (all, left_out) = table.clone().within(200).unwrap();
    assert_eq!((all.cases[2].choices.len(), left_out), (2, 0));
    let (some, left_out) = table.clone().within(99).unwrap();
    assert_eq!((some.cases.len(), left_out), (2, 1));
    assert!(some.cases.iter().all(|c| c.best() == 2.0));
    let none = read("x:n,t:a,t:b,m:a,m:b\n1,1,2,100,200\n").within(99);
    assert!(none.unwrap_err().to_string().contains("99 bytes"));
}

#[test]
fn once_calls_every_workload_once_in_an_order_of_its_seed() {
    let order = |seed: u64| -> Vec<u32> {
        let calls = stream(50, Order::Once, 7, 0.03, seed);
        calls.iter().map(|call| call.case).collect()
    };
    let mut sorted = order(1);
    sorted.sort_unstable();
    assert_eq!(sorted, (0..50).collect::<Vec<u32>>());
    assert_eq!(order(1), order(1));
    assert_ne!(order(1), order(2));
}

#[test]
fn zipf_calls_the_workload_of_rank_r_in_proportion_to_1_over_r() {
    let counts = |seed: u64| {
        let mut counts = [0u32; 10];
        let calls = stream(10, Order::Zipf, 200_000, 0.03, seed);
        calls.iter().for_each(|c| counts[c.case as usize] += 1);
        counts
    };
    let first = |counts: [u32; 10]| (0..10).max_by_key(|case| counts[*case]);
    let firsts: HashSet<Option<usize>> = (1..6).map(|seed| first(counts(seed))).collect();
    assert!(firsts.len() > 1, "the seed draws who has which rank");
    let mut counts = counts(3);
    counts.sort_unstable_by(|a, b| b.cmp(a));
    let harmonic: f64 = (1..=10).map(|r| 1.0 / f64::from(r)).sum();
    for (rank, count) in (1..).zip(counts) {
        let expected = 200_000.0 / f64::from(rank) / harmonic;
        // Five standard deviations of a count, which has at most that of a Poisson count.
        assert!(
            (f64::from(count) - expected).abs() < 5.0 * expected.sqrt(),
            "rank {rank}: {count}"
        );
    }
}

#[test]
fn a_time_is_a_repeat_or_the_single_row_with_noise() {
    let table = read(FOUR);
    let (single, repeated) = (&table.cases[0], &table.cases[3]);
    let calls = stream(4, Order::Zipf, 4_000, 0.1, 1);
    let logs: Vec<f64> = calls
        .iter()
        .map(|call| call.seconds(single, &single.choices[1]).ln() - 2f64.ln())
        .collect();
    let mean = logs.iter().sum::<f64>() / 4_000.0;
    let sd = (logs.iter().map(|l| (l - mean).powi(2)).sum::<f64>() / 4_000.0).sqrt();
    // Five standard errors of a mean and of a standard deviation.
    assert!(mean.abs() < 5.0 * 0.1 / 4_000f64.sqrt(), "{mean}");
    assert!((sd - 0.1).abs() < 5.0 * 0.1 / 8_000f64.sqrt(), "{sd}");
    let mut drawn = [0u32; 9];
    for call in &calls {
        drawn[call.seconds(repeated, &repeated.choices[1]) as usize] += 1;
    }
    assert_eq!(drawn[4] + drawn[6], 4_000); // no noise, and not the blank row
    assert!(drawn[4] > 1_800 && drawn[6] > 1_800, "{drawn:?}");
    let still = stream(4, Order::Zipf, 10, 0.0, 1);
    assert!(
        still
            .iter()
            .all(|call| call.seconds(single, &single.choices[1]) == 2.0)
    );
}

fn subject() -> Subject {
    Subject {
        table: "t".to_owned(),
        policy: "adaptive".to_owned(),
        order: Order::Zipf,
        seed: 1,
        budget: 0.01,
    }
}

/// Eight calls, as (case, choice, reason, seconds).
fn eight_calls() -> Run {
    let served = [
        (0, 0, Reason::Prior, 1.0),
        (0, 1, Reason::Trial, 2.5),
        (0, 0, Reason::Historical, 0.9),
        (1, 0, Reason::FirstTry, 4.0),
        (1, 1, Reason::Historical, 2.0),
        (1, 0, Reason::Historical, 4.0),
        (2, 0, Reason::OnlyEligible, 3.0),
        (3, 0, Reason::Historical, 8.0),
    ]
    .map(|(case, choice, reason, seconds)| Served {
        case,
        choice,
        reason,
        confidence: 1.0,
        seconds,
    });
    Run {
        served: served.to_vec(),
        elapsed: Duration::from_millis(2),
    }
}

/// As equal as sums of a few numbers in another order are.
fn near(a: f64, b: f64) {
    assert!(
        (a - b).abs() <= 8.0 * f64::EPSILON * b.abs(),
        "{a} is not {b}"
    );
}

#[test]
fn the_figures_are_those_computed_by_hand() {
    let s = score(&read(FOUR), subject(), &eight_calls());
    assert_eq!(s.calls, 8);
    // True costs 1 2 1 4 2 4 3 3 beside the oracle's 1 1 1 2 2 2 3 3.
    near(s.total, 20.0 / 15.0);
    near(s.geomean, 2f64.powf(3.0 / 8.0));
    near(s.late_total, 12.0 / 10.0);
    near(s.late_geomean, 2f64.powf(1.0 / 4.0));
    near(s.p95, 2.0);
    near(s.trial_share, 1.5 / 25.4);
    near(s.first_try_share, 2.0 / 25.4);
    near(s.right_share, 5.0 / 8.0);
    near(s.flips, 1.0 / 4.0);
    // `a` takes 3 + 12 + 3 (the median of those who can) + 3, `b` takes 6 + 6 + 3 + 5.
    assert_eq!(s.best_fixed, "b");
    near(s.best_fixed_total, 20.0 / 15.0);
    near(
        s.best_fixed_geomean,
        ((3.0 * 2f64.ln() + (5.0f64 / 3.0).ln()) / 8.0).exp(),
    );
    near(s.calls_per_s, 4_000.0);
}

#[test]
fn p95_is_the_ratio_that_19_of_20_calls_do_not_exceed() {
    let table = read("x:n,t:a,t:b,t:c\n1,1,2,3\n");
    let p95 = |slow: usize, slower: usize| {
        let choice = |at| u32::from(at < slow) + u32::from(at < slower);
        let served = (0..40).map(|at| Served {
            case: 0,
            choice: choice(at),
            reason: Reason::Historical,
            confidence: 1.0,
            seconds: 1.0,
        });
        let run = Run {
            served: served.collect(),
            elapsed: Duration::from_secs(1),
        };
        score(&table, subject(), &run).p95
    };
    assert_eq!(
        (p95(2, 0), p95(3, 0), p95(3, 2), p95(3, 3)),
        (1.0, 2.0, 2.0, 3.0)
    );
}

fn replay(table: &Table, order: Order, calls: usize, seed: u64) -> (Run, Score) {
    let clock = FakeClock::new();
    let selector = selector("adaptive", seed, 0.01, clock.clone()).unwrap();
    let calls = stream(table.cases.len(), order, calls, 0.03, seed);
    let run = drive(table, &calls, &selector, &clock);
    let score = score(table, subject(), &run);
    (run, score)
}

#[test]
fn the_driver_learns_which_variant_is_fast() {
    // Nanoseconds: what the selector sees must be scaled for this to be learned well.
    let mut text = "x:n,c:k,t:a,t:b\n".to_owned();
    for n in 1..20 {
        text += &format!("{n},small,{n}e-9,{n}.5e-8\n{n},large,{n}e-7,{n}.5e-9\n");
    }
    let table = read(&text);
    let (run, score) = replay(&table, Order::Zipf, 4_000, 5);
    assert_eq!(run.served.len(), 4_000);
    assert!(score.late_total < 1.02, "{score:?}");
    assert!(score.best_fixed_total > 2.0 * score.total, "{score:?}");
    assert!(run.served.iter().any(Served::is_trial));
    // Seconds are those of the table, whatever the scale.
    assert!(run.served.iter().all(|s| s.seconds < 3e-6));
}

#[test]
fn a_variant_that_cannot_run_is_never_chosen() {
    let table = read("x:n,t:a,t:b,t:c\n1,1,,3\n2,,2,1\n3,1,1,\n");
    let (run, _) = replay(&table, Order::Zipf, 300, 1);
    for served in run.served {
        let case = &table.cases[served.case as usize];
        assert!((served.choice as usize) < case.choices.len());
    }
}

#[test]
fn an_unknown_policy_is_refused_with_the_valid_ones() {
    let told = selector("magic", 1, 0.01, FakeClock::new()).err().unwrap();
    let told = told.to_string();
    assert!(
        told.contains("magic") && told.contains("adaptive"),
        "{told}"
    );
}

#[test]
fn a_curve_is_the_mean_over_seeds_of_the_regret_so_far() {
    let table = read(FOUR);
    let mut curve = Curve::new("adaptive");
    curve.add(&table, &eight_calls());
    let regret: Vec<(f64, f64)> = curve.points.clone();
    assert_eq!(regret.len(), 8);
    near(regret[0].1 + 1.0, 1.0);
    near(regret[1].1 + 1.0, 3.0 / 2.0);
    near(regret[7].1 + 1.0, 20.0 / 15.0);
    let mut perfect = eight_calls();
    perfect
        .served
        .iter_mut()
        .for_each(|s| (s.case, s.choice) = (0, 0));
    curve.add(&table, &perfect);
    near(curve.points[7].1, (20.0 / 15.0 - 1.0) / 2.0);
}

#[test]
fn a_picture_has_a_panel_a_table_and_a_line_a_policy() {
    let table = read(FOUR);
    let panel = |title: &str| {
        let curves = ["adaptive", "other"].map(|policy| {
            let mut curve = Curve::new(policy);
            curve.add(&table, &eight_calls());
            curve
        });
        Panel {
            title: title.to_owned(),
            curves: curves.to_vec(),
        }
    };
    let picture = svg(&[panel("first"), panel("a<b")]).unwrap();
    assert!(picture.starts_with("<svg") && picture.trim_end().ends_with("</svg>"));
    for word in ["first", "a&lt;b", "adaptive", "other", "calls"] {
        assert!(picture.contains(word), "{word}");
    }
    // One line a policy and panel, and one beside each name.
    let line = |colour: &str| {
        picture
            .matches(&format!("fill=\"none\" opacity=\"1\" stroke=\"{colour}\""))
            .count()
    };
    assert_eq!(line("#0072B2"), 4);
}

/// The project's neighbours: tables that are not part of it.
#[test]
fn the_shared_tables_can_be_replayed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    let Ok(files) = std::fs::read_dir(&folder) else {
        // Past the test harness, which keeps what passing tests print to itself.
        let mut out = std::io::stderr();
        writeln!(out, "SKIPPED: no tables in {}", folder.display()).unwrap();
        return;
    };
    let paths = files.map(|file| file.unwrap().path());
    for path in paths.filter(|path| path.extension().is_some_and(|e| e == "csv")) {
        let table = Table::open(&path).unwrap();
        for order in [Order::Zipf, Order::Once] {
            let (run, score) = replay(&table, order, 300, 1);
            assert!(score.total >= 1.0 && score.geomean >= 1.0, "{score:?}");
            assert!(score.best_fixed_total >= 1.0, "{score:?}");
            assert!((0.0..=1.0).contains(&score.trial_share), "{score:?}");
            let calls = if order == Order::Once {
                table.cases.len()
            } else {
                300
            };
            assert_eq!(run.served.len(), calls);
        }
    }
}

/// A table of any bytes is read or refused; what is read can be replayed.
fn is_safe(bytes: &[u8]) {
    match Table::read("t", bytes) {
        Err(told) => assert_eq!(told.to_string().lines().count(), 1),
        Ok(table) => {
            let (_, score) = replay(&table, Order::Zipf, 40, 1);
            let json = serde_json::to_value(&score).unwrap();
            let numbers = json.as_object().unwrap().values();
            assert!(numbers.clone().all(|value| !value.is_null()), "{json}");
            assert!(score.total >= 1.0 && score.geomean >= 1.0 - 1e-9);
        }
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        is_safe(&bytes);
    }

    #[test]
    fn a_damaged_table_is_read_or_refused(
        rows in prop::collection::vec("[0-4],[a-c]?,[1-9](e-?[0-9])?,[1-9]?,[0-9]?", 1..12),
        damage in prop::collection::vec(any::<u8>(), 0..4),
        at: prop::sample::Index,
        cut in 0usize..4,
    ) {
        let mut bytes = format!("x:n,c:k,t:a,t:b,m:b\n{}\n", rows.join("\n")).into_bytes();
        is_safe(&bytes);
        prop_assert!(Table::read("t", &*bytes).is_ok());
        let from = at.index(bytes.len());
        bytes.splice(from..(from + cut).min(bytes.len()), damage);
        is_safe(&bytes);
    }

    #[test]
    fn any_times_can_be_replayed(
        rows in prop::collection::vec((0u8..4, -15i32..12, -15i32..12), 1..20),
    ) {
        let rows: String = rows.iter().map(|(x, a, b)| format!("{x},1e{a},1e{b}\n")).collect();
        is_safe(format!("x:n,t:a,t:b\n{rows}").as_bytes());
    }
}
