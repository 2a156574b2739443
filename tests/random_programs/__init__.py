"""Draw programs with one operator each, and with what users write around it, whose results are known exactly.

A program is a function for ``jax.jit``. Its operands are arguments, constants, uniform arrays, or made of arguments
within the program; after the operator come a few operations of stock JAX. All numbers that are added up are small
multiples of 1/4, so that no order of summation rounds. The oracle says what the operator returns, and NumPy what
follows of that.
"""

from tests.random_programs.programs import NAMES, Program, Runnable, draw_program

__all__ = ["NAMES", "Program", "Runnable", "draw_program"]
