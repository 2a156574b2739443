"""Loops over arrays that are longer than what counts: as many turns run as without padding."""

import jax
import numpy as np
import pytest

from jaxdml.onnx import load
from jaxdml.onnx.nodes import control_flow
from tests.kit import long, quick
from tests.onnx.padded import check, parsed, together

pytestmark = quick

CONSTANTS = {
    **{f"i{number}": np.array([number]) for number in (0, 1, 2)},
    **{f"n{number}": np.array(number) for number in (0, 1, 3, 40)},
    "many": np.array(2**62),
    "yes": np.array(True),
    "nought": np.float32(0),
    "half": np.float32(0.5),
    "nine": np.float32(9),
    "start": np.zeros(4, np.float32),
}
X = [(2, 5), (4, 2), (7, 3), (8, 6)]


def check_of(bodies, calls=X, **options):
    body, outputs = together(bodies)
    shape = "n = Shape<end=1>(x) s = Squeeze(n) m = Shape<end=1>(t) k = Squeeze(m)"
    proto = parsed(f"g (float[N, 4] x, float[M, N] t) => ({outputs}) {{ {shape} {body} }}", CONSTANTS)
    given = []
    for rows, columns in calls:
        rng = np.random.default_rng(rows)
        x, t = rng.normal(size=(rows, 4)), rng.normal(size=(columns, rows))
        given.append({"x": x.astype(np.float32), "t": t.astype(np.float32)})
    check(proto, given, {"N": 8, "M": 6}, **options)


LOOPS = {
    "as many turns as rows": "z, y = Loop(s, yes, start) <body = b (int64 i, bool on, float[4] c) =>"
    " (bool off, float[4] w, float[4] o) { r = Gather(x, i) w = Add(r, c) off = Identity(on) o = Mul(w, half) }>",
    "as long as a number is less": "a = Less(n0, s) v, u, z, y = Loop(, a, n0, s, start) <body ="
    " b (int64 i, bool on, int64 c, int64 l, float[4] f) => (bool off, int64 d, int64 e, float[4] w, float[4] o)"
    " { d = Add(c, n1) e = Identity(l) off = Less(d, l) r = Gather(x, c) w = Add(r, f) o = Neg(w) }>",
    "at most so many turns": "y = Loop(many, yes) <body = b (int64 i, bool on) => (bool off, float[4] o)"
    " { c = Add(i, n3) off = Less(c, s) o = Gather(x, i) }>",
    "few turns": "y = Loop(n3, yes, x) <body = b (int64 i, bool on, float[p, 4] c) => (bool off, float[p, 4] w)"
    " { w = Mul(c, half) off = Identity(on) }>",
    "more turns": "y = Loop(n40, yes, t) <body = b (int64 i, bool on, float[p, q] c) => (bool off, float[p, q] w)"
    " { d = Mul(c, half) w = Add(d, t) off = Identity(on) }>",
    "until a sum is small": "y = Loop(, yes, x) <body = b (int64 i, bool on, float[p, 4] c) =>"
    " (bool off, float[p, 4] w) { w = Mul(c, half) a = Abs(w) d = ReduceSum<keepdims=0>(a) off = Greater(d, half) }>",
    "what has a length is stacked": "y = Loop(s, yes) <body = b (int64 i, bool on) => (bool off, float[p] o)"
    " { o = Gather<axis=1>(t, i) off = Identity(on) }>",
    "a computed length is stacked": "y = Loop(k, yes) <body = b (int64 i, bool on) => (bool off, float[p] o)"
    " { c = Concat<axis=0>(x, x) o = Gather<axis=1>(c, n1) off = Identity(on) }>",
}
SCANS = {
    "rows": "z, y = Scan(start, x) <num_scan_inputs=1, body = b (float[4] c, float[4] r) => (float[4] w, float[4] o)"
    " { w = Add(c, r) o = Mul(w, half) }>",
    "columns backwards": "h = ReduceSum<keepdims=0>(t, i1) z, y = Scan(h, t) <num_scan_inputs=1, scan_input_axes=[1],"
    " scan_input_directions=[1], scan_output_axes=[1], scan_output_directions=[1], body ="
    " b (float[p] c, float[p] r) => (float[p] w, float[p] o) { w = Add(c, r) o = Mul(w, half) }>",
    "two sequences": "y = Scan(x, t) <num_scan_inputs=2, scan_input_axes=[0, -1], body ="
    " b (float[4] r, float[p] c) => (float o) { a = ReduceSum<keepdims=0>(r) d = ReduceSum<keepdims=0>(c)"
    " o = Add(a, d) }>",
    "another dimension": "y = Scan(x) <num_scan_inputs=1, scan_input_axes=[1], body ="
    " b (float[p] c) => (float[p] o) { o = Neg(c) }>",
}


def test_loops_run_as_often_as_without_padding():
    check_of(LOOPS.values())


def test_scans_end_where_their_operands_do():
    check_of(SCANS.values())


REFUSED = {
    "Loop 'y_0' needs to know sizes": "y = Loop(n40, yes, x) <body = b (int64 i, bool on, float[p, 4] c) =>"
    " (bool off, float[q, 4] w) { w = Concat<axis=0>(c, x) off = Identity(on) }>",
    "may differ from turn to turn": "y = Loop(s, yes) <body = b (int64 i, bool on) => (bool off, float[p] o)"
    " { off = Identity(on) c = Greater(i, n1) o = If(c) <then_branch = t0 () => (float[q] d) { d = Gather(t, n0) },"
    " else_branch = e () => (float[r] f) { f = Gather(x, n0) }> }>",
}


@pytest.mark.parametrize("reason", REFUSED)
def test_what_cannot_be_known_is_refused(reason):
    check_of([REFUSED[reason]], [(4, 5)], refuses=reason)


def test_a_loop_that_values_end_runs_on_the_host_whatever_lengths_are_named():
    loop = """z, y = Loop(, yes, x) <body = b (int64 i, bool on, float[p, 4] c) => (bool off, float[p, 4] w, float o) {
        w = Mul(c, half) o = ReduceSum<keepdims=0>(w) off = Greater(o, half) }>"""
    proto = parsed(f"g (float[N, 4] x) => (z, y) {{ {loop} }}", CONSTANTS)
    model, exact = load(proto, lengths={"N": [8]}), load(proto, lengths="exact")
    for rows in (3, 7, 5):
        x = np.random.default_rng(rows).uniform(0, 4, (rows, 4)).astype(np.float32)
        for one, wanted in zip(model(x), exact(x), strict=True):
            np.testing.assert_allclose(one, wanted, 1e-6)


NEVER_KNOWN = {
    "values": "a = ReduceMax<keepdims=0>(x) c = Cast<to=7>(a)",
    "nothing": "c = Identity(many)",
}


@pytest.mark.parametrize("name", NEVER_KNOWN)
@long
def test_how_often_a_loop_runs_that_stacks_has_to_be_known(name, monkeypatch):
    monkeypatch.setattr(control_flow, "COUNTED", 20)
    body = "y = Loop(c, yes) <body = b (int64 i, bool on) => (bool off, float[4] o) { o = Gather(x, i) p = Not(on)"
    text = f"g (float[N, 4] x) => (y) {{ {NEVER_KNOWN[name]} {body} off = Not(p) }}> }}"
    model = load(parsed(text, CONSTANTS))
    with pytest.raises(NotImplementedError):
        jax.eval_shape(lambda x: model.apply(model.params, x, bounds={"y": 4}), np.zeros((3, 4), np.float32))
