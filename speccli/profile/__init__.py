"""Profile: the settings of one run, and where each came from.

A setting comes from, strongest first: what was typed, the environment (SPECCLI_*), the file named by --profile, the
user's file, the pairing, the hardware, speccli's defaults.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta

from speccli import paths
from speccli.errors import UsageError
from speccli.profile import document
from speccli.profile.document import Document, shown
from speccli.profile.engine_arguments import installed_names, problem_with, problem_with_value
from speccli.profile.kv_cache_dtypes import KvCacheDtype
from speccli.profile.methods import METHODS, Method, method_named
from speccli.profile.reasoning_parsers import ReasoningParser

__all__ = [
    "DEFAULTS",
    "KEYS",
    "METHODS",
    "AtLeastOne",
    "Layer",
    "Method",
    "Profile",
    "Sampling",
    "Settings",
    "TopK",
    "Whole",
    "check_engine",
    "decode",
    "load",
    "method_named",
    "named_file",
    "read",
]

T = TypeVar("T")

LARGEST = 2**63 - 1
"""What the engine's processes can tell each other."""

LARGEST_GIB = 2**20
"""A thousand times what the largest machine has."""

Whole = Annotated[int, Meta(ge=-LARGEST - 1, le=LARGEST)]
AtLeastOne = Annotated[int, Meta(ge=1, le=LARGEST)]
TopK = Annotated[int, Meta(ge=-1, le=LARGEST)]
"""0 and -1: all tokens."""
Share = Annotated[float, Meta(gt=0, le=1)]
Name = Annotated[str, Meta(min_length=1)]


class Sampling(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """How to choose the next token. What is None is left to the checkpoint's generation config, then to vLLM."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: Whole | None = None
    min_p: float | None = None
    max_tokens: Whole | None = None
    seed: Whole | None = None
    stop: str | tuple[str, ...] | None = None
    stop_token_ids: tuple[int, ...] | None = None
    include_stop_str_in_output: bool | None = None
    min_tokens: Whole | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    repetition_penalty: float | None = None
    logit_bias: dict[str, float] | None = None
    bad_words: tuple[str, ...] | None = None
    allowed_token_ids: tuple[int, ...] | None = None
    ignore_eos: bool | None = None
    skip_special_tokens: bool | None = None
    logprobs: Whole | None = None
    """How many of the likeliest tokens to tell at each place, beside the chosen one."""
    structured_outputs: dict[str, Any] | None = None
    """vLLM's: one of json, regex, choice, grammar, json_object, structural_tag."""

    def over(self, weaker: Sampling) -> Sampling:
        """This sampling, with what it leaves open taken from `weaker`."""
        given = {key: value for key, value in msgspec.structs.asdict(self).items() if value is not None}
        return msgspec.structs.replace(weaker, **given)


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Every key that a profile file, the environment or an option can set. None: not set here."""

    target: Name | None = None
    method: Method | None = None
    speculator: Name | None = None
    num_speculative_tokens: int | None = None
    hardware: Name | None = None

    system: str | None = None
    temperature: Annotated[float, Meta(ge=0)] | None = None
    top_p: Share | None = None
    top_k: TopK | None = None
    max_tokens: AtLeastOne | None = None
    seed: Whole | None = None

    max_model_len: AtLeastOne | None = None
    max_num_seqs: AtLeastOne | None = None
    dtype: Literal["auto", "bfloat16", "float16", "float32"] | None = None
    enforce_eager: bool | None = None
    tensor_parallel_size: AtLeastOne | None = None
    gpu_memory_utilization: Share | None = None
    kv_cache_dtype: KvCacheDtype | None = None
    kv_cache_gib: Annotated[float, Meta(gt=0, le=LARGEST_GIB)] | None = None
    """Memory for the KV cache. On the CPU it becomes VLLM_CPU_KVCACHE_SPACE."""
    threads_bind: str | None = None
    """On the CPU: VLLM_CPU_OMP_THREADS_BIND."""
    preload: bool | None = None
    """On the CPU: put Intel's OpenMP and tcmalloc into LD_PRELOAD of the engine's processes, where found."""
    reasoning_parser: ReasoningParser | None = None
    """How to tell what the model thinks from what it answers. None: as vLLM has it for the model, if it has."""
    engine: dict[str, Any] | None = None
    """vLLM engine arguments that speccli does not name, passed through."""

    def context_length(self, max_position_embeddings: int | None) -> int:
        """That of a run: as set, else the target's own up to a limit that keeps the KV cache small."""
        return self.max_model_len or min(max_position_embeddings or DEFAULT_MAX_MODEL_LEN, DEFAULT_MAX_MODEL_LEN)


DEFAULT_MAX_MODEL_LEN = 8192

DEFAULTS = Settings(max_tokens=512)

NOT_SETTINGS = {"DEBUG", "CACHE"}

PREFIX = "SPECCLI_"

VLLM_VARIABLES = {"VLLM_CPU_KVCACHE_SPACE": "kv_cache_gib", "VLLM_CPU_OMP_THREADS_BIND": "threads_bind"}
"""vLLM's own variables that are settings of ours, so that a user's are kept."""

KEYS: tuple[str, ...] = Settings.__struct_fields__

PAIRING_KEYS = ("target", "method", "speculator", "num_speculative_tokens", "hardware")
"""Those that decide what runs, and on which machine; the pairing tells of them."""


class Layer(msgspec.Struct, frozen=True):
    """Settings and the place that they come from, in words."""

    settings: Settings
    source: str


class Profile(msgspec.Struct, frozen=True):
    """The merged settings of a run; `sources` tells for each that is set where it came from.

    `engine` is merged key by key, and has a source for each: `engine.block_size`.
    """

    settings: Settings
    sources: dict[str, str]
    order: tuple[str, ...] = ()
    """The sources, the strongest first."""

    def over(self, *weaker: Layer) -> Profile:
        """This profile, with what it leaves open taken from the layers, the stronger one first."""
        return _merge([Layer(self.settings, ""), *weaker], self)

    def is_stronger(self, key: str, than: str) -> bool:
        """Whether this key comes from a stronger source than the other one."""
        return self.order.index(self.sources[key]) < self.order.index(self.sources[than])

    @property
    def sampling(self) -> Sampling:
        return Sampling(
            **{key: getattr(self.settings, key) for key in ("temperature", "top_p", "top_k", "max_tokens", "seed")}
        )


def load(
    typed: Settings,
    file: Path | None = None,
    environ: Mapping[str, str] = os.environ,
    command: Settings = Settings(),  # noqa: B008 - frozen
) -> Profile:
    """What was typed over the environment over the user's files over what suits the command.

    Shipped profiles come later, by `Profile.over`.
    """
    layers = [Layer(_checked(typed), "typed"), _environment(environ)]
    if file is not None:
        layers.append(_layer(named_file(file)))
    users = paths.config_dir() / "config.yaml"
    if _is_meant(users):
        layers.append(_layer(users, document.LET_IT_BE_READ))
    layers.append(Layer(command, "command"))
    return _in_utf8(_merge(layers, Profile(Settings(), {})))


def named_file(file: Path) -> Path:
    """The file that --profile names: itself, or the name of one in the user's folder of profiles."""
    folder = paths.config_dir() / "profiles"
    if paths.is_there(str(file)) or file.suffix or file.name != str(file):
        return file
    named = folder / f"{file}.yaml"
    known = document.listed(folder)
    if named in known:
        return named
    names = [one.stem for one in known]
    nearest = difflib.get_close_matches(str(file), names, n=1)
    guess = f"did you mean `{nearest[0]}`?" if nearest else f"name a file, or put {named.name} into {folder}"
    raise UsageError(f"no profile is called {shown(file)!r}", guess)


def read(file: Path, kind: type[T]) -> T:
    """Decode a YAML file into `kind`. Raises `UsageError` naming the file, the line and the nearest spelling."""
    return document.read(file).convert(kind)


def decode(content: bytes, kind: type[T], name: str) -> T:
    """Decode YAML into `kind`; an empty file is an empty mapping."""
    return document.parse(content, name).convert(kind)


def check_engine(file: Document, settings: Settings, path: tuple[str | int, ...] = ("engine",)) -> None:
    """Refuse keys of `engine` that are speccli's own, or that the installed vLLM does not know."""
    for key, value in (settings.engine or {}).items():
        problem = problem_with(key, installed_names())
        if problem is None:
            problem = problem_with_value(key, value)
        if problem is not None:
            raise file.refuse((*path, key), *problem)


def _is_meant(file: Path) -> bool:
    """Whether something lies there, which then has to be a file that can be read."""
    try:
        file.lstat()
    except OSError as error:
        return not isinstance(error, (FileNotFoundError, NotADirectoryError))
    return True


def _in_utf8(profile: Profile) -> Profile:
    """Refuses names that no JSON and no terminal can carry: those of files may be any bytes."""
    for key in KEYS:
        value = getattr(profile.settings, key)
        if isinstance(value, str) and shown(value) != value:
            raise UsageError(f"`{key}` is not in UTF-8: {shown(value)!r}", "write it, or rename the folder, in UTF-8")
    return profile


def _layer(file: Path, *remedy: str) -> Layer:
    content = document.read(file, *remedy)
    settings = content.convert(Settings)
    check_engine(content, settings)
    return Layer(settings, shown(file))


def _checked(typed: Settings) -> Settings:
    """Options reach us as Python values; their limits are those of the keys."""
    try:
        return msgspec.convert(msgspec.to_builtins(typed), Settings)
    except msgspec.ValidationError as error:
        raise Document("the command line", None).explained(str(error), Settings) from error


def _environment(environ: Mapping[str, str]) -> Layer:
    variables = {
        name.removeprefix(PREFIX).lower(): name
        for name, value in environ.items()
        if value and name.startswith(PREFIX) and name.removeprefix(PREFIX) not in NOT_SETTINGS
    }
    for name, key in VLLM_VARIABLES.items():
        if environ.get(name):
            variables.setdefault(key, name)
    given: dict[str, Any] = {}
    for key, name in variables.items():
        try:
            given[key] = getattr(msgspec.convert({key: environ[name]}, Settings, strict=False), key)
        except msgspec.ValidationError as error:
            raise Document(f"environment variable {name}", None).explained(str(error), Settings) from error
    return Layer(Settings(**given), "environment")


def _merge(layers: list[Layer], known: Profile) -> Profile:
    """The layers, the strongest first; one without a name holds what is known already."""
    values: dict[str, Any] = {}
    sources: dict[str, str] = {}
    for key in KEYS:
        for layer in layers:
            value = getattr(layer.settings, key)
            if value is None:
                continue
            if key != "engine":
                values[key] = value
                sources[key] = layer.source or known.sources[key]
                break
            values["engine"] = {**value, **values.get("engine", {})}
            for argument in value:
                name = f"engine.{argument}"
                sources.setdefault(name, layer.source or known.sources[name])
    order = (*known.order, *(layer.source for layer in layers if layer.source))
    return Profile(Settings(**values), sources, order)
