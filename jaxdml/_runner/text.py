"""Read the JSON that DxDispatch accepts, and refuse what is wrong in it by the path to the field."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from jaxdml.directml import InvalidDescError, Violation

LARGEST_FILE = 2**26
"""Bytes; a model holds no data, but may have long lists of numbers."""

_SUBJECT = "a model that cannot be run."

# A string, or else a comment, or else a comma before the end of a list or an object.
_EXTRA = re.compile(r'"(?:\\.|[^"\\])*"|//[^\n]*|/\*.*?\*/|,(?=(?:\s|//[^\n]*|/\*.*?\*/)*[}\]])', re.DOTALL)


def refuse(path: str, rule: str, got: Any) -> NoReturn:
    """Refuse a field of a model."""
    raise InvalidDescError(_SUBJECT, [Violation(path, rule, got)])


def within(path: str, error: InvalidDescError) -> InvalidDescError:
    """Return the error about a part of a model as one about the model, which names the path to the part."""
    return InvalidDescError(_SUBJECT, [one._replace(field=f"{path}.{one.field}") for one in error.violations])


def read(file: Path) -> dict[str, Any]:
    """Return the model in a file: comments, commas before an end and text after the end are ignored."""
    if file.stat().st_size > LARGEST_FILE:
        refuse(str(file), f"must have at most {LARGEST_FILE} bytes", file.stat().st_size)
    try:
        text = file.read_text("utf-8-sig")
        plain = _EXTRA.sub(lambda found: found[0] if found[0][0] == '"' else " ", text).strip()
        value, _ = json.JSONDecoder().raw_decode(plain)
    except (ValueError, RecursionError) as error:
        refuse(str(file), "must be JSON", str(error) or type(error).__name__)
    model = member("", {"model": value}, "model", dict)
    for name, kind in (("resources", dict), ("dispatchables", dict), ("commands", list)):
        member("", model, name, kind)
    return model


_NAMES = {
    dict: "an object",
    list: "a list",
    str: "a string",
    int: "an integer",
    float: "a number",
    bool: "true or false",
}


def member(path: str, value: Mapping[str, Any], name: str, kind: Any, default: Any = ...) -> Any:
    """Return a member of an object, of one of these types; refuse one that is missing and has no default."""
    label = f"{path}.{name}" if path else name
    if name not in value:
        if default is ...:
            refuse(label, "is required", "nothing")
        return default
    kinds = kind if isinstance(kind, tuple) else (kind,)
    if not isinstance(value[name], kinds) or (isinstance(value[name], bool) and bool not in kinds):
        refuse(label, f"must be {' or '.join(_NAMES[one] for one in kinds)}", repr(value[name])[:80])
    return value[name]
