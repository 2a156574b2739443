"""What flows between the nodes of a model while JAX traces it: how it is stored, and how much of it counts."""
