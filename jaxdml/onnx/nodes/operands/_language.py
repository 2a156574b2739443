"""Rules for the shapes of operands: texts such as ``X: N group*C ...; W: M C ...; B: M``.

A rule lists operands by position, and for each the shapes that it may have, separated by ``|``. A shape lists sizes:

- a number; a name, which is an attribute of the node or is equal wherever it stands; products and sums of these;
- ``name?``: that size or 1;
- ``name>=other``, ``name<=other``: a size that is at least, or at most, another one;
- ``_``: any size;
- ``*``: any number of dimensions; ``*S``: those that ``*S`` stands for elsewhere, too;
- ``...``: as many dimensions wherever it stands; ``...S``: of equal sizes, too;
- ``()``: no dimensions; ``~`` before a shape: one that broadcasts to it.

Sizes that are not known, as of lengths that depend on values, or that are symbolic, fit everywhere.
"""

import math
import operator
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

Sizes = Sequence[Any]
"""Of one operand; what is no number is not known."""

Names = dict[str, Any]
"""What names stand for: numbers; tuples of sizes for groups of dimensions; for "..." how many these are."""


class Form(NamedTuple):
    """A shape that an operand may have.

    Attributes:
      head: sizes before a group of dimensions.
      group: the group, or "".
      tail: sizes after it.
      broadcasts: whether an operand need only broadcast to this shape.
    """

    head: tuple[str, ...]
    group: str
    tail: tuple[str, ...]
    broadcasts: bool


class Wrong(NamedTuple):
    """An operand that does not fit.

    Attributes:
      position: of the operand.
      name: its name.
      expected: what shapes it may have, as a text.
    """

    position: int
    name: str
    expected: str


@lru_cache(maxsize=1024)
def _parsed(rule: str) -> tuple[tuple[str, tuple[Form, ...]], ...]:
    operands = (operand.split(":") for operand in rule.split(";"))
    return tuple((name.strip(), tuple(map(_form, forms.split("|")))) for name, forms in operands)


def named(rule: str) -> list[str]:
    """Return the names of a rule's operands."""
    return [name for name, _ in _parsed(rule)]


def _form(text: str) -> Form:
    sizes = text.replace("~", " ").replace("()", " ").split()
    place = next((place for place, size in enumerate(sizes) if size.startswith(("*", "..."))), len(sizes))
    return Form(tuple(sizes[:place]), "".join(sizes[place : place + 1]), tuple(sizes[place + 1 :]), "~" in text)


def first_wrong(rule: str, operands: Sequence[Sizes | None], attributes: Mapping[str, Any]) -> Wrong | None:
    """Return the first operand that does not fit a rule, or None.

    Args:
      rule: the rule.
      operands: by position; None for one that is left out, or of which nothing is known.
      attributes: of the node, by name. Those that are no numbers do not count.
    """
    names = {name: value for name, value in attributes.items() if isinstance(value, int)}
    for position, ((name, forms), sizes) in enumerate(zip(_parsed(rule), operands, strict=False)):
        if sizes is None:
            continue
        found = next((found for form in forms if (found := _matched(form, sizes, names)) is not None), None)
        if found is None:
            return Wrong(position, name, " or ".join(_written(form, names) for form in forms))
        names = found
    return None


def _matched(form: Form, sizes: Sizes, names: Names) -> Names | None:
    """Return the names with what this operand adds to them, or None if it does not fit."""
    names = dict(names)
    head, group, tail = form.head, form.group, form.tail
    count = len(sizes) - len(head) - len(tail)
    if form.broadcasts:
        if group and group not in names:
            return names
        target = [*head, *map(str, names.get(group, ())), *tail]
        missing = len(target) - len(sizes)
        fits = missing >= 0 and all(
            size == 1 or _agrees(wanted, size, names) for wanted, size in zip(target[missing:], sizes, strict=True)
        )
        return names if fits else None
    if count < 0 or (count and not group):
        return None
    each = zip((*head, *tail), (*sizes[: len(head)], *sizes[len(sizes) - len(tail) :]), strict=True)
    fits = all(_agrees(wanted, size, names) for wanted, size in each)
    if group.startswith("..."):
        fits &= names.setdefault("...", count) == count
    if group.strip("*."):
        middle = tuple(size if isinstance(size, int) else None for size in sizes[len(head) : len(head) + count])
        before = names.setdefault(group, middle)
        same = (_agrees(str(a), b, names) for a, b in zip(before, middle, strict=False))
        fits &= len(before) == count and all(same)
    return names if fits else None


def _agrees(wanted: str, size: Any, names: Names) -> bool:
    """Tell whether a size is as wanted; a name that stands for nothing yet stands for it from now on."""
    wanted, sign, limit = _split(wanted)
    if not isinstance(size, int) or (sign == "?" and size == 1):
        return True
    bound = _number(limit, names) if limit else None
    if bound is not None and not _SIGNS[sign](size, bound):
        return False
    if wanted in ("_", "None"):
        return True
    terms = _terms(wanted, names)
    unknown = [factor for term in terms for factor in term if isinstance(factor, str)]
    if not unknown:
        return size == _sum(terms)
    return len(terms) > 1 or len(unknown) > 1 or _solved(unknown[0], terms[0], size, names)


_SIGNS: Mapping[str, Callable[[int, int], bool]] = {">=": operator.ge, "<=": operator.le}


def _split(wanted: str) -> tuple[str, str, str]:
    """Return a size, the sign after it, and what follows."""
    sign = next((sign for sign in (*_SIGNS, "?") if sign in wanted), "")
    return wanted.partition(sign) if sign else (wanted, "", "")


def _terms(text: str, names: Names) -> list[list[int | str]]:
    """Return the factors of each term: numbers, and names that stand for nothing yet."""

    def factor(text: str) -> int | str:
        number = _number(text, names)
        return text if number is None else number

    return [[factor(each) for each in term.split("*")] for term in text.split("+")]


def _number(factor: str, names: Names) -> int | None:
    return int(factor) if factor.isdecimal() else names.get(factor)


def _sum(terms: Sequence[Sequence[Any]]) -> int:
    return sum(int(math.prod(term)) for term in terms)


def _solved(name: str, factors: Sequence[int | str], size: int, names: Names) -> bool:
    """Let a name stand for the factor that makes a product this size, if there is one."""
    rest = math.prod(factor for factor in factors if isinstance(factor, int))
    if rest == 0 or size % rest:
        return rest == size
    names[name] = size // rest
    return True


def _written(form: Form, names: Names) -> str:
    """Return a shape as a text, with the numbers of the names that are known."""

    def size(text: str) -> str:
        wanted, sign, limit = _split(text)
        terms = _terms(wanted, names)
        unknown = any(isinstance(factor, str) for term in terms for factor in term)
        own = ("any" if wanted == "_" else wanted) if unknown else str(_sum(terms))
        bound = _number(limit, names) if limit else None
        return own + {"": "", "?": " or 1"}.get(sign, f" {sign} {limit if bound is None else bound}")

    named = form.group.strip("*.") and form.group in names
    group = map(str, names[form.group]) if named else ["..."] * bool(form.group)
    shape = ", ".join([*map(size, form.head), *group, *map(size, form.tail)]).replace("None", "any")
    return f"what broadcasts to [{shape}]" if form.broadcasts else f"[{shape}]"
