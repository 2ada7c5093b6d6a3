//! Policies by name, for the command line and the environment.

use super::{Adaptive, EpsilonGreedy, History, Policy, Thompson, Ucb1};
use crate::error::BuildError;

/// What an error lists.
const VALID: &str = "adaptive, history, history(WEIGHT), epsilon-greedy, epsilon-greedy(EPSILON), \
    ucb1, ucb1(EXPLORATION), thompson or thompson(SPREAD)";

/// The names that [`parse`] knows.
pub fn names() -> &'static [&'static str] {
    &["adaptive", "history", "epsilon-greedy", "ucb1", "thompson"]
}

/// A policy by its name, with its parameters in brackets if it is to have others than its defaults.
///
/// ```
/// use pointsman::policy;
///
/// assert_eq!(policy::parse("epsilon-greedy(0.05)")?.name(), "epsilon-greedy");
/// let error = policy::parse("ucb2").err().unwrap().to_string();
/// assert!(error.starts_with("policy = ucb2: it must be adaptive, "));
/// # Ok::<(), pointsman::BuildError>(())
/// ```
pub fn parse(text: &str) -> Result<Box<dyn Policy>, BuildError> {
    let unknown = || BuildError::Setting {
        name: "policy",
        value: text.to_owned(),
        valid: VALID,
    };
    let text = text.trim();
    let (name, inside) = match text.split_once('(') {
        None => (text, None),
        Some((name, rest)) => {
            let inside = rest.strip_suffix(')').ok_or_else(unknown)?;
            (name.trim(), Some(inside.trim()))
        }
    };
    let number = |text: &str| text.trim().parse::<f64>().map_err(|_| unknown());
    let numbers = || match inside {
        None => Ok(Vec::new()),
        Some(inside) => inside.split(',').map(number).collect::<Result<Vec<_>, _>>(),
    };
    let policy: Box<dyn Policy> = match (name, numbers()?.as_slice()) {
        ("adaptive", []) => Box::new(Adaptive),
        ("history", []) => Box::new(History::default()),
        ("history", [weight]) => Box::new(History::forgetting(*weight)),
        ("epsilon-greedy", []) => Box::new(EpsilonGreedy::default()),
        ("epsilon-greedy", [epsilon]) => Box::new(EpsilonGreedy::new(*epsilon)),
        ("ucb1", []) => Box::new(Ucb1::default()),
        ("ucb1", [exploration]) => Box::new(Ucb1::new(*exploration)),
        ("thompson", []) => Box::new(Thompson::default()),
        ("thompson", [spread]) => Box::new(Thompson::new(*spread)),
        _ => return Err(unknown()),
    };
    policy.check()?;
    Ok(policy)
}
