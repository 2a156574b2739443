"""One file for each operator: its signature, docstring, checks and canonical form."""
