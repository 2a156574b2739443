"""From a graph to a function of arrays: parameters, programs, calls."""
