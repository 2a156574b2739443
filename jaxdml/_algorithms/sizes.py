"""Compare sizes that may be symbolic, as they are while ``jax.export`` traces."""

import jax


def at_most(size: int, limit: int) -> bool | None:
    """Tell whether ``size <= limit``; None if a symbolic size can be on either side."""
    try:
        return bool(size <= limit)
    except jax.errors.InconclusiveDimensionOperation:
        return None
