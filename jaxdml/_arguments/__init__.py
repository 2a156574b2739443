"""Check the arguments of public functions, and bring them into canonical form, in the ways that several share."""
