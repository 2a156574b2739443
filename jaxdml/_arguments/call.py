"""Check arguments in the ways that all operators share."""

import operator
from collections.abc import Callable, Collection, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxdml._arguments.known import Known
from jaxdml._base.errors import ErrorContext
from jaxdml._kernels.block_product import PackedBlocks
from jaxdml._kernels.integer_convolution import PackedFilters
from jaxdml._kernels.integer_product import PackedMatrix
from jaxdml._placement.layout import Names, axis_size
from jaxdml._placement.lowering import Forced


class Call(ErrorContext):
    """Hold one call of a public function; its array arguments are checked one by one."""

    def __init__(self, function: str, **operands: Any) -> None:
        self._given = {name: value.value if isinstance(value, Known) else value for name, value in operands.items()}
        super().__init__(function, self._given)

    def array(self, name: str) -> jax.Array:
        """Return the operand as a JAX array, which later messages describe instead of the argument."""
        value = self._array(name)
        try:
            self.operands[name] = jnp.asarray(native(value))
        except (TypeError, OverflowError):
            got = getattr(value, "dtype", "an int that is too large")
            rule = f"{name} must be of a dtype that JAX has; got {got}."
            self.fail(TypeError, rule, f"Pass {name} as an array of numbers of at most 64 bits.", name)
        return self.operands[name]

    def stored(self, name: str) -> Any:
        """Return the operand as ``array`` does, or as an array of NumPy if it is one: nothing is compiled for that."""
        value = self._array(name)
        if not isinstance(value, np.ndarray):
            return self.array(name)
        self.operands[name] = native(value)
        return self.operands[name]

    def _array(self, name: str) -> Any:
        """Return the operand as it was given, if it is an array."""
        value = self.operands[name]
        if not _is_array(value):
            self.fail(TypeError, f"{name} must be an array.", _instead_of(name, value), name)
        if isinstance(value, jax.Array):
            if jnp.issubdtype(value.dtype, jax.dtypes.extended):
                rule = f"{name} must be an array of numbers; got {value.dtype}."
                self.fail(TypeError, rule, f"Pass jax.random.key_data({name}) if it holds keys.", name)
            narrower = jax.dtypes.canonicalize_dtype(value.dtype)
            if value.dtype != narrower:
                rule = f"{name} is {value.dtype}, which JAX has only with jax_enable_x64."
                advice = f"Enable jax_enable_x64, or pass np.asarray({name}).astype({str(narrower)!r})."
                self.fail(TypeError, rule, advice, name)
        elif isinstance(value, np.ma.MaskedArray):
            self.fail(TypeError, f"{name} must not be masked.", f"Pass {name}.filled(value).", name)
        elif isinstance(value, np.ndarray | np.generic) and value.dtype.kind in "iu" and value.size:
            narrower = jax.dtypes.canonicalize_dtype(value.dtype)
            limits = np.iinfo(narrower)
            if narrower != value.dtype and not limits.min <= value.min() <= value.max() <= limits.max:
                rule = f"{name} holds integers that {narrower} does not, and JAX has {value.dtype} only with x64."
                self.fail(TypeError, rule, "Call jax.config.update('jax_enable_x64', True) first.", name)
        return value

    def known(self, name: str, dtype: Any) -> np.ndarray[Any, Any] | None:
        """Return what is known of a checked operand while tracing: a Python number, a NumPy array, or None as 0.

        JAX arrays are not known, nor are large arrays: they are data.
        """
        value = self._given.get(name)
        if value is None:
            return np.zeros((), dtype)
        if not isinstance(value, int | float | np.generic | np.ndarray) or np.size(value) > _MOST_KNOWN:
            return None
        return np.asarray(value, dtype)

    def dtype(self, name: str, allowed: Collection[str], advice: str = "") -> None:
        """Require the operand's dtype to be one of ``allowed``."""
        dtype = str(self.operands[name].dtype)
        if dtype not in allowed:
            rule = f"{name} must be one of {', '.join(allowed)}; got {dtype}."
            self.fail(TypeError, rule, advice or f"Convert {name} with .astype first.", name)

    def static(self, name: str, value: Any) -> None:
        """Require an option not to be traced."""
        if isinstance(value, jax.core.Tracer):
            rule = f"{name} must be static; got a traced value."
            self.fail(TypeError, rule, f"Name {name} in jax.jit's static_argnames, or close over it.")

    def integer(self, name: str, value: Any) -> int:
        """Return a static integer argument as an ``int``."""
        self.static(name, value)
        try:
            if isinstance(value, bool | np.bool_):
                raise TypeError
            return operator.index(value)
        except TypeError:
            rule = f"{name} must be an integer; got {_shown(value)}."
            self.fail(TypeError, rule, f"Pass {name} as a Python int.")

    def flag(self, name: str, value: Any) -> bool:
        """Return a static option that is True or False as a ``bool``."""
        self.static(name, value)
        if not isinstance(value, bool | np.bool_):
            self.fail(TypeError, f"{name} must be a bool; got {type(value).__name__}.", "Pass True or False.")
        return bool(value)

    def axis(self, value: Any, rank: int) -> int:
        """Return a static ``axis`` counted from the front, ``0 <= axis < rank``."""
        axis = self.integer("axis", value)
        if not -rank <= axis < rank:
            rule = f"axis must be between {-rank} and {rank - 1} for rank {rank}; got axis={axis}."
            self.fail(ValueError, rule, "Pass axis=-1 for the last one.")
        return axis % rank

    def axis_names(self, value: Any) -> Names:
        """Return the static ``axis_name``, a name or a tuple of names that are bound here, as a tuple."""
        if value is None:
            return ()
        self.static("axis_name", value)
        names = value if isinstance(value, tuple) else (value,)
        try:
            axis_size(names)
        except (NameError, TypeError, ValueError):  # A number is taken for an axis of the array.
            rule = f"axis_name must name mesh axes that are bound here; got {_shown(value)}."
            advice = "Call it inside jax.shard_map over these axes, or leave axis_name out for an array that is whole."
            self.fail(ValueError, rule, advice)
        if len(set(names)) < len(names):
            rule = f"axis_name must name different mesh axes; got {_shown(value)}."
            self.fail(ValueError, rule, "Pass each name once, the outermost first.")
        return names

    def choice(self, name: str, value: Any, allowed: Collection[str]) -> None:
        """Require an option to be one of ``allowed``."""
        self.static(name, value)
        if not isinstance(value, str) or value not in allowed:
            listed = ", ".join(repr(option) for option in allowed)
            error = ValueError if isinstance(value, str) else TypeError
            self.fail(
                error,
                f"{name} must be one of {listed}; got {_shown(value)}.",
                f"Pass {name}={next(iter(allowed))!r}.",
            )

    def implementation(
        self,
        value: Any,
        methods: Collection[str],
        why_not: Callable[[str], str | None] = lambda method: None,
        only_on: Mapping[str, str | None] | None = None,
    ) -> Forced | None:
        """Require a forced implementation to exist and to be able to run this call.

        Args:
          value: the name of the implementation, or None if none is forced.
          methods: the names that exist.
          why_not: takes a name; returns why it cannot run this call, or None if it can.
          only_on: the platform of each implementation that only one platform has.

        Returns:
          None if none is forced. Otherwise the method, with the error text for a program that is lowered for a platform
          without it; the platform is not known before.
        """
        if value is None:
            return None
        self.choice("implementation", value, methods)
        advice = "Pass implementation=None to let the library choose."
        reason = why_not(value)
        if reason is not None:
            self.fail(NotImplementedError, f"implementation={value!r} cannot serve this call: {reason}.", advice)
        platform = (only_on or {}).get(value)
        if platform is None:
            return Forced(value)
        rule = f"implementation={value!r} serves only when lowered for {platform}."
        return Forced(value, platform, self.message(rule, advice))


_MOST_KNOWN = 2**16
"""A parameter with more elements is data, whether or not it is known while tracing."""


def _is_array(value: Any) -> bool:
    numbers = np.generic | bool | int | float | complex
    return isinstance(value, jax.Array | np.ndarray | numbers) or hasattr(value, "__jax_array__")


def dtype_or_none(value: Any) -> np.dtype[Any] | None:
    """Return the dtype that an option names, or None if it names none."""
    try:
        return np.dtype(value)
    except TypeError:
        return None


def native(value: Any) -> Any:
    """Return a NumPy array with the byte order of this machine; return anything else as it is."""
    if isinstance(value, np.ndarray | np.generic) and not value.dtype.isnative:
        return value.astype(value.dtype.newbyteorder("="))
    return value


def _shown(value: Any) -> str:
    """Write the value of an option as its ``repr``, or as its type if the ``repr`` is long."""
    written = repr(value)
    return written if len(written) <= 60 and "\n" not in written else f"a {type(value).__name__}"


def _instead_of(name: str, value: Any) -> str:
    """Say what to pass instead of a value that is not an array."""
    if isinstance(value, jax.ShapeDtypeStruct):
        return "Pass an array, or trace with jax.eval_shape to work with shapes alone."
    if hasattr(value, "todense"):
        return f"Pass {name}.todense()."
    if isinstance(value, jax.Ref):
        return f"Pass {name}[...], the array that it refers to."
    if isinstance(value, PackedMatrix | PackedFilters | PackedBlocks | dict):
        return "Pass one of its arrays." if isinstance(value, dict) else "Pass the array that was packed."
    if isinstance(value, list | tuple) or hasattr(value, "__array__") or hasattr(value, "__dlpack__"):
        return f"Pass jnp.asarray({name})."
    return "Pass an array of numbers."


def x64_enabled() -> bool:
    """Tell whether JAX keeps 64-bit dtypes."""
    return bool(jax.config.jax_enable_x64)  # type: ignore[attr-defined]
