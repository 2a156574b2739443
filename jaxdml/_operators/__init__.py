"""Floor 4: one file per operator, with its signature, docstring, argument checks and canonical form."""
