"""The compiler for TPUs takes every operator sharded, within the bounds on what is sent. It needs libtpu but no TPU."""

import pytest

from benchmarks import compiling
from tests.sharded_calls import SMALL, WAYS, named

pytestmark = pytest.mark.skipif(not compiling.has("tpu"), reason="libtpu, which compiles for TPUs, is not installed")


@pytest.fixture(scope="module")
def devices():
    return compiling.devices_of("tpu")


@pytest.mark.parametrize(("call", "way"), WAYS, ids=named)
def test_a_sharded_call_compiles_and_keeps_its_bound(devices, call, way):
    found = compiling.compiled(call, way, devices)
    assert found["raises"] is None
    assert found["keeps"], found
    assert found["as_written"], found["results"]


def test_what_stock_sends_is_read_from_programs_for_tpus_too(devices):
    call = next(call for call in SMALL if call.operator == "top_k")
    (data,) = call.arguments
    stock = compiling.compiled(call, "Auto", devices, stock=True)
    assert stock["kinds"]["all-gather"] == {"count": 1, "elements": data.size, "bytes": 4 * data.size}
    assert not stock["keeps"]
    assert stock["estimate_us"] > 0
