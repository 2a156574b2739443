"""The checks that every operator makes of its arguments."""

import operator
from collections.abc import Callable, Collection
from typing import Any, NoReturn

import jax
import jax.numpy as jnp
import numpy as np

from jaxdml._base.errors import message


class Call:
    """One call of a public function: its name and its array arguments, so that every error message can show them."""

    def __init__(self, function: str, **operands: Any) -> None:
        self.function = function
        self.operands = operands

    def fail(self, error: type[Exception], rule: str, advice: str, *only: str) -> NoReturn:
        """Raise ``error`` in three lines, describing ``only`` these operands, or all."""
        shown = {name: self.operands[name] for name in only or self.operands}
        raise error(message(self.function, rule, shown, advice))

    def array(self, name: str) -> jax.Array:
        """Return the operand as a JAX array, and show it as one from here on."""
        value = self.operands[name]
        if not _is_array(value):
            self.fail(TypeError, f"{name} must be an array.", f"Pass jnp.asarray({name}).", name)
        self.operands[name] = jnp.asarray(value)
        return self.operands[name]

    def dtype(self, name: str, allowed: Collection[str]) -> None:
        """Require the operand's dtype to be one of ``allowed``."""
        dtype = str(self.operands[name].dtype)
        if dtype not in allowed:
            rule = f"{name} must be one of {', '.join(allowed)}; got {dtype}."
            self.fail(TypeError, rule, f"Convert {name} with .astype first.", name)

    def integer(self, name: str, value: Any) -> int:
        """Return a static integer argument as an ``int``."""
        if isinstance(value, jax.core.Tracer):
            rule = f"{name} must be static; got a traced value."
            self.fail(TypeError, rule, f"Name {name} in jax.jit's static_argnames, or close over it.")
        try:
            if isinstance(value, bool | np.bool_):
                raise TypeError
            return operator.index(value)
        except TypeError:
            rule = f"{name} must be an integer; got {value!r}."
            self.fail(TypeError, rule, f"Pass {name} as a Python int.")

    def axis(self, value: Any, rank: int) -> int:
        """Return ``axis`` counted from the front."""
        axis = self.integer("axis", value)
        if not -rank <= axis < rank:
            rule = f"axis must be between {-rank} and {rank - 1} for rank {rank}; got axis={axis}."
            self.fail(ValueError, rule, "Pass axis=-1 for the last one.")
        return axis % rank

    def choice(self, name: str, value: Any, allowed: Collection[str]) -> None:
        """Require an option to be one of ``allowed``."""
        if not isinstance(value, str) or value not in allowed:
            listed = ", ".join(repr(option) for option in allowed)
            error = ValueError if isinstance(value, str) else TypeError
            self.fail(
                error,
                f"{name} must be one of {listed}; got {value!r}.",
                f"Pass {name}={next(iter(allowed))!r}.",
            )

    def implementation(
        self, value: Any, methods: Collection[str], why_not: Callable[[str], str | None] = lambda method: None
    ) -> None:
        """Require a forced implementation to exist and to serve."""
        if value is None:
            return
        self.choice("implementation", value, methods)
        reason = why_not(value)
        if reason is not None:
            rule = f"implementation={value!r} cannot serve this call: {reason}."
            self.fail(NotImplementedError, rule, "Pass implementation=None to let the library choose.")


def _is_array(value: Any) -> bool:
    if isinstance(value, jax.Array | np.ndarray):
        return value.dtype != object
    return isinstance(value, np.generic | bool | int | float | complex) or hasattr(value, "__jax_array__")


def x64_enabled() -> bool:
    """Tell whether JAX keeps 64-bit dtypes."""
    return bool(jax.config.jax_enable_x64)  # type: ignore[attr-defined]
