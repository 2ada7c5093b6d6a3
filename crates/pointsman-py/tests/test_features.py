"""Arguments become features: what tells one workload from another."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import pointsman

DTYPES = ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
DTYPES += ["float16", "float32", "float64", "complex64", "complex128"]
SHORT = {"float32": "f32", "float64": "f64", "int64": "i64", "uint8": "u8", "float16": "f16"}
SHORT |= {"bool": "bool", "complex64": "c64", "complex128": "c128", "int8": "i8", "int16": "i16"}
SHORT |= {"uint16": "u16", "int32": "i32", "uint32": "u32", "uint64": "u64"}

ECHO = pointsman.op(
    lambda *args, **kwargs: args,
    name="echo",
    selector=pointsman.Selector(store="memory", environment=False),
)
ECHO.variant("other", lambda *args, **kwargs: args)


@given(
    st.sampled_from(DTYPES),
    hnp.array_shapes(min_dims=0, max_dims=6, min_side=0, max_side=5),
)
@settings(max_examples=80, deadline=None)
def test_arrays_give_their_dimensions_and_dtype(dtype, shape):
    x = np.zeros(shape, dtype)
    w = ECHO.workload(x)
    assert w.features == shape
    assert w.size == x.size
    assert w.dtype == SHORT[dtype]
    assert w.bytes == x.nbytes
    assert ECHO(x)[0] is x


@given(st.lists(st.integers(), max_size=4), st.lists(st.floats(), max_size=4))
@settings(max_examples=80, deadline=None)
def test_any_number_is_fine(ints, floats):
    args = (*ints, *floats)
    got = ECHO(*args)
    assert got is not None and len(got) == len(args)
    assert len(ECHO.workload(*args).features) == len(args)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner) | st.tuples(inner),
        max_leaves=12,
    )
)
@settings(max_examples=100, deadline=None)
def test_any_argument_is_fine(value):
    assert ECHO(value) == (value,) or value != value
    ECHO.explain(value)


def test_numbers_lengths_and_words():
    features = lambda *a, **k: ECHO.workload(*a, **k).features  # noqa: E731
    assert features(7, 2.5) == (7, 2.5)
    assert features([1, 2, 3]) == (3,)
    assert features("abc", b"abcd", {1: 2}, range(9)) == (4, 1, 9)
    assert features(True, None, object()) == ()
    assert features(float("nan"), -3) == (0, -3)
    assert features(10**400)[0] > 1e300
    assert features(-(10**400))[0] < -1e300
    assert features(np.float32(2.5), np.int16(3)) == (2.5, 3)
    assert features([np.ones(3), np.ones((4, 5))]) == (2, 3, 4, 5)
    assert features(*range(1, 30))[:15] == tuple(range(1, 16)), "at most 16, the rest in the last"
    assert len(features(*range(1, 30))) == 16


def test_what_makes_another_kind_of_call_has_its_own_statistics():
    def key(*args, **kwargs):
        # Workloads that differ in nothing but a code are not equal.
        return ECHO.workload(*args, **kwargs)

    x = np.ones((4, 4))
    same = [(key(x), key(np.zeros((4, 4)))), (key("a", n=1), key("a", n=1))]
    for one, other in same:
        assert one == other
    others = [
        (key(x), key(x.astype("float32"))),
        (key(x), key(np.asfortranarray(x))),
        (key(np.ones((4, 4, 4))[:, :, ::2]), key(np.ones((4, 4, 2)))),
        (key(x, "same"), key(x, "full")),
        (key(x, True), key(x, False)),
        (key(x, a=1), key(x, b=1)),
        (key(object()), key(None)),
        (key(x, x), key(x, x.astype("float32"))),
        (key([1, 2]), key((1, 2))),
    ]
    for one, other in others:
        assert one != other


def test_a_list_that_contains_itself_is_fine():
    loop = []
    loop.append(loop)
    assert ECHO(loop)[0] is loop


def test_objects_with_hostile_attributes_are_fine():
    class Hostile:
        @property
        def shape(self):
            raise RuntimeError("no")

        def __len__(self):
            raise RuntimeError("no")

        def __bool__(self):
            raise RuntimeError("no")

        def __eq__(self, other):
            raise RuntimeError("no")

    hostile = Hostile()
    assert ECHO(hostile)[0] is hostile


@pytest.mark.parametrize("n", [0, 1, 2**31, 2**62])
def test_huge_shapes_without_data(n):
    class Shape:
        shape = (n, n)
        dtype = np.dtype("float32")

    assert ECHO.workload(Shape()).features == (n, n)


def test_subclasses_of_arrays_count_as_arrays():
    masked = np.ma.masked_array(np.ones(5), mask=[0, 1, 0, 0, 0])
    assert ECHO.workload(masked).features == (5,)


def test_thousands_of_types_are_fine():
    for i in range(3000):
        made = type(f"T{i}", (), {})()
        assert ECHO(made)[0] is made
