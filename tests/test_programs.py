"""The comparison of lowered programs tells what changed from what did not."""

import jax
import jax.numpy as jnp
import pytest

import jaxdml
from benchmarks.compiling import programs

ROW = (jax.ShapeDtypeStruct((2, 64), "float32"),)


def largest(x):
    return jaxdml.top_k(x, 3)


def written(folder, function):
    programs.write(folder, [("call", function, ROW)])
    return folder


@pytest.mark.parametrize(
    ("function", "kind", "status"),
    [
        (largest, "the same text", 0),
        (lambda x: jaxdml.top_k(x, 4), "different", 1),
        (lambda x: jaxdml.top_k(x, 3, direction="increasing"), "different", 1),
    ],
)
def test_programs_are_told_apart(tmp_path, capsys, function, kind, status):
    old = written(tmp_path / "old", largest)
    got = programs.main([str(tmp_path / "new"), "--against", str(old)], chosen=[("call", function, ROW)])
    assert got == status
    assert f"{len(programs.PLATFORMS)} {kind}" in capsys.readouterr().out


def test_a_missing_call_is_a_difference(tmp_path):
    old = written(tmp_path / "old", largest)
    (tmp_path / "none").mkdir()
    programs.write(tmp_path / "none", [])
    assert programs.compare(tmp_path / "none", old) == {"in one only": len(programs.PLATFORMS)}


def test_the_number_of_platforms_is_no_difference(tmp_path):
    def branching(**forms):
        return lambda x: jax.lax.platform_dependent(x, **forms)

    forms = {"cpu": jnp.sin, "cuda": jnp.cos, "tpu": jnp.tan}
    few = written(tmp_path / "few", branching(**forms))
    many = written(tmp_path / "many", branching(rocm=jnp.exp, **forms))
    other = written(tmp_path / "other", branching(cpu=jnp.cos, cuda=jnp.sin, tpu=jnp.tan))
    assert programs.compare(few, many)["the same but for the numbers of platforms"] > 0
    assert programs.compare(few, many)["different"] == 0
    assert programs.compare(few, other)["different"] == 2


def test_every_call_has_a_name_of_its_own_and_can_be_traced():
    calls = list(programs.calls())
    assert len({name for name, _, _ in calls}) == len(calls) > 500
    for _, function, shapes in calls[::97]:
        jax.eval_shape(function, *shapes)
