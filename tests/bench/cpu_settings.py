"""`make bench-cpu`: tokens/s of each CPU setting, alone and in a batch: the measurements behind profiles/hardware/cpu.yaml."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from tests.bench.overhead import measured, say

WORK = {"single": 3, "batch": 16, "tokens": 48, "repeats": 2}

CHOICES: dict[str, dict[str, Any]] = {
    "as speccli chooses": {},
    "float32": {"dtype": "float32"},
    "no preload": {"preload": False},
    "bfloat16": {"dtype": "bfloat16"},
    "threads not bound": {"threads_bind": "nobind"},
    "compiled": {"enforce_eager": False},
    "compiled, again (from the cache)": {"enforce_eager": False},
}

if __name__ == "__main__":
    for name, settings in CHOICES.items():
        told = measured("speccli", {"method": "none", "max_num_seqs": 16, **settings}, WORK)
        say(
            f"{name:34} start {told['start_s']:6.1f} s   alone {told['single_tokens_per_s']}   batch of 16 {told['batch_tokens_per_s']} tokens/s"
        )
