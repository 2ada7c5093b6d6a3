//! What can be wrong with a call.

use std::fmt;

use pointsman::BuildError;

/// Arguments whose shapes do not fit each other.
///
/// ```
/// let error = pointsman_ops::dot(&[1.0, 2.0], &[3.0]).unwrap_err();
/// assert_eq!(error.to_string(), "dot: shapes 2 and 1 do not fit: both vectors must be of one length");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShapeError {
    op: &'static str,
    shapes: [Vec<usize>; 2],
    rule: &'static str,
}

impl ShapeError {
    /// The shapes that were given, and what must hold for them.
    pub(crate) fn new(
        op: &'static str,
        one: &[usize],
        other: &[usize],
        rule: &'static str,
    ) -> Self {
        ShapeError {
            op,
            shapes: [one.to_vec(), other.to_vec()],
            rule,
        }
    }
}

/// Whether two vectors are of one length.
pub(crate) fn one_length<T>(op: &'static str, x: &[T], y: &[T]) -> Result<(), ShapeError> {
    if x.len() == y.len() {
        return Ok(());
    }
    let rule = "both vectors must be of one length";
    Err(ShapeError::new(op, &[x.len()], &[y.len()], rule))
}

impl fmt::Display for ShapeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ShapeError { op, shapes, rule } = self;
        let [one, other] = shapes.each_ref().map(|s| text(s));
        write!(f, "{op}: shapes {one} and {other} do not fit: {rule}")
    }
}

impl std::error::Error for ShapeError {}

/// A shape as people write it: `3x4`.
pub(crate) fn text(shape: &[usize]) -> String {
    let numbers: Vec<String> = shape.iter().map(usize::to_string).collect();
    numbers.join("x")
}

/// A number that an op cannot work with.
///
/// ```
/// let error = pointsman_ops::grunwald_letnikov(2.5, 0.1, &[1.0], &mut [0.0]).unwrap_err();
/// assert_eq!(error.to_string(), "grunwald_letnikov: order 2.5: must be above 0 and below 2");
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ValueError {
    op: &'static str,
    what: &'static str,
    value: f64,
    rule: &'static str,
}

impl ValueError {
    /// What was given for what, and what must hold for it.
    pub(crate) fn new(
        op: &'static str,
        what: &'static str,
        value: f64,
        rule: &'static str,
    ) -> Self {
        ValueError {
            op,
            what,
            value,
            rule,
        }
    }
}

impl fmt::Display for ValueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ValueError {
            op,
            what,
            value,
            rule,
        } = self;
        write!(f, "{op}: {what} {value}: must be {rule}")
    }
}

impl std::error::Error for ValueError {}

/// Why one of the functions of this crate did not run.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Error {
    /// The shapes of the arguments do not fit each other.
    Shape(ShapeError),
    /// The ops could not be declared: an environment variable asks for what there is not.
    Setup(BuildError),
    /// A number is outside of what the op is defined for.
    Value(ValueError),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Shape(error) => error.fmt(f),
            Error::Setup(error) => error.fmt(f),
            Error::Value(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {}

impl From<ShapeError> for Error {
    fn from(error: ShapeError) -> Self {
        Error::Shape(error)
    }
}

impl From<BuildError> for Error {
    fn from(error: BuildError) -> Self {
        Error::Setup(error)
    }
}

impl From<ValueError> for Error {
    fn from(error: ValueError) -> Self {
        Error::Value(error)
    }
}
