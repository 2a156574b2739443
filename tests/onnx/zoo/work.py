"""Make one file, and judge one: what runs in a process of its own."""

import contextlib
import io
import json
import logging
import warnings
from pathlib import Path
from typing import Any

import numpy as np

GENAI = "genai"
"""What the names of the builder's files begin with."""


def make(name: str, out: Path) -> dict[str, Any] | None:
    """Write the file of a name; return a row where that cannot be done, or None."""
    path = out / "files" / f"{name}.onnx"
    if path.exists():
        return None
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    try:
        with contextlib.redirect_stdout(io.StringIO()):
            _make(name, out, path)
    except Exception as error:
        path.unlink(missing_ok=True)
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        return {"verdict": "not made", "why": f"{type(error).__name__}: {(lines or [''])[0][:300]}"}
    return None


def _make(name: str, out: Path, path: Path) -> None:
    if name.startswith(f"{GENAI}."):
        from tests.onnx.zoo import builder

        _, family, target = name.split(".", 2)
        folder = out / "families" / family
        if not (folder / "config.json").exists():
            builder.weights(family, folder)
        builder.build(folder, path, target)
        return
    from tests.onnx.zoo import forms
    from tests.onnx.zoo.architectures import ARCHITECTURES

    kind, form = name.split(".", 1)
    architecture = ARCHITECTURES[kind]
    feeds = forms.feeds_of(architecture)
    np.savez(out / "files" / f"{kind}.npz", **feeds)
    if form in forms.EXPORTS:
        forms.EXPORTS[form](architecture, path)
        return
    # onnxruntime's quantizer to DequantizeLinear of blocks raises the opset, and does not convert the nodes.
    order = reversed(list(forms.EXPORTS)) if form == "int4.qdq" else forms.EXPORTS
    exports = [out / "files" / f"{kind}.{export}.onnx" for export in order]
    source = next((export for export in exports if export.exists()), None)
    if source is None:
        raise FileNotFoundError("no export")
    forms.forms(architecture)[form](source, path, feeds)


def judge(name: str, out: Path) -> dict[str, Any]:
    """Return the row of a file."""
    from tests.onnx.zoo import judging

    path = out / "files" / f"{name}.onnx"
    kind, *rest = name.split(".")
    if kind == GENAI:
        config = json.loads((out / "families" / rest[0] / "config.json").read_text(encoding="utf-8"))
        return judging.judge(path, config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"])
    return judging.judge(path, dict(np.load(out / "files" / f"{kind}.npz")))
