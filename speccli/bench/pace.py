"""How long the rest of a bench will take, by what has been measured so far."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from speccli.bench.cells import Cell, CellResult


def left_s(measured: Sequence[CellResult], left: Collection[Cell]) -> float | None:
    """Without the starts of engines. A batch size that was not measured yet counts as the others do on average."""
    if not measured:
        return None
    of_size = {size: _mean(measured, size) for size in {result.cell.batch_size for result in measured}}
    otherwise = sum(of_size.values()) / len(of_size)
    return sum(of_size.get(cell.batch_size, otherwise) for cell in left)


def said(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _mean(measured: Sequence[CellResult], batch_size: int) -> float:
    took = [result.took_s for result in measured if result.cell.batch_size == batch_size]
    return sum(took) / len(took)
