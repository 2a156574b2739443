"""Floor 3: what an operator does when its arrays are spread over a mesh; the only floor that knows mesh axes."""
