//! Policies by name, for the command line and the environment.

use super::{
    Adaptive, Class, CostModel, EpsilonGreedy, Fixed, History, LinThompson, LinUcb, Policy, Rules,
    Score, Thompson, Ucb1, VwGreedy, Weights,
};
use crate::error::BuildError;

/// What an error lists.
const VALID: &str = "adaptive, fixed(VARIANT), rules, rules(low|medium|high), cost, \
    cost(TRANSFER_FACTOR), history, history(WEIGHT), score, \
    score(TIME,MEMORY,CACHE,HISTORY,SWITCHING), epsilon-greedy, epsilon-greedy(EPSILON), ucb1, \
    ucb1(EXPLORATION), thompson, thompson(SPREAD), lin-ucb, lin-ucb(ALPHA), lin-thompson, \
    lin-thompson(SPREAD), vw-greedy or vw-greedy(EXPLORE_PERIOD,EXPLOIT_PERIOD,EXPLORE_LENGTH)";

const NAMES: [&str; 12] = [
    "adaptive",
    "fixed",
    "rules",
    "cost",
    "history",
    "score",
    "epsilon-greedy",
    "ucb1",
    "thompson",
    "lin-ucb",
    "lin-thompson",
    "vw-greedy",
];

/// The names that [`parse`] knows. All but `fixed`, which needs a variant, can stand alone.
pub fn names() -> &'static [&'static str] {
    &NAMES
}

/// A policy by its name, with its parameters in brackets if it is to have others than its defaults.
///
/// ```
/// use pointsman::policy;
///
/// assert_eq!(policy::parse("epsilon-greedy(0.05)")?.name(), "epsilon-greedy");
/// assert_eq!(policy::parse("fixed(avx2)")?.name(), "fixed");
/// let error = policy::parse("ucb2").err().unwrap().to_string();
/// assert!(error.starts_with("policy = ucb2: it must be adaptive, fixed(VARIANT), "));
/// # Ok::<(), pointsman::BuildError>(())
/// ```
pub fn parse(text: &str) -> Result<Box<dyn Policy>, BuildError> {
    let text = text.trim();
    let policy = read(text).ok_or_else(|| BuildError::Setting {
        name: "policy",
        value: text.to_owned(),
        valid: VALID,
    })?;
    policy.check()?;
    Ok(policy)
}

fn read(text: &str) -> Option<Box<dyn Policy>> {
    let (name, inside) = match text.split_once('(') {
        Some((name, rest)) => (name.trim(), Some(rest.strip_suffix(')')?.trim())),
        None => (text, None),
    };
    match (name, inside) {
        ("fixed", Some(variant)) => return Some(Box::new(Fixed::new(variant))),
        ("rules", Some(class)) => return Some(Box::new(Rules::default().class(class_of(class)?))),
        _ => {}
    }
    let numbers: Vec<f64> = match inside {
        Some(inside) => {
            let numbers = inside.split(',').map(|number| number.trim().parse());
            numbers.collect::<Result<_, _>>().ok()?
        }
        None => Vec::new(),
    };
    Some(match (name, numbers.as_slice()) {
        ("adaptive", []) => Box::new(Adaptive),
        ("rules", []) => Box::new(Rules::default()),
        ("cost", []) => Box::new(CostModel::default()),
        ("cost", [factor]) => Box::new(CostModel::transfer_factor(*factor)),
        ("history", []) => Box::new(History::default()),
        ("history", [weight]) => Box::new(History::forgetting(*weight)),
        ("score", []) => Box::new(Score::default()),
        ("score", [time, memory, cache, history, switching]) => Box::new(Score::new(Weights {
            time: *time,
            memory: *memory,
            cache: *cache,
            history: *history,
            switching: *switching,
        })),
        ("epsilon-greedy", []) => Box::new(EpsilonGreedy::default()),
        ("epsilon-greedy", [epsilon]) => Box::new(EpsilonGreedy::new(*epsilon)),
        ("ucb1", []) => Box::new(Ucb1::default()),
        ("ucb1", [exploration]) => Box::new(Ucb1::new(*exploration)),
        ("thompson", []) => Box::new(Thompson::default()),
        ("thompson", [spread]) => Box::new(Thompson::new(*spread)),
        ("lin-ucb", []) => Box::new(LinUcb::default()),
        ("lin-ucb", [alpha]) => Box::new(LinUcb::new(*alpha)),
        ("lin-thompson", []) => Box::new(LinThompson::default()),
        ("lin-thompson", [spread]) => Box::new(LinThompson::new(*spread)),
        ("vw-greedy", []) => Box::new(VwGreedy::default()),
        ("vw-greedy", [period, exploit, length]) => Box::new(VwGreedy::new(
            whole(*period)?,
            whole(*exploit)?,
            whole(*length)?,
        )),
        _ => return None,
    })
}

fn class_of(text: &str) -> Option<Class> {
    match text {
        "low" => Some(Class::Low),
        "medium" => Some(Class::Medium),
        "high" => Some(Class::High),
        _ => None,
    }
}

fn whole(number: f64) -> Option<u32> {
    let whole = number.fract() == 0.0 && (0.0..=f64::from(u32::MAX)).contains(&number);
    whole.then_some(number as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_listed_and_gives_the_policy_of_that_name() {
        for name in names() {
            let text = if *name == "fixed" {
                "fixed(avx2)"
            } else {
                name
            };
            assert_eq!(parse(text).unwrap().name(), *name);
            let error = parse("x").err().unwrap().to_string();
            assert!(error.contains(name), "{name} in {error}");
        }
    }

    #[test]
    fn f44_what_cannot_be_read_is_an_error_that_names_the_valid_ones_or_the_range() {
        for (text, valid) in [
            ("", "adaptive"),
            ("UCB1", "ucb1"),
            ("fixed", "fixed(VARIANT)"),
            ("fixed()", "1 to"),
            ("ucb1(", "ucb1(EXPLORATION)"),
            ("ucb1()", "ucb1(EXPLORATION)"),
            ("ucb1(x)", "ucb1(EXPLORATION)"),
            ("ucb1(1,2)", "ucb1(EXPLORATION)"),
            ("ucb1(-1)", "from 0 to 100"),
            ("ucb1(nan)", "from 0 to 100"),
            ("epsilon-greedy(1.01)", "from 0 to 1"),
            ("history(0)", "above 0, to 1"),
            ("thompson(0)", "above 0, to 10"),
            ("cost(-5)", "from 0 to 1000"),
            ("rules(huge)", "rules(low|medium|high)"),
            ("score(0,0,0,0,0)", "above 0"),
            ("score(1,1,1,1,-1)", "from 0"),
            ("lin-ucb(inf)", "from 0 to 100"),
            ("lin-thompson(-1)", "from 0 to 100"),
            ("vw-greedy(8,16,2)", "no more than explore_period"),
            ("vw-greedy(8,4,0)", "1 or more calls"),
            ("vw-greedy(8,4,1.5)", "EXPLORE_LENGTH"),
        ] {
            let error = parse(text).err().map(|error| error.to_string());
            assert!(
                error.as_ref().is_some_and(|e| e.contains(valid)),
                "{text}: {error:?}"
            );
        }
    }

    #[test]
    fn parameters_are_read() {
        for text in [
            "fixed( avx2 )",
            " rules(high) ",
            "cost(5)",
            "history(0.2)",
            "score(1, 0, 0, 0, 0)",
            "thompson(1)",
            "lin-ucb(2)",
            "lin-thompson(0.1)",
            "vw-greedy(1024, 8, 2)",
        ] {
            assert!(parse(text).is_ok(), "{text}");
        }
    }
}
