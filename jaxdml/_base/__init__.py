"""Floor 0: facts about dtypes and shapes, and the one composer of error messages. No JAX."""
