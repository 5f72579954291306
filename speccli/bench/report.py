"""All that a bench found, in one value: what the table, the bars, JSON, CSV and SVG are made of."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from speccli.bench.cells import Percentiles
from speccli.bench.compare import Difference, Row, Spread
from speccli.bench.prompts import POOLED
from speccli.chat.words import counted

SCHEMA_VERSION = 1

PARTS: Mapping[str, tuple[str, ...]] = {
    "decode_tokens_per_s": Spread.__struct_fields__,
    "speedup": Spread.__struct_fields__,
    "time_to_first_token_s": Percentiles.__struct_fields__,
    "inter_token_latency_s": Percentiles.__struct_fields__,
}
"""What has a column for each part in CSV, also where a row lacks it."""


class Failure(msgspec.Struct, frozen=True):
    """A way that could not be measured, or not to the end."""

    way: str
    message: str
    hint: str = ""


class Report(msgspec.Struct, frozen=True):
    settings: Mapping[str, Any]
    rows: Sequence[Row]
    failures: Sequence[Failure] = ()
    differences: Sequence[Difference] = ()
    is_complete: bool = True
    """Every cell has been measured."""

    @property
    def title(self) -> str:
        """What was measured, in a line."""
        told = self.settings
        eager = "eager" if told.get("engine.enforce_eager") else "compiled"
        return f"{told['target']} on {told['hardware']}, {told['dtype']}, {eager}, {told['vllm']}"

    @property
    def work(self) -> str:
        """On what, in a line."""
        told = self.settings
        repeats = max((row.num_repeats for row in self.rows), default=0)
        own = told["num_with_own_sampling"]
        return (
            f"{counted(told['num_prompts'], 'prompt')}, up to {told['max_tokens']} tokens each, "
            f"temperature {told['temperature']:g}{f' ({own} with sampling of their own)' if own else ''}, "
            f"median of {counted(repeats, 'repeat')}"
        )

    @property
    def ways(self) -> list[str]:
        return list(dict.fromkeys(row.way for row in self.rows))

    @property
    def batch_sizes(self) -> list[int]:
        return list(dict.fromkeys(row.batch_size for row in self.rows))

    @property
    def shown(self) -> list[Row]:
        """Without the pooled rows where there is one category only, which they would repeat."""
        categories = {row.category for row in self.rows}
        return [row for row in self.rows if len(categories) > 2 or row.category != POOLED]

    def categories(self, batch_size: int) -> list[str]:
        return list(dict.fromkeys(row.category for row in self.shown if row.batch_size == batch_size))

    def pooled(self, batch_size: int) -> list[Row]:
        return [row for row in self.rows if (row.batch_size, row.category) == (batch_size, POOLED)]


def to_json(report: Report) -> bytes:
    """One object; new keys may come, those that are there stay."""
    return msgspec.json.encode(
        {
            "schema_version": SCHEMA_VERSION,
            "is_complete": report.is_complete,
            "settings": report.settings,
            "results": [_record(row) for row in report.rows],
            "failures": report.failures,
            "greedy_differences": report.differences,
        }
    )


def to_csv(report: Report) -> str:
    """One line a row; in a cell of several numbers they stand apart by spaces."""
    text = io.StringIO()
    records = [dict(_flat(_record(row))) for row in report.rows]
    columns = list(dict.fromkeys(key for record in records for key in record))
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return text.getvalue()


def _record(row: Row) -> dict[str, Any]:
    acceptance = row.acceptance
    counted: dict[str, Any] = msgspec.to_builtins(row)
    rates = [round(rate, 4) for rate in acceptance.acceptance_rate_per_pos]
    return {**_rounded(counted), "acceptance": {**acceptance.to_dict(), "acceptance_rate_per_pos": rates}}


def _rounded(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _rounded(inner) for key, inner in value.items()}
    return round(value, 6) if isinstance(value, float) else value


def _flat(record: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in record.items():
        if key in PARTS:
            yield from ((f"{key}.{part}", value and value[part]) for part in PARTS[key])
        elif isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", _joined(value) if isinstance(value, list | tuple) else value


def _joined(values: Iterable[Any]) -> str:
    return " ".join(map(str, values))
