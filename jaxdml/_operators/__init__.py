"""Floor 3: one file an operator: its signature, its docstring, its checks, its canonical form."""
