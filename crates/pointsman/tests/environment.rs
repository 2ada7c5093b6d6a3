//! Environment variables: each bad one is one clear error that names the valid values, and each good
//! one changes what happens. Row 44 of the table of faults.

mod common;

use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use common::{Log, MICRO, environment, numbers, takes};
use pointsman::{Backend, BuildError, FakeClock, Mode, Outcome, Selector, Workload};

type Pairs<'a> = &'a [(&'static str, &'static str)];

fn with(pairs: Pairs<'_>) -> Result<Selector, BuildError> {
    Selector::builder()
        .in_memory()
        .environment(environment(pairs))
        .build()
}

/// The error of building a selector, or of declaring an op on it.
fn error(pairs: Pairs<'_>) -> BuildError {
    let declared = with(pairs).and_then(|selector| {
        let (clock, log) = (FakeClock::new(), Log::default());
        numbers(&selector, "dot")
            .reference("plain", Backend::Scalar, takes(&clock, &log, "plain", 1))
            .variant("avx2", Backend::Simd, takes(&clock, &log, "avx2", 1))
            .build()
    });
    declared
        .err()
        .unwrap_or_else(|| panic!("{pairs:?} is no error"))
}

#[test]
fn f44_each_bad_variable_is_one_error_that_names_what_is_valid() {
    let modes: &[&str] = &["learn", "frozen", "reference"];
    let numbers: &[&str] = &["0", "18446744073709551615"];
    let rules: &[&str] = &["variant", "backend", "op=variant"];
    let names: &[&str] = &["dot", "plain", "avx2", "scalar", "simd", "threads", "gpu"];
    for (variable, value, valid) in [
        ("POINTSMAN_MODE", "Frozen", modes),
        ("POINTSMAN_MODE", " learn", modes),
        ("POINTSMAN_MODE", "off", modes),
        ("POINTSMAN_SEED", "-1", numbers),
        ("POINTSMAN_SEED", "1.5", numbers),
        ("POINTSMAN_SEED", "18446744073709551616", numbers),
        ("POINTSMAN_SEED", "0x10", numbers),
        ("POINTSMAN_SEED", "seven", numbers),
        ("POINTSMAN_FORCE", ",", rules),
        ("POINTSMAN_FORCE", "dot=", rules),
        ("POINTSMAN_FORCE", "=avx2", rules),
        ("POINTSMAN_FORCE", "avx2,,plain", rules),
        ("POINTSMAN_FORCE", "avx3", names),
        ("POINTSMAN_FORCE", "dot=avx3", names),
        ("POINTSMAN_FORCE", "AVX2", names),
        ("POINTSMAN_DISABLE", "=", rules),
        ("POINTSMAN_DISABLE", "dot=gpu:9", names),
        ("POINTSMAN_DISABLE", "plane", names),
    ] {
        let error = error(&[(variable, value)]);
        assert!(matches!(&error, BuildError::Environment { variable: v, .. } if *v == variable));
        let text = error.to_string();
        assert!(!text.contains('\n'), "one line: {text}");
        let shown = value.rsplit('=').next().unwrap();
        for part in valid.iter().chain([&variable, &shown]) {
            assert!(
                text.contains(part),
                "{variable}={value}: {text} lacks {part:?}"
            );
        }
    }
}

#[test]
fn f44_an_empty_variable_counts_as_unset() {
    for variable in ["MODE", "SEED", "FORCE", "DISABLE", "STORE"] {
        let name: &'static str = format!("POINTSMAN_{variable}").leak();
        let selector = with(&[(name, "")]).unwrap();
        assert_eq!(selector.mode(), Mode::Learn);
    }
}

#[test]
fn the_mode_of_the_environment_wins() {
    for (value, mode) in [
        ("learn", Mode::Learn),
        ("frozen", Mode::Frozen),
        ("reference", Mode::Reference),
    ] {
        let selector = Selector::builder()
            .in_memory()
            .mode(Mode::Reference)
            .environment(environment(&[("POINTSMAN_MODE", value.to_owned().leak())]))
            .build()
            .unwrap();
        assert_eq!(selector.mode(), mode);
        assert_eq!(selector.mode().to_string(), value);
    }
}

#[test]
fn the_store_of_the_environment_wins() {
    let dir = tempfile::tempdir().unwrap();
    let (chosen, ignored) = (dir.path().join("chosen"), dir.path().join("ignored"));
    let value: &'static str = chosen.to_str().unwrap().to_owned().leak();
    let selector = Selector::builder()
        .store_file(&ignored)
        .environment(environment(&[("POINTSMAN_STORE", value)]))
        .build()
        .unwrap();
    assert!(
        selector.store_name().contains(value),
        "{}",
        selector.store_name()
    );
    assert!(chosen.exists() && !ignored.exists());
    let selector = Selector::builder()
        .store_file(&ignored)
        .environment(environment(&[("POINTSMAN_STORE", "memory")]))
        .build()
        .unwrap();
    assert!(
        selector.store_name().contains("memory"),
        "{}",
        selector.store_name()
    );
    assert!(!ignored.exists());
}

#[test]
fn the_seed_of_the_environment_counts() {
    let decisions = |seed: &'static str| {
        let clock = FakeClock::new();
        let selector = Selector::builder()
            .in_memory()
            .clock(clock.clone())
            .policy(pointsman::policy::parse("thompson").unwrap())
            .seed(99)
            .environment(environment(&[("POINTSMAN_SEED", seed)]))
            .build()
            .unwrap();
        (0..2_000)
            .map(|i| {
                let workload = Workload::new([100 << (i % 10)]);
                let decision = selector.decide("op", &workload, &["a", "b", "c"]);
                clock.advance(Duration::from_micros(10));
                selector.record(&decision, Outcome::took(Duration::from_micros(10)));
                decision.index()
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(decisions("5"), decisions("5"));
    assert_ne!(decisions("5"), decisions("6"));
}

#[test]
fn rules_of_code_and_environment_add_up() {
    let clock = FakeClock::new();
    let log = Log::default();
    let selector = Selector::builder()
        .in_memory()
        .clock(clock.clone())
        .disable("avx2")
        .environment(environment(&[("POINTSMAN_DISABLE", "dot=pool")]))
        .build()
        .unwrap();
    let op = numbers(&selector, "dot")
        .reference(
            "plain",
            Backend::Scalar,
            takes(&clock, &log, "plain", 40 * MICRO),
        )
        .variant("avx2", Backend::Simd, takes(&clock, &log, "avx2", 1))
        .variant("pool", Backend::Threads, takes(&clock, &log, "pool", 1))
        .build()
        .unwrap();
    for _ in 0..100 {
        op.run(&64);
    }
    assert_eq!(log.count("plain"), 100);
}

// The real environment: this file's binary runs itself with one test and real variables.

const CHILD: &str = "POINTSMAN_TEST_CHILD";

fn child(test: &str, home: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(CHILD, "1")
        .env("HOME", home)
        .env("XDG_CACHE_HOME", home.join("cache"));
    for name in ["FORCE", "DISABLE", "MODE", "STORE", "SEED"] {
        command.env_remove(format!("POINTSMAN_{name}"));
    }
    command
}

fn told(output: &Output) -> String {
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let line = text
        .lines()
        .find_map(|l| l.split_once("TOLD "))
        .map(|(_, told)| told.to_owned());
    line.unwrap_or_else(|| panic!("the child said nothing: {text}"))
}

/// Says on standard output what `Selector::new` and an op make of the real environment.
#[test]
#[allow(clippy::print_stdout)]
fn child_with_the_real_environment() {
    if std::env::var_os(CHILD).is_none() {
        return;
    }
    let selector = Selector::new();
    let (clock, log) = (FakeClock::new(), Log::default());
    let built = numbers(&selector, "dot")
        .reference("plain", Backend::Scalar, takes(&clock, &log, "plain", 1))
        .variant("avx2", Backend::Simd, takes(&clock, &log, "avx2", 1))
        .build();
    match built {
        Ok(op) => {
            (0..50).for_each(|_| _ = op.run(&64));
            let served = log.count("avx2");
            println!(
                "TOLD mode {}, {served} by avx2, store {}",
                selector.mode(),
                selector.store_name()
            );
        }
        Err(error) => println!("TOLD error {error}"),
    }
    let _ = selector.flush(Duration::from_secs(10));
}

#[test]
fn f44_the_real_environment_is_read() {
    let home = tempfile::tempdir().unwrap();
    let run = |pairs: &[(&str, &str)]| {
        let mut command = child("child_with_the_real_environment", home.path());
        told(&command.envs(pairs.iter().copied()).output().unwrap())
    };
    let plain = run(&[]);
    assert!(plain.starts_with("mode learn"), "{plain}");
    assert!(plain.contains(home.path().to_str().unwrap()), "{plain}");

    let forced = run(&[
        ("POINTSMAN_FORCE", "dot=avx2"),
        ("POINTSMAN_STORE", "memory"),
    ]);
    assert!(
        forced.contains("50 by avx2") && forced.contains("memory"),
        "{forced}"
    );
    assert!(run(&[("POINTSMAN_MODE", "reference")]).starts_with("mode reference, 0 by avx2"));

    for (variable, value, valid) in [
        ("POINTSMAN_MODE", "fast", "learn, frozen, reference"),
        ("POINTSMAN_SEED", "x", "18446744073709551615"),
        ("POINTSMAN_FORCE", "avx3", "plain, avx2"),
        ("POINTSMAN_DISABLE", "a=", "op=variant"),
    ] {
        let error = run(&[(variable, value)]);
        for part in ["error", variable, valid] {
            assert!(error.contains(part), "{variable}={value}: {error}");
        }
    }
}

#[cfg(unix)]
#[test]
fn f44_a_variable_that_is_no_text_is_an_error_too() {
    use std::os::unix::ffi::OsStrExt;
    let home = tempfile::tempdir().unwrap();
    let broken = std::ffi::OsStr::from_bytes(b"froz\xFFen");
    let mut command = child("child_with_the_real_environment", home.path());
    let error = told(&command.env("POINTSMAN_MODE", broken).output().unwrap());
    assert!(
        error.contains("error") && error.contains("POINTSMAN_MODE"),
        "{error}"
    );
}

#[cfg(unix)]
#[test]
fn f44_a_store_path_that_is_no_text_is_used_or_refused_but_not_replaced() {
    use std::os::unix::ffi::OsStrExt;
    let home = tempfile::tempdir().unwrap();
    let path = home
        .path()
        .join(std::ffi::OsStr::from_bytes(b"kn\xFFwledge"));
    let mut command = child("child_with_the_real_environment", home.path());
    told(&command.env("POINTSMAN_STORE", path).output().unwrap());
    assert!(
        !home.path().join("cache").exists(),
        "it wrote to the default place instead"
    );
}

#[test]
fn f44_one_bad_variable_does_not_undo_the_others() {
    // Whoever says `memory` must not find a file because another variable has a typing error.
    let home = tempfile::tempdir().unwrap();
    let mut command = child("child_with_the_real_environment", home.path());
    let error = told(
        &command
            .env("POINTSMAN_STORE", "memory")
            .env("POINTSMAN_SEED", "x")
            .output()
            .unwrap(),
    );
    assert!(error.contains("POINTSMAN_SEED"), "{error}");
    assert!(
        !home.path().join("cache").exists(),
        "it wrote to the default place instead"
    );
}
