//! The environment variables, read once when a selector is built.
//!
//! | variable | meaning |
//! |---|---|
//! | `POINTSMAN_FORCE` | serve from this variant or backend; `op=name` for one op; comma-separated |
//! | `POINTSMAN_DISABLE` | never choose this variant or backend; same form |
//! | `POINTSMAN_MODE` | `learn`, `frozen` or `reference` |
//! | `POINTSMAN_STORE` | a file, or `memory` |
//! | `POINTSMAN_POLICY` | a policy by name, such as `ucb1` or `fixed(avx2)` |
//! | `POINTSMAN_SEED` | a whole number from 0 to 2^64 − 1 |

use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;

use crate::backend::Backend;
use crate::error::BuildError;
use crate::policy;
use crate::selector::Mode;

/// Where knowledge is kept, by `POINTSMAN_STORE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StoreChoice {
    Memory,
    File(PathBuf),
}

/// What the environment demands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Env {
    pub(crate) force: Rules,
    pub(crate) disable: Rules,
    pub(crate) mode: Option<Mode>,
    pub(crate) store: Option<StoreChoice>,
    pub(crate) seed: Option<u64>,
    /// The name of a policy that exists, with its parameters.
    pub(crate) policy: Option<String>,
}

impl Env {
    /// Reads the variables through `get`. A bad one is an error that names the valid values; the
    /// others hold all the same.
    pub(crate) fn read(get: impl Fn(&str) -> Option<OsString>) -> (Self, Option<BuildError>) {
        let value = |name| get(name).filter(|v| !v.is_empty());
        let text = |name: &'static str| match value(name).map(OsString::into_string) {
            None => Ok(None),
            Some(Ok(text)) => Ok(Some(text)),
            Some(Err(raw)) => Err(bad(name, &raw.to_string_lossy(), "valid UTF-8")),
        };
        let mut first = None;
        let rules = |name, first: &mut Option<BuildError>| {
            let rules = text(name).and_then(|v| Rules::read(name, v));
            rules.unwrap_or_else(|error| {
                first.get_or_insert(error);
                Rules::none(name)
            })
        };
        let modes = "learn, frozen, reference";
        let seeds = "a whole number from 0 to 18446744073709551615";
        let env = Env {
            force: rules("POINTSMAN_FORCE", &mut first),
            disable: rules("POINTSMAN_DISABLE", &mut first),
            mode: parsed("POINTSMAN_MODE", text("POINTSMAN_MODE"), modes, &mut first),
            seed: parsed("POINTSMAN_SEED", text("POINTSMAN_SEED"), seeds, &mut first),
            policy: valid_policy(text("POINTSMAN_POLICY"), &mut first),
            store: value("POINTSMAN_STORE").map(|v| match v.to_str() {
                Some("memory") => StoreChoice::Memory,
                _ => StoreChoice::File(PathBuf::from(v)),
            }),
        };
        (env, first)
    }
}

fn parsed<T: FromStr>(
    variable: &'static str,
    text: Result<Option<String>, BuildError>,
    valid: &str,
    first: &mut Option<BuildError>,
) -> Option<T> {
    let parsed = text.and_then(|text| {
        let parse = |text: String| text.parse().map_err(|_| bad(variable, &text, valid));
        text.map(parse).transpose()
    });
    parsed.unwrap_or_else(|error| {
        first.get_or_insert(error);
        None
    })
}

fn valid_policy(
    text: Result<Option<String>, BuildError>,
    first: &mut Option<BuildError>,
) -> Option<String> {
    let checked = text.and_then(|text| {
        let Some(named) = text else {
            return Ok(None);
        };
        match policy::parse(&named) {
            Ok(_) => Ok(Some(named)),
            Err(BuildError::Setting { name, valid, .. }) if name != "policy" => {
                let valid = format!("those whose {name} is {valid}");
                Err(bad("POINTSMAN_POLICY", &named, &valid))
            }
            Err(BuildError::Setting { valid, .. }) => Err(bad("POINTSMAN_POLICY", &named, valid)),
            Err(error) => Err(error),
        }
    });
    checked.unwrap_or_else(|error| {
        first.get_or_insert(error);
        None
    })
}

fn bad(variable: &'static str, value: &str, valid: &str) -> BuildError {
    BuildError::Environment {
        variable,
        value: value.to_owned(),
        valid: valid.to_owned(),
    }
}

/// A comma-separated list of `name` and `op=name`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rules {
    variable: &'static str,
    rules: Vec<Rule>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    op: Option<String>,
    name: String,
}

impl Rules {
    fn none(variable: &'static str) -> Self {
        Rules {
            variable,
            rules: Vec::new(),
        }
    }

    /// Whether a rule names this variant of this op by its own name.
    pub(crate) fn names(&self, op: &str, variant: &str) -> bool {
        let applies = |r: &&Rule| r.op.as_deref().is_none_or(|o| o == op);
        let mut rules = self.rules.iter().filter(applies);
        rules.any(|r| r.name == variant)
    }

    fn read(variable: &'static str, value: Option<String>) -> Result<Self, BuildError> {
        let mut rules = Vec::new();
        for item in value.iter().flat_map(|v| v.split(',')) {
            let item = item.trim();
            let (op, name) = match item.split_once('=') {
                Some((op, name)) => (Some(op.trim().to_owned()), name.trim()),
                None => (None, item),
            };
            if name.is_empty() || op.as_deref() == Some("") {
                let valid = "a variant, a backend or op=variant, separated by commas";
                return Err(bad(variable, value.as_deref().unwrap_or_default(), valid));
            }
            rules.push(Rule {
                op,
                name: name.to_owned(),
            });
        }
        Ok(Rules { variable, rules })
    }

    /// Adds a rule from code, in the form of the variable.
    pub(crate) fn add(&mut self, text: &str) -> Result<(), BuildError> {
        let more = Rules::read(self.variable, Some(text.to_owned()))?;
        self.rules.extend(more.rules);
        Ok(())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The variants of an op that the rules name, as a mask.
    ///
    /// A rule for all ops that names a backend means the variants of that backend, and nothing
    /// for ops without one. A rule that names neither a backend nor a variant of the op is an
    /// error: it would otherwise be obeyed by doing nothing.
    pub(crate) fn mask(&self, op: &str, variants: &[(&str, Backend)]) -> Result<u64, BuildError> {
        let mut mask = 0;
        for rule in self
            .rules
            .iter()
            .filter(|r| r.op.as_deref().is_none_or(|o| o == op))
        {
            let found = matching(&rule.name, variants);
            let known_backend = rule.op.is_none() && is_backend(&rule.name);
            if found == 0 && !known_backend {
                let names: Vec<&str> = variants.iter().map(|(name, _)| *name).collect();
                let valid = format!(
                    "for op {op}: {}; or a backend: scalar, simd, threads, gpu, gpu:N",
                    names.join(", ")
                );
                return Err(bad(self.variable, &rule.name, &valid));
            }
            mask |= found;
        }
        Ok(mask)
    }

    /// The same for candidates given by name, where a rule that fits nobody is not an error.
    pub(crate) fn lenient_mask(&self, op: &str, variants: &[(&str, Backend)]) -> u64 {
        self.rules
            .iter()
            .filter(|r| r.op.as_deref().is_none_or(|o| o == op))
            .fold(0, |mask, rule| mask | matching(&rule.name, variants))
    }
}

fn is_backend(name: &str) -> bool {
    name.parse::<Backend>().is_ok()
}

fn matching(name: &str, variants: &[(&str, Backend)]) -> u64 {
    let backend: Option<Backend> = name.parse().ok();
    let fits = |(variant, at): &(&str, Backend)| match (backend, at) {
        _ if *variant == name => true,
        (Some(Backend::Gpu(_)), Backend::Gpu(_)) if name == "gpu" => true,
        (Some(wanted), at) => wanted == *at,
        (None, _) => false,
    };
    let positions = variants.iter().enumerate().filter(|(_, v)| fits(v));
    positions.fold(0, |mask, (i, _)| mask | 1 << i)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn env(pairs: &[(&str, &str)]) -> Result<Env, BuildError> {
        let find = |name: &str| pairs.iter().find(|(k, _)| *k == name);
        match Env::read(|name| find(name).map(|(_, v)| v.into())) {
            (env, None) => Ok(env),
            (_, Some(error)) => Err(error),
        }
    }

    const VARIANTS: [(&str, Backend); 4] = [
        ("plain", Backend::Scalar),
        ("avx2", Backend::Simd),
        ("pool", Backend::Threads),
        ("wgpu", Backend::Gpu(1)),
    ];

    #[test]
    fn f44_each_bad_variable_is_an_error_that_names_the_valid_values() {
        let cases = [
            ("POINTSMAN_MODE", "fast", "learn, frozen, reference"),
            ("POINTSMAN_SEED", "-1", "a whole number"),
            ("POINTSMAN_POLICY", "ucb2", "ucb1"),
            ("POINTSMAN_POLICY", "epsilon-greedy(2)", "from 0 to 1"),
            ("POINTSMAN_FORCE", "a,,b", "op=variant"),
            ("POINTSMAN_DISABLE", "=x", "op=variant"),
        ];
        for (variable, value, valid) in cases {
            let error = env(&[(variable, value)]).unwrap_err().to_string();
            for part in [variable, value, valid] {
                assert!(error.contains(part), "{error}");
            }
        }
        let force = env(&[("POINTSMAN_FORCE", "avx3")]).unwrap().force;
        let error = force.mask("dot", &VARIANTS).unwrap_err().to_string();
        for part in ["POINTSMAN_FORCE", "avx3", "dot", "plain, avx2, pool, wgpu"] {
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn rules_name_variants_and_backends_of_all_ops_or_one() {
        let rules = |text: &str| env(&[("POINTSMAN_DISABLE", text)]).unwrap().disable;
        assert_eq!(rules("avx2").mask("dot", &VARIANTS), Ok(0b10));
        assert_eq!(rules("threads, scalar").mask("dot", &VARIANTS), Ok(0b101));
        assert_eq!(rules("gpu").mask("dot", &VARIANTS), Ok(0b1000));
        assert_eq!(rules("gpu:0").mask("dot", &VARIANTS), Ok(0));
        assert_eq!(rules("sum=avx9").mask("dot", &VARIANTS), Ok(0));
        assert_eq!(rules("dot=wgpu").mask("dot", &VARIANTS), Ok(0b1000));
        assert!(rules("dot=gpu:0").mask("dot", &VARIANTS).is_err());
    }

    #[test]
    fn good_values_are_read() {
        let env = env(&[
            ("POINTSMAN_MODE", "frozen"),
            ("POINTSMAN_SEED", "7"),
            ("POINTSMAN_STORE", "memory"),
        ]);
        let env = env.unwrap();
        assert_eq!((env.mode, env.seed), (Some(Mode::Frozen), Some(7)));
        assert_eq!(env.store, Some(StoreChoice::Memory));
        assert_eq!(Env::read(|_| Some(OsString::new())), Env::read(|_| None));
        let two = [("POINTSMAN_SEED", "x"), ("POINTSMAN_STORE", "memory")];
        let get = |name: &str| two.iter().find(|(k, _)| *k == name).map(|(_, v)| v.into());
        let (env, error) = Env::read(get);
        assert_eq!(
            env.store,
            Some(StoreChoice::Memory),
            "a bad one does not undo the others"
        );
        assert!(error.is_some());
    }
}
