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

Names = dict[str | int, Any]
"""What names stand for: numbers; tuples of ``Size`` for groups of dimensions; for "..." how many these are."""

_ANY = "_"


class Size(NamedTuple):
    """A size that a rule lists, and what it is compared with.

    Attributes:
      text: as the rule writes it, without the comparison.
      terms: whose sum it is; each is a product of numbers and names. None at all where any size will do.
      sign: how it is compared: "?", ">=", "<=" or "" for not at all.
      limit: what stands after the sign.
    """

    text: str
    terms: tuple[tuple[int | str, ...], ...]
    sign: str
    limit: int | str


class Form(NamedTuple):
    """A shape that an operand may have.

    Attributes:
      head: sizes before a group of dimensions.
      group: the group, or "".
      tail: sizes after it.
      broadcasts: whether an operand need only broadcast to this shape.
    """

    head: tuple[Size, ...]
    group: str
    tail: tuple[Size, ...]
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
    head, tail = (tuple(map(_size, each)) for each in (sizes[:place], sizes[place + 1 :]))
    return Form(head, "".join(sizes[place : place + 1]), tail, "~" in text)


_SIGNS: Mapping[str, Callable[[int, int], bool]] = {">=": operator.ge, "<=": operator.le}


def _size(text: str) -> Size:
    sign = next((sign for sign in (*_SIGNS, "?") if sign in text), "")
    own, _, limit = text.partition(sign) if sign else (text, "", "")
    terms = () if own == _ANY else tuple(tuple(map(_factor, term.split("*"))) for term in own.split("+"))
    return Size(own, terms, sign, _factor(limit))


def _factor(text: str) -> int | str:
    return int(text) if text.isdecimal() else text


def first_wrong(rule: str, operands: Sequence[Sizes | None], attributes: Mapping[str, Any]) -> Wrong | None:
    """Return the first operand that does not fit a rule, or None.

    Args:
      rule: the rule.
      operands: by position; None for one that is left out, or of which nothing is known.
      attributes: of the node, by name. Those that are no numbers do not count.
    """
    names: Names = {name: value for name, value in attributes.items() if isinstance(value, int)}
    for position, ((name, forms), sizes) in enumerate(zip(_parsed(rule), operands, strict=False)):
        if sizes is None:
            continue
        for form in forms:
            found = _matched(form, sizes, names)
            if found is not None:
                names = found
                break
        else:
            return Wrong(position, name, " or ".join(_written(form, names) for form in forms))
    return None


def _matched(form: Form, sizes: Sizes, names: Names) -> Names | None:
    """Return the names with what this operand adds to them, or None if it does not fit."""
    names = dict(names)
    pairs = _pairs(form, sizes, names)
    return names if pairs is not None and all(_agrees(*pair, names) for pair in pairs) else None


def _pairs(form: Form, sizes: Sizes, names: Names) -> Sequence[tuple[Size, Any]] | None:
    """Return each size that is wanted with the operand's, or None if it has too many or too few."""
    head, group, tail = form.head, form.group, form.tail
    if form.broadcasts:
        if group and group not in names:
            return []
        target = [*head, *names.get(group, ()), *tail]
        missing = len(target) - len(sizes)
        return (
            None
            if missing < 0
            else [pair for pair in zip(target[missing:], sizes, strict=True) if not _is_one(pair[1])]
        )
    count = len(sizes) - len(head) - len(tail)
    if count < 0 or (count and not group) or (group.startswith("...") and names.setdefault("...", count) != count):
        return None
    pairs = list(zip((*head, *tail), (*sizes[: len(head)], *sizes[len(head) + count :]), strict=True))
    if not group.strip("*."):
        return pairs
    middle = sizes[len(head) : len(head) + count]
    before = names.setdefault(group, tuple(map(_known, middle)))
    return [*pairs, *zip(before, middle, strict=True)] if len(before) == count else None


def _is_one(size: Any) -> bool:
    return isinstance(size, int) and size == 1


def _known(size: Any) -> Size:
    """Return the size of an operand as one that others must have."""
    return _size(str(size) if isinstance(size, int) else _ANY)


def _agrees(wanted: Size, size: Any, names: Names) -> bool:
    """Tell whether a size is as wanted; a name that stands for nothing yet stands for it from now on."""
    if not isinstance(size, int) or (wanted.sign == "?" and _is_one(size)):
        return True
    bound = names.get(wanted.limit, wanted.limit)
    if wanted.sign in _SIGNS and isinstance(bound, int) and not _SIGNS[wanted.sign](size, bound):
        return False
    if not wanted.terms:
        return True
    terms = _terms(wanted, names)
    unknown = [factor for term in terms for factor in term if isinstance(factor, str)]
    if not unknown:
        return size == sum(map(math.prod, terms))
    return len(terms) > 1 or len(unknown) > 1 or _solved(unknown[0], terms[0], size, names)


def _terms(size: Size, names: Names) -> list[list[Any]]:
    """Return the factors of each term: numbers, and names that stand for nothing yet."""
    return [[names.get(factor, factor) for factor in term] for term in size.terms]


def _solved(name: str, factors: Sequence[int | str], size: int, names: Names) -> bool:
    """Let a name stand for the factor that makes a product this size, if there is one."""
    rest = math.prod(factor for factor in factors if isinstance(factor, int))
    if rest == 0 or size % rest:
        return rest == size
    names[name] = size // rest
    return True


def _written(form: Form, names: Names) -> str:
    """Return a shape as a text, with the numbers of the names that are known."""

    def written(size: Size) -> str:
        terms = _terms(size, names)
        unknown = any(isinstance(factor, str) for term in terms for factor in term)
        own = size.text if unknown else str(sum(map(math.prod, terms))) if terms else "any"
        return own + {"": "", "?": " or 1"}.get(size.sign, f" {size.sign} {names.get(size.limit, size.limit)}")

    named = form.group.strip("*.") and form.group in names
    group = map(written, names[form.group]) if named else ["..."] * bool(form.group)
    shape = ", ".join([*map(written, form.head), *group, *map(written, form.tail)])
    return f"what broadcasts to [{shape}]" if form.broadcasts else f"[{shape}]"
