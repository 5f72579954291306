"""Requests in, records out, one JSON object a line."""

from __future__ import annotations

from speccli.jsonl.guard import check_outputs, written_before
from speccli.jsonl.ids import Ids
from speccli.jsonl.inputs import Input, RawLine, count_lines, find_inputs, lines
from speccli.jsonl.ledger import Ledger, Policy, missing, open_ledger
from speccli.jsonl.records import failure, json_schema, record
from speccli.jsonl.requests import Defaults, Entry, Form, Problem, Source, printable, read
from speccli.jsonl.run import run_of

__all__ = [
    "Defaults",
    "Entry",
    "Form",
    "Ids",
    "Input",
    "Ledger",
    "Policy",
    "Problem",
    "RawLine",
    "Source",
    "check_outputs",
    "count_lines",
    "failure",
    "find_inputs",
    "json_schema",
    "lines",
    "missing",
    "open_ledger",
    "printable",
    "read",
    "record",
    "run_of",
    "written_before",
]
