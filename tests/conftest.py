"""Strictness, switched on for every test."""

import gc
import itertools
import os
from contextlib import nullcontext
from functools import cache

import hypothesis
import jax
import pytest

from jaxdml._functions import prepack, prepack_filters
from tests import memory_maps
from tests.cross_section import ALL, EVERY, MOST, cross_section
from tests.kit.compiling import quickly

jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")
# Virtual devices, for the meshes of tests/kit/meshes.py. GPUs are counted as they are.
jax.config.update("jax_num_cpu_devices", 8)

# HYPOTHESIS_PROFILE=thorough draws more data, and tests.kit.grids gives the full product of static arguments.
_common = {"deadline": None, "print_blob": True, "suppress_health_check": [hypothesis.HealthCheck.too_slow]}
hypothesis.settings.register_profile("ci", derandomize=True, max_examples=25, **_common)
hypothesis.settings.register_profile("default", max_examples=25, **_common)
hypothesis.settings.register_profile("thorough", max_examples=200, **_common)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "default"))


def _is_whole(config):
    """Whether the whole suite was asked for, rather than a selection of tests."""
    if hasattr(config, "workerinput"):
        return config.workerinput["whole"]
    option = config.option
    return config.args_source == config.ArgsSource.TESTPATHS and not (option.keyword or option.markexpr)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node):
    """Tell a worker what was asked for."""
    node.workerinput["whole"] = _is_whole(node.config)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config):
    """Take one worker a core for the whole suite; none for a selection of tests, or on a GPU, whose memory is one's."""
    return None if _is_whole(config) and jax.default_backend() == "cpu" else 0


def pytest_report_header(config):
    """Say whether memory maps are counted, and which cases of tests are run."""
    counted = "memory maps: not counted, this system does not list them"
    if memory_maps.used() is not None:
        counted = f"memory maps: a module may use half of {memory_maps.allowed()}"
    some = _is_whole(config) and not ALL
    cases = f"one of {EVERY} of each parametrized test, at most {MOST}; CI=1 runs all" if some else "all"
    return [counted, f"cases: {cases}"]


def _case(item):
    """Name a case; those of one program have its name, because the whole program is compiled for any of them."""
    mark = item.get_closest_marker("program")
    return f"{item.nodeid.partition('[')[0]} of {mark.kwargs['of']}[{mark.args[0]}]" if mark else item.nodeid


def pytest_collection_modifyitems(config, items):
    """Leave out cases of the whole suite, unless all are asked for."""
    if _is_whole(config) and not ALL:
        chosen, left = cross_section(items, list(map(_case, items)))
        items[:] = [item for item in chosen if not item.get_closest_marker("long")]
        config.hook.pytest_deselected(items=left + [item for item in chosen if item.get_closest_marker("long")])


def pytest_collection_finish():
    """Leave out of garbage collections what was imported, and have fewer: they take a twentieth of the time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 10)


@pytest.fixture(autouse=True)
def _quickly(request):
    """Compile quickly what the tests that are marked so compile."""
    mark = request.node.get_closest_marker("quick")
    with quickly() if mark and False not in mark.args else nullcontext():
        yield


@pytest.fixture
def on_gpu(monkeypatch):
    """Pack as on a GPU."""
    monkeypatch.setattr(prepack, "is_on_cpu", lambda x: False)
    for module in (prepack, prepack_filters):
        monkeypatch.setattr(module, "is_on_gpu", lambda x: not isinstance(x, jax.core.Tracer))


_finished = itertools.count(1)


@pytest.fixture(autouse=True)
def _released_in_time():
    """Release what was compiled so far where it takes a quarter of the memory maps; to count them takes a while."""
    yield
    if next(_finished) % 50 == 0 and 4 * (memory_maps.used() or 0) > memory_maps.allowed():
        jax.clear_caches()


@pytest.fixture(scope="module", autouse=True)
def _one_context():
    """Lower all programs of a module in one MLIR context: to make one for each is a tenth of the suite's time."""
    # JAX has no public way to say it. Without this one, it takes its time.
    lowering = getattr(jax._src.interpreters, "mlir", None)
    usual = getattr(lowering, "make_ir_context", None)
    if usual is None:
        yield
        return
    lowering.make_ir_context = cache(usual)
    yield
    lowering.make_ir_context = usual


@pytest.fixture(scope="module", autouse=True)
def _released():
    """Release what a module compiled; fail where that took so many memory maps that a larger one might crash."""
    yield
    used = memory_maps.used()
    jax.clear_caches()
    complaint = None if used is None else memory_maps.complaint(used, memory_maps.allowed())
    if complaint:
        pytest.fail(complaint, pytrace=False)
