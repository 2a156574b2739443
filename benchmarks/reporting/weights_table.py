"""Write the times of products with prepared weights, from ``results/weights-h200.jsonl``, as Markdown for a page."""

from pathlib import Path

from benchmarks.reporting import journal, tables

FILE = journal.RESULTS / "weights-h200.jsonl"

_COLUMNS = {
    "read": "reading the weights",
    "dot of [N, K]": "int32 sums",
    "jaxdml prepacked": "packed",
    "jaxdml": "not packed",
    "torch.compile of [N, K]": "torch",
}
"""The heading of each peer's column."""


def markdown(file: Path = FILE) -> str:
    """Return a line that names the device and the versions, and a table of the products."""
    where, found = journal.rows(file)
    rows = [
        (
            *(row["dtype"], f"{row['k']:,} x {row['n']:,}", f"{row['m']:,}"),
            *(f"{row['us'][column]:,.1f}" if column in row["us"] else "-" for column in _COLUMNS),
        )
        for row in found
    ]
    said = f"One {where['device']}, measured {journal.made(where, ('jax', 'torch'))}; microseconds on the device."
    return f"{said}\n\n{tables.markdown(('`a`', 'K x N', 'M', *_COLUMNS.values()), rows, words=2)}"
