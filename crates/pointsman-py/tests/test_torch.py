"""PyTorch, where it is installed."""

import numpy as np
import pytest

import pointsman

torch = pytest.importorskip("torch")


@pytest.fixture
def op(selector, takes):
    @pointsman.op(name="op", selector=selector, reference="torch")
    def square(x):
        takes("torch", 1e-3)()
        return x * x

    @square.variant("numpy", requires_grad=False)
    def square_numpy(x):
        takes("numpy", 1e-6)()
        return torch.from_numpy(np.square(x.numpy()))

    return square


def test_tensors_give_their_features(op):
    w = op.workload(torch.ones(3, 4, dtype=torch.float32))
    assert (w.features, w.dtype, w.requires_grad, w.device) == ((3, 4), "f32", False, "scalar")
    assert op.workload(torch.ones(3, dtype=torch.bfloat16)).dtype == "bf16"
    assert op.workload(torch.ones(3, requires_grad=True)).requires_grad
    assert op.workload(torch.nn.Parameter(torch.ones(3))).requires_grad
    assert op.workload([torch.ones(2), torch.ones(3, requires_grad=True)]).requires_grad


def test_gradients_are_exact_whatever_was_learned(op):
    plain = torch.ones(100)
    for _ in range(300):
        op(plain)
    assert op.explain(plain).chosen == "numpy"
    x = torch.ones(100, requires_grad=True)
    for _ in range(100):
        op(x).sum().backward()
    assert torch.equal(x.grad, torch.full((100,), 200.0))
    assert op.explain(x).chosen == "torch"
    assert op.stats().failures == 0


def test_results_are_compared_across_libraries(selector, takes):
    op = pointsman.op(lambda x: takes("n", 1e-3)() or np.sin(x), name="op", selector=selector, check=True)
    op.variant("torch", lambda x: takes("t", 1e-6)() or torch.sin(torch.from_numpy(x)))
    op.variant("wrong", lambda x: takes("w", 1e-9)() or torch.cos(torch.from_numpy(x)))
    x = np.linspace(0, 1, 50)
    for _ in range(200):
        assert np.allclose(np.asarray(op(x)), np.sin(x))
    told = {v["name"]: v for v in op.explain(x).variants}
    assert told["torch"]["checked"] and told["wrong"]["quarantined"]


def test_real_tensors_on_the_real_clock():
    selector = pointsman.Selector(store="memory", environment=False)
    op = pointsman.op(lambda x: x @ x, name="op", selector=selector, check=True)
    op.variant("columns", lambda x: torch.stack([x @ column for column in x.T], 1))
    for n in [3, 30]:
        x = torch.eye(n)
        for _ in range(100):
            assert torch.equal(op(x), x)
    stats = op.stats()
    assert (stats.calls, stats.failures) == (200, 0)
    assert all(v["samples"] > 0 for v in stats.variants)
    assert selector.free_memory("gpu:0") is None or torch.cuda.is_available()


def test_gradients_inside_of_containers_are_seen(op):
    t = torch.ones(3, requires_grad=True)
    plain = torch.ones(3)
    inside = [{"w": t}, [None, t], (0.5, t), [[t]], {"a": [{"b": (1, t)}]}, [plain] * 100 + [t], [0, plain] + [1] * 1000 + [t]]
    inside += [{"data": [0.0] * 1000, "w": t}, [[1.0] * 300, t], {"data": [[0.0] * 300] * 100, "more": {"w": t}}]
    for container in inside:
        assert op.workload(container).requires_grad, container
    assert op.workload(torch.nn.Linear(2, 2)).requires_grad
    for container in [{"w": plain}, [None, plain], [[plain]] * 1000, [1.0] * 10_000]:
        assert not op.workload(container).requires_grad
    again = [plain]
    again += [again] * 1000
    assert not op.workload(again).requires_grad, "and it ends"
    same = pointsman.op(lambda x: x, name="same", selector=op.selector)
    for _ in range(20):
        assert same(again) is again


def test_forward_derivatives_are_gradients_too(selector):
    op = pointsman.op(lambda x: (x**2).sum(), name="op", selector=selector)
    op.variant("numpy", lambda x: (x.detach() ** 2).sum(), requires_grad=False)
    for _ in range(50):
        assert torch.func.jacfwd(op)(torch.ones(3)).tolist() == [2, 2, 2]
        _, slope = torch.func.jvp(op, (torch.ones(3),), (torch.ones(3),))
        assert slope == 6
    assert not op.workload(torch.ones(3)).requires_grad, "it is over"


def test_small_floats_are_compared_within_rounding(selector, takes):
    op = pointsman.op(lambda x: takes("r", 1e-3)() or x * 2, name="op", selector=selector, check=True, rtol=1e-2)
    op.variant("near", lambda x: takes("n", 1e-6)() or x * 2.01)
    op.variant("wrong", lambda x: takes("w", 1e-9)() or x * 3)
    x = torch.ones(50, dtype=torch.bfloat16)
    for _ in range(100):
        op(x)
    told = {v["name"]: v for v in op.explain(x).variants}
    assert told["near"]["checked"] and told["wrong"]["quarantined"]
