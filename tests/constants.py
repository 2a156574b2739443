"""The constants on which a proof rests, and the tests that guard them.

``python -m tests.constants [NAME ...]`` changes each of them, or those of these names, in a copy of the tree, runs
their guards there, and prints the changes that pass though a result may be wrong. ``python -m tests.test_structure``
writes the table of docs/contributing.md.
"""

import ast
import os
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from pathlib import Path

import numpy as np

ROOT = Path(__file__).parents[1]

GUARDED = """
_arithmetic/float_parts: _HALVES, _HALVES_BITS + 1
  test_quantize_linear: agrees_with_the_oracle_on_and_beside_ties
_arithmetic/ieee: NAN, _FLOAT16_NAN
  test_dequantize_linear: agrees_with_the_oracle_on_any_scale
  test_ieee: operations_round_as_ieee
_arithmetic/ieee: _UNITS, _EXACT_BITS, _SMALL_BITS + 1 - 1 // 2
  test_ieee: operations_round_as_ieee
_arithmetic/in_float64: UNIT, LEAST_NORMAL_NUMBER * 2
  test_ieee: products_in_float64_round_as_ieee
_arithmetic/nearest: TO_INTEGER
  test_nearest: it_rounds_ties_to_even_and_saturates
_arithmetic/residuals: TOLERANCE * 2 / 2, _MIN_SHIFT + 1 - 1, _MAX_SHIFT + 1 - 1 * 2, _MAX_DEEP_SHIFT + 1 - 1
  test_quantized_linear_matrix_multiply: agrees_with_the_oracle, every_quotient_is_correctly_rounded, no_depth_overflows
_arithmetic/residuals: _HALF_WORD, _DEEP_SHIFT + 1 - 1 // 2
  test_quantized_linear_matrix_multiply: every_quotient_is_correctly_rounded, no_depth_overflows
_arithmetic/to_float32: _DROPPED, _REBIAS, _INFINITY, _LEAST_NORMAL + 1 * 2
  test_quantize_linear: agrees_with_the_oracle_on_and_beside_ties
_arithmetic/words: _WORD + 1
  test_gather: every_dtype_is_read_from_other_shards
_kernels/average_pooling/pools: LARGEST_WINDOW
  test_quantized_linear_average_pooling: refusals
_kernels/average_pooling/rounded_mean: _LEAST + 1 - 1 * 2, _GREATEST + 1 - 1 * 2
  test_quantized_linear_average_pooling: every_mean_is_rounded_correctly, \
the_least_and_the_greatest_sums_of_the_largest_windows_are_rounded_correctly
_kernels/float_scaling/scaled_sums: _USUAL_SCALES[0] * 2 / 2 * 2**20, _USUAL_SCALES[1] ALL, _USUAL_BIASES[0] ALL, \
_USUAL_BIASES[1] ALL
  test_matrix_multiply_integer_to_float: large_results_with_scales_at_the_ends_of_the_usual_ones
_kernels/integer_product/kernel: _INT32_MAX - 1 // 2
  test_quantized_linear_matrix_multiply: the_first_sum_that_int32_cannot_hold_is_exact, the_greatest_sums_are_exact
_kernels/integer_product/operands: ALIGNMENT * 2
  test_lowerings: gpus_multiply_deep_int8_in_sizes_that_are_multiples_of_16, \
gpus_turn_the_right_matrix_of_many_rows_first
_kernels/integer_product/tensor_core_dot: LONGEST_FLOAT_SUM
  test_lowerings: every_product_is_int8_by_int8_into_int32_or_as_exact, \
gpus_multiply_deep_int8_in_sizes_that_are_multiples_of_16, gpus_turn_the_right_matrix_of_many_rows_first
  test_quantized_linear_matrix_multiply: products_broadcast_as_matmul_does
_kernels/quantization/dynamic_range: _STEPS, _ONE
  test_dynamic_quantize_linear: a_range_has_this_scale_and_zero_point, agrees_with_the_oracle_on_ranges_of_any_size
_kernels/quantization/float64_quotient: _LEAST * 2 / 2, _GREATEST * 2 / 2
  test_quantize_linear: great_and_small_scales_give_quotients_next_to_midpoints, ordinary_scales_need_no_exact_products
_kernels/quantization/quantizing: _ONE, _LARGEST_POWER, _OF_ZERO + 1 - 1 // 2
  test_quantize_linear: agrees_with_the_oracle_on_and_beside_ties
_kernels/quantized_sum/fixed_point_sum: _LIMB, _LIMBS, _LEAST, _DEEPEST + 1, _STEEPEST, _GREATEST, _MARGIN, _POINT, \
_STEEPEST_OF_TWO - 1, _GREATEST_OF_TWO + 1 - 1 * 2
  test_quantized_linear_add: every_pair_of_bytes_is_rounded_correctly, sums_at_the_bounds_of_exponents_are_right, \
sums_next_to_ties_are_no_ties
_kernels/requantization/digit_products: DIGITS[0], DIGITS[1], _POINT - 1, _SATURATED, _MOST + 1 - 1, _BIAS
  test_known_scales: digits_are_right_around_every_half_if_they_are_proved, \
more_digits_for_smaller_multipliers_and_none_beyond_some_size, \
the_greatest_multipliers_and_the_least_distances_have_digits
_kernels/requantization/chain_factors: _NEAR * 2 / 2 * 2**20, _HELD, _SATURATING
  test_chains: a_chain_subtracts_floats_if_float32_holds_all_that_it_adds_and_subtracts, \
factors_round_the_sums_beside_every_half_as_real_numbers_are_rounded, sums_that_may_not_saturate_are_integers
_kernels/requantization/float64_rounding: _TO_INTEGER
  test_known_scales: what_is_proved_is_right_around_every_half
_kernels/requantization/multiplier: _UNIT_BITS, _SATURATED * 2 * 2**20, _DIGIT + 1 - 1
  test_quantized_linear_matrix_multiply: multipliers_are_what_their_parts_say, \
multipliers_decide_wherever_they_do_not_doubt
  test_requantize: known_and_traced_scales_give_the_right_bits
_kernels/requantization/proofs: MARGIN * 2, CLEAR * 2 / 2 * 2**20, STEP / 2, _LEAST ALL, _GREATEST ALL, \
_DIGIT + 1 - 1 // 2
  test_known_scales: a_great_sum_that_is_too_close_to_a_half_is_not_proved, \
a_sum_that_is_too_close_to_a_half_is_not_proved, all_sums_of_two_are_right, sums_that_are_not_proved, \
what_is_not_clear, what_is_proved_is_right_around_every_half
_kernels/selection/carried: _LAST
  test_tpu_forms: top_k_carries_elements_along
_kernels/selection/default: LAX_TOP_K_LIMIT
  test_top_k: a_method_takes_no_more_elements_than_its_positions_count
_kernels/selection/kernel: PACKED_LIMIT
  test_top_k: a_method_takes_no_more_elements_than_its_positions_count
_kernels/selection/ranked_pairs: _TOP, _NAN_KEY + 1
  test_top_k: most_or_all_of_an_axis_agrees_with_the_oracle
_kernels/selection/threshold: _WORD - 1 // 2
  test_top_k: agrees_with_the_oracle, most_or_all_of_an_axis_agrees_with_the_oracle
_networks/limbs: _BITS, _COUNT + 1, _FACTOR_BITS + 1 - 1 // 2
  onnx/test_limbs: numbers_are_added_at_their_places, products_are_exact, sums_do_not_wrap_around
_networks/softmax: BEYOND * 2 / 2 * 2**20, _FEWEST_BITS, _TO_INTEGER
  onnx/test_groups: softmax_is_right_in_rows_of_up_to_1000
  onnx/test_limbs: softmax_adds_exponentials_of_20_bits_or_is_left_to_floats
  onnx/test_normalized_integers: softmax_in_one_kernel_has_the_bits_of_the_table
"""
"""Constants of a file, each with the changes that leave all results right, since its argument has room; then the tests.

``* 1`` is tried with every constant, and has to pass.
"""


def guarded():
    """Return the file, the constants with the changes that are harmless, and the tests of every entry."""
    for entry in re.split(r"\n(?=\S)", GUARDED.strip()):
        (file, constants), *guards = (line.split(": ") for line in entry.split("\n  "))
        named = dict(constant.partition(" ")[::2] for constant in constants.split(", "))
        yield ROOT / f"jaxdml/{file}.py", named, {f"tests/{of}.py": tests.split(", ") for of, tests in guards}


def expression(file, constant):
    """Return the expression of a constant, or of an element, such as ``_LEAST`` or ``DIGITS[1]``."""
    name, _, place = constant.rstrip("]").partition("[")
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign):
            (target,), value = node.targets, node.value
            several = isinstance(target, ast.Tuple)
            for one, given in zip(target.elts, value.elts, strict=True) if several else [(target, value)]:
                if one.id == name:
                    return given.elts[int(place)] if place else given
    raise LookupError(f"{file} has no {constant}")


def changes(file, node):
    """Return what is done to a constant: doubled, halved, one more, an order."""
    module = import_module(".".join(file.relative_to(ROOT).with_suffix("").parts))
    value = eval(ast.unparse(node), dict(vars(module)))
    if isinstance(value, float | np.floating):
        return "* 2", "/ 2", "* 2**20", "/ 2**20"
    return ("+ 1", "- 1", "* 2", "// 2") if value else ("+ 1", "- 1")


def passes(file, node, change, guards):
    """Tell whether the guards pass in a copy of the tree in which a constant is changed."""
    lines = file.read_text(encoding="utf-8").split("\n")
    line, start, end = lines[node.lineno - 1], node.col_offset, node.end_col_offset
    lines[node.lineno - 1] = f"{line[:start]}({line[start:end]}) {change}{line[end:]}"
    tests = [f"{of}::test_{name}" for of, names in guards.items() for name in names]
    with tempfile.TemporaryDirectory() as copy:
        without = shutil.ignore_patterns("__pycache__", "_build", "results")
        for part in ("jaxdml", "tests", "benchmarks", "docs"):
            shutil.copytree(ROOT / part, Path(copy, part), ignore=without)
        shutil.copy(ROOT / "pyproject.toml", copy)
        Path(copy, file.relative_to(ROOT)).write_text("\n".join(lines), encoding="utf-8")
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-n0", "-p", "no:cacheprovider", *tests]
        environment = {**os.environ, "PYTHONPATH": copy, "CI": "1"}  # All cases, and the same data in every run.
        return not subprocess.run(command, check=False, cwd=copy, env=environment, capture_output=True).returncode


def main(names):
    """Print what passes that should not, and what does not pass unchanged."""
    known = {constant.partition("[")[0] for _, constants, _ in guarded() for constant in constants}
    if unknown := set(names) - known:
        raise SystemExit(f"No such constants: {', '.join(sorted(unknown))}. There are: {', '.join(sorted(known))}.")
    tried = [
        (file, constant, node, change, guards)
        for file, constants, guards in guarded()
        for constant, harmless in constants.items()
        if not names or constant.partition("[")[0] in names
        for node in [expression(file, constant)]
        for change in ("* 1", *changes(file, node))
        if harmless != "ALL" and change not in re.findall(r"[-+*/]+ \S+", harmless)
    ]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        found = pool.map(lambda one: passes(one[0], *one[2:]), tried)
        for (file, constant, _, change, _), passed in zip(tried, found, strict=True):
            if passed != (change == "* 1"):
                how = "fails unchanged" if change == "* 1" else f"{change} passes"
                print(f"{file.relative_to(ROOT)}: {constant} {how}", flush=True)
    print(f"{len(tried)} changes")


if __name__ == "__main__":
    main(sys.argv[1:])
