"""Profile: the settings of one run, and where each came from.

A setting comes from, strongest first: what was typed, the environment (SPECCLI_*), the file named by --profile, the
user's file, the shipped pairing and hardware profiles, speccli's defaults.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

import msgspec

from speccli import paths
from speccli.errors import UsageError

Method = Literal["none", "ngram", "draft_model"]
"""vLLM's names for the ways to speculate, and "none" for plain decoding."""

METHODS: tuple[str, ...] = get_args(Method)

T = TypeVar("T")


class Sampling(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """How to choose the next token. What is None is left to the checkpoint's generation config, then to vLLM."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    max_tokens: int | None = None
    seed: int | None = None
    stop: tuple[str, ...] | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    repetition_penalty: float | None = None
    logit_bias: dict[str, float] | None = None
    ignore_eos: bool | None = None

    def over(self, weaker: Sampling) -> Sampling:
        """This sampling, with what it leaves open taken from `weaker`."""
        given = {key: value for key, value in msgspec.structs.asdict(self).items() if value is not None}
        return msgspec.structs.replace(weaker, **given)


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Every key that a profile file, the environment or an option can set. None: not set here."""

    target: str | None = None
    method: Method | None = None
    speculator: str | None = None
    num_speculative_tokens: int | None = None
    hardware: str | None = None

    system: str | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    max_tokens: int | None = None
    seed: int | None = None

    max_model_len: int | None = None
    max_num_seqs: int | None = None
    dtype: Literal["auto", "bfloat16", "float16", "float32"] | None = None
    enforce_eager: bool | None = None
    kv_cache_gib: float | None = None
    """Memory for the KV cache. On the CPU it becomes VLLM_CPU_KVCACHE_SPACE."""
    threads_bind: str | None = None
    """On the CPU: VLLM_CPU_OMP_THREADS_BIND."""
    preload: bool | None = None
    """On the CPU: put Intel's OpenMP and tcmalloc into LD_PRELOAD of the engine's processes, where found."""
    engine: dict[str, Any] | None = None
    """vLLM engine arguments that speccli does not name, passed through."""


DEFAULTS = Settings(max_tokens=512)

NOT_SETTINGS = {"DEBUG", "CACHE"}

VLLM_VARIABLES = {"VLLM_CPU_KVCACHE_SPACE": "kv_cache_gib", "VLLM_CPU_OMP_THREADS_BIND": "threads_bind"}
"""vLLM's own variables that are settings of ours, so that a user's are kept."""

KEYS: tuple[str, ...] = Settings.__struct_fields__


class Layer(msgspec.Struct, frozen=True):
    """Settings and the place that they come from, in words."""

    settings: Settings
    source: str


class Profile(msgspec.Struct, frozen=True):
    """The merged settings of a run; `sources` tells for each that is set where it came from."""

    settings: Settings
    sources: dict[str, str]

    def over(self, *weaker: Layer) -> Profile:
        """This profile, with what it leaves open taken from the layers, the stronger one first."""
        return _merge([Layer(self.settings, ""), *weaker], self.sources)

    @property
    def sampling(self) -> Sampling:
        return Sampling(
            **{key: getattr(self.settings, key) for key in ("temperature", "top_p", "top_k", "max_tokens", "seed")}
        )


def load(typed: Settings, file: Path | None = None, environ: Mapping[str, str] = os.environ) -> Profile:
    """What was typed over the environment over the user's files. Shipped profiles come later, by `Profile.over`."""
    layers = [Layer(typed, "typed"), _environment(environ)]
    if file is not None:
        layers.append(Layer(read(file, Settings), str(file)))
    users = paths.config_dir() / "config.yaml"
    if users.is_file():
        layers.append(Layer(read(users, Settings), str(users)))
    return _merge(layers, {})


def read(file: Path, kind: type[T]) -> T:
    """Decode a YAML file into `kind`. Raises `UsageError` naming the file, the key and the nearest spelling."""
    try:
        content = file.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}", "name a YAML file that can be read") from error
    return decode(content, kind, str(file))


def decode(content: bytes, kind: type[T], name: str) -> T:
    """Decode YAML into `kind`; an empty file is an empty mapping."""
    import yaml

    try:
        plain = yaml.safe_load(content)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f"{name}, line {mark.line + 1}" if mark else name
        problem = getattr(error, "problem", None) or str(error).splitlines()[0]
        raise UsageError(
            f"{where} is not YAML: {problem}", "YAML indents with spaces, and needs one after each colon"
        ) from error
    try:
        return msgspec.convert({} if plain is None else plain, kind)
    except msgspec.ValidationError as error:
        raise UsageError(f"{name}: {error}", _hint(str(error), kind)) from error


def _environment(environ: Mapping[str, str]) -> Layer:
    prefix = "SPECCLI_"
    given = {
        name.removeprefix(prefix).lower(): value
        for name, value in environ.items()
        if name.startswith(prefix) and name.removeprefix(prefix) not in NOT_SETTINGS
    }
    for name, key in VLLM_VARIABLES.items():
        if environ.get(name):
            given.setdefault(key, environ[name])
    try:
        return Layer(msgspec.convert(given, Settings, strict=False), "environment")
    except msgspec.ValidationError as error:
        raise UsageError(f"environment variable {prefix}…: {error}", _hint(str(error), Settings)) from error


def _hint(problem: str, kind: type) -> str:
    if "unknown field" not in problem:
        return "correct the value"
    key = problem.split("`")[1]
    nearest = difflib.get_close_matches(key, KEYS if kind is Settings else getattr(kind, "__struct_fields__", ()), 1)
    return f"did you mean `{nearest[0]}`?" if nearest else f"known keys: {', '.join(KEYS)}"


def _merge(layers: list[Layer], known: dict[str, str]) -> Profile:
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for key in KEYS:
        for layer in layers:
            value = getattr(layer.settings, key)
            if value is not None:
                values[key] = value
                sources[key] = layer.source or known[key]
                break
    return Profile(Settings(**values), sources)
