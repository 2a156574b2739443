"""What descriptions of attention must obey, and what is read from them."""

from collections.abc import Mapping
from typing import Any

from jaxdml.directml._c import c_field
from jaxdml.directml._checks import alike
from jaxdml.directml._enums import MultiheadAttentionMaskType as Mask
from jaxdml.directml._errors import Violation, Violations

STACKS = "stacked_query_key_tensor", "stacked_key_value_tensor", "stacked_query_key_value_tensor"
SOURCES: Mapping[str, Mapping[str, int]] = {
    part: {f"{part}_tensor": 0} | {name: name.split("_")[1:-1].index(part) for name in STACKS if part in name}
    for part in ("query", "key", "value")
}
"""For queries, keys and values the tensors from which they come, and their places in those that are stacked."""

_PAST = "past_key_tensor", "past_value_tensor"


def heads_of(desc: Any) -> dict[str, int]:
    """Return how many heads queries, keys and values have."""
    groups = getattr(desc, "key_value_head_count", 0) or desc.head_count
    return {"query": getattr(desc, "query_head_count", groups), "key": groups, "value": groups}


def source_of(desc: Any, part: str) -> str | None:
    """Return the tensor from which queries, keys or values come, if any are new."""
    return next((name for name in SOURCES[part] if name in desc.tensors), None)


def room_of(desc: Any) -> int:
    """Return how many keys there is room for, with those that are to come."""
    names = "past_key_tensor", "output_present_key_tensor", "key_tensor"
    return int(next(desc.tensors[name].sizes[-2] for name in names if name in desc.tensors))


def _constraints(desc: Any) -> Violations:
    floats = [name for name in desc.tensors if name not in ("mask_tensor", "past_sequence_lengths_tensor")]
    yield from alike(desc, "data_type", "output_tensor", *floats)
    yield from _heads_given(desc)
    yield from _sources_given(desc)
    for name, want in _sizes(desc).items():
        yield from _behind_ones(desc, name, *want)


def _heads_given(desc: Any) -> Violations:
    counts = [name for name in ("head_count", "query_head_count", "key_value_head_count") if hasattr(desc, name)]
    zeros = [name for name in counts if getattr(desc, name) == 0]
    for name in zeros:
        yield Violation(c_field(name), "must be greater than 0", 0)
    if len(counts) == 2 and not zeros and desc.query_head_count % desc.key_value_head_count:
        rule = f"must be divisible by {desc.key_value_head_count}, KeyValueHeadCount"
        yield Violation("QueryHeadCount", rule, desc.query_head_count)


def _sources_given(desc: Any) -> Violations:
    """Require one source of queries, keys and values each; keys and values may be those of the past alone."""
    past = [name for name in _PAST if name in desc.tensors]
    if len(past) == 1:
        yield Violation("PastKeyTensor", "must be given together with PastValueTensor", c_field(past[0]))
    for part, sources in SOURCES.items():
        found = [c_field(name) for name in sources if name in desc.tensors]
        if len(found) > 1 or (not found and (part == "query" or len(past) < 2)):
            names = ", ".join(map(c_field, sources))
            yield Violation(c_field(f"{part}_tensor"), f"must be the only one given of {names}", found)


def _sizes(desc: Any) -> dict[str, tuple[int, ...]]:
    """Return the sizes that tensors must have, by their names; none if what they follow from breaks a constraint."""
    least = {f"{part}_tensor": 3 for part in SOURCES} | dict.fromkeys(STACKS, 5) | dict.fromkeys(_PAST, 4)
    few = any(len(tensor.sizes) < least.get(name, 0) for name, tensor in desc.tensors.items())
    if few or [*_heads_given(desc), *_sources_given(desc)]:
        return {}
    heads, lengths, sizes, batch = heads_of(desc), {}, {}, 0
    for part, count in heads.items():
        name = source_of(desc, part) or f"past_{part}_tensor"
        own = desc.tensors[name].sizes
        if name in STACKS:
            lengths[part], sizes[part] = own[1], own[4]
        elif name in _PAST:
            lengths[part], sizes[part] = 0, own[-1]
        else:
            lengths[part], sizes[part] = own[-2], own[-1] // count
        batch = batch or own[0 if name in STACKS else -3]
    before = desc.tensors["past_key_tensor"].sizes[-2] if "past_key_tensor" in desc.tensors else 0
    queries, keys, size, own = lengths["query"], lengths["key"], sizes["query"], sizes["value"]
    after = before + keys
    if hasattr(desc, "past_sequence_lengths_tensor"):
        before = after = room_of(desc)
    each = {"query": size, "key": size, "value": own}
    masks = {
        Mask.KEY_SEQUENCE_LENGTH: (1, batch),
        Mask.KEY_SEQUENCE_END_START: (2, batch),
        Mask.KEY_QUERY_SEQUENCE_LENGTH_START_END: (3 * batch + 2,),
    }
    return {
        **{f"{part}_tensor": (batch, lengths[part], heads[part] * each[part]) for part in SOURCES},
        "value_tensor": (batch, keys, heads["value"] * own),
        **{name: (batch, queries, heads["query"], name.count("_") - 1, size) for name in STACKS if "query" in name},
        "stacked_key_value_tensor": (batch, keys, heads["key"], 2, size),
        "bias_tensor": (sum(heads[part] * each[part] for part in SOURCES),),
        **({"mask_tensor": masks[desc.mask_type]} if desc.mask_type in masks else {}),
        "attention_bias_tensor": (batch, heads["query"], queries, after),
        **{f"past_{part}_tensor": (batch, heads[part], before, each[part]) for part in ("key", "value")},
        **{f"output_present_{part}_tensor": (batch, heads[part], after, each[part]) for part in ("key", "value")},
        "past_sequence_lengths_tensor": (batch,),
        "output_tensor": (batch, queries, heads["query"] * own),
    }


def _behind_ones(desc: Any, name: str, *want: int) -> Violations:
    """Require sizes, behind any sizes of 1."""
    if name in desc.tensors and _bare(desc.tensors[name].sizes) != _bare(want):
        yield Violation(f"{c_field(name)}.Sizes", f"must be {list(want)}, behind any 1s", desc.tensors[name].sizes)


def _bare(sizes: tuple[int, ...]) -> list[int]:
    """Return sizes from the first on that is not 1."""
    return list(sizes[next((place for place, size in enumerate(sizes) if size != 1), len(sizes)) :])


def masked(desc: Any) -> Violations:
    yield from _constraints(desc)
    mask = desc.mask_tensor
    if (mask is None) != (desc.mask_type == Mask.NONE):
        yield Violation("MaskTensor", "must be nullptr for a MaskType of NONE, and only then", desc.mask_type.name)
    elif desc.mask_type == Mask.BOOLEAN and (wanted := _sizes(desc)):
        whole = wanted["attention_bias_tensor"]
        sizes = (1,) * (4 - len(mask.sizes)) + mask.sizes
        if any(n not in (1, size) for n, size in zip(sizes, (1,) * (len(sizes) - 4) + whole, strict=True)):
            yield Violation("MaskTensor.Sizes", f"must be 1 or those of the scores, {list(whole)}", mask.sizes)


def grouped(desc: Any) -> Violations:
    """Allow what programs are known to pass: what the other tensors do is written nowhere."""
    nowhere = "what it does here is written nowhere"
    unknown = [
        Violation(c_field(name), f"must be nullptr: {nowhere}", "a tensor")
        for name in (*STACKS, "bias_tensor", "mask_tensor", "attention_bias_tensor")
        if name in desc.tensors
    ] + [
        Violation(c_field(name), "must be given: what happens without it is written nowhere", "nullptr")
        for name in ("key_tensor", "value_tensor", "past_sequence_lengths_tensor")
        if name not in desc.tensors
    ]
    yield from unknown or _constraints(desc)
    if desc.mask_type != Mask.NONE:
        yield Violation("MaskType", f"must be NONE: {nowhere}", desc.mask_type.name)
