"""Confirms that the CUDA build of vLLM has all that speccli uses, as the installed build has it, on which the tests run.

Downloads the wheel that the `cuda` extra asks for (some 300 MB), parses its sources, imports nothing, and removes it.
Prints a line for each name: `ok`, `MISSING`, or `DIFFERS` where its source is another; exit code 1 if one is not ok.
"""

from __future__ import annotations

import ast
import difflib
import functools
import importlib.util
import re
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from speccli.plan import PASSED
from speccli.profile import METHODS, Sampling
from speccli.profile.engine_arguments import BY_SPECCLI

ROOT = Path(__file__).resolve().parent.parent

ENGINE = "vllm.v1.engine.llm_engine.LLMEngine"
ENGINE_ARGS = "vllm.engine.arg_utils.EngineArgs"
MODEL_CONFIG = "vllm.config.model.ModelConfig"
SCHEDULER_CONFIG = "vllm.config.scheduler.SchedulerConfig"
VLLM_CONFIG = "vllm.config.vllm.VllmConfig"
SPECULATIVE_CONFIG = "vllm.config.speculative.SpeculativeConfig"
SPECULATIVE_METHOD = "vllm.config.speculative.SpeculativeMethod"
SAMPLING_PARAMS = "vllm.SamplingParams"
STRUCTURED_OUTPUTS = "vllm.sampling_params.StructuredOutputsParams"
RENDERER = "vllm.renderers.base.BaseRenderer"
TOKENIZE_PARAMS = "vllm.renderers.params.TokenizeParams"
DETOKENIZER = "vllm.v1.engine.detokenizer.BaseIncrementalDetokenizer"
OUTPUT = "vllm.outputs.RequestOutput"
COMPLETION = "vllm.outputs.CompletionOutput"
LOGPROB = "vllm.logprobs.Logprob"
REQUEST_STATE = "vllm.v1.engine.output_processor.RequestState"
TOKENIZER = "vllm.tokenizers.TokenizerLike"
PARSER = "vllm.parser.abstract_parser.Parser"
CHAT_REQUEST = "vllm.entrypoints.openai.chat_completion.protocol.ChatCompletionRequest"

SHOWN_LINES = 6

PLAN = "speccli/plan/arguments.py"

SEAM = {
    "speccli/engine/vllm.py": {
        "arguments": ENGINE_ARGS,
        "config": VLLM_CONFIG,
        "config.scheduler_config": SCHEDULER_CONFIG,
        "config.device_config": "vllm.config.device.DeviceConfig",
        "config.parallel_config": "vllm.config.parallel.ParallelConfig",
        "config.structured_outputs_config": "vllm.config.structured_outputs.StructuredOutputsConfig",
        "model": MODEL_CONFIG,
        "self._engine": ENGINE,
        "self._engine.vllm_config": VLLM_CONFIG,
        "self._engine.vllm_config.scheduler_config": SCHEDULER_CONFIG,
        "self._engine.model_config": MODEL_CONFIG,
        "self._engine.engine_core": "vllm.v1.engine.core_client.EngineCoreClient",
        "client": "vllm.v1.engine.core_client.SyncMPClient",
        "client.resources": "vllm.v1.engine.core_client.BackgroundResources",
        "self._engine.output_processor": "vllm.v1.engine.output_processor.OutputProcessor",
        "self._engine.output_processor.request_states[internal_id]": REQUEST_STATE,
        "self._engine.renderer": RENDERER,
        "self._engine.renderer.get_tokenizer()": TOKENIZER,
        "renderer": RENDERER,
        "renderer.default_chat_tok_params": TOKENIZE_PARAMS,
        "renderer.default_cmpl_tok_params": TOKENIZE_PARAMS,
        "output": OUTPUT,
        "output.outputs[0]": COMPLETION,
        "state": REQUEST_STATE,
    },
    "speccli/engine/flight.py": {
        "output": OUTPUT,
        "completion": COMPLETION,
        "metrics": "vllm.v1.metrics.stats.RequestSpecDecodeMetrics",
        "detokenizer": DETOKENIZER,
        "chosen": LOGPROB,
        "one": LOGPROB,
    },
    "speccli/engine/reasoning.py": {
        "self._tokenizer": TOKENIZER,
        "parser": PARSER,
        "self._parser": PARSER,
        "inner": "vllm.reasoning.ReasoningParser",
        "asked": CHAT_REQUEST,
        "told": "vllm.entrypoints.generate.base.protocol.DeltaMessage",
        "completion": COMPLETION,
    },
    "speccli/engine/scheduler.py": {
        "batch": "vllm.v1.engine.EngineCoreOutputs",
        "one": "vllm.v1.engine.EngineCoreOutput",
        "running[one.request_id]": "vllm.v1.request.Request",
    },
    "speccli/engine/worker.py": {},
}
"""The files that use vLLM, and what their expressions are: vLLM's types are not read there, so they are written here."""

CALLS = {
    ENGINE_ARGS: ["create_engine_config()"],
    ENGINE: [
        "from_vllm_config(vllm_config)",
        "add_request(request_id, prompt, params)",
        "step()",
        "abort_request(request_ids)",
    ],
    MODEL_CONFIG: ["get_diff_sampling_param()"],
    RENDERER: ["render_cmpl(prompts, tok_params)", "render_chat(conversations, chat_params, tok_params)"],
    TOKENIZE_PARAMS: ["max_total_tokens", "truncate_prompt_tokens", "truncation_side"],
    STRUCTURED_OUTPUTS: ["json", "regex", "choice", "grammar", "json_object", "structural_tag"],
    DETOKENIZER: ["decode_next(next_token_id)"],
    "vllm.v1.engine.detokenizer.FastIncrementalDetokenizer": ["decode_next(next_token_id)"],
    "vllm.v1.engine.detokenizer.SlowIncrementalDetokenizer": ["decode_next(next_token_id)"],
    "vllm.renderers.inputs.preprocess.parse_model_prompt": ["(model_config, prompt)"],
    "vllm.tokenizers.cached_tokenizer_from_config": ["(model_config)"],
    CHAT_REQUEST: ["messages", "skip_special_tokens", "structured_outputs"],
    PARSER: [
        "__init__(tokenizer, model_config=)",
        "adjust_request(request)",
        "parse_delta(delta_text, delta_token_ids, request, prompt_token_ids)",
    ],
    "vllm.v1.core.sched.scheduler.Scheduler": ["requests", "update_from_output(scheduler_output, model_runner_output)"],
    "vllm.v1.core.sched.async_scheduler.AsyncScheduler": [
        "requests",
        "update_from_output(scheduler_output, model_runner_output)",
    ],
    "vllm.v1.sample.rejection_sampler.expand_batch_to_tokens": [
        "(x, cu_num_tokens, num_tokens, replace_from=, replace_to=)"
    ],
}
"""What cannot be read off the seam: what its arguments are called that it gives by their place, or in a mapping, and
what its own classes and functions take over."""


class Definition(NamedTuple):
    """Where a name leads to: the statement that makes it."""

    module: str
    node: Any
    source: str


class Library:
    """The Python sources of one build; `root` holds the folder vllm."""

    def __init__(self, root: Path) -> None:
        self.root = root

    @functools.cache  # noqa: B019 - two of them live, as long as the program
    def tree(self, module: str) -> tuple[ast.Module, str, bool] | None:
        """Of a module: its tree, its text, and whether it is a package."""
        path = self.root.joinpath(*module.split("."))
        for file in (path.with_suffix(".py"), path / "__init__.py"):
            if file.is_file():
                text = file.read_text(encoding="utf-8")
                return ast.parse(text), text, file.name == "__init__.py"
        return None

    def files(self) -> dict[str, bytes]:
        found = (self.root / "vllm").rglob("*.py")
        return {str(file.relative_to(self.root)): file.read_bytes() for file in found}

    @functools.cache  # noqa: B019 - two of them live, as long as the program
    def find(self, dotted: str) -> Definition | None:
        """The definition, through as many modules as import it from each other."""
        module, _, name = dotted.rpartition(".")
        found = self.tree(module) if module else None
        if found is None:
            return None
        tree, text, is_package = found
        for statement in top_level(tree):
            if name in defined_by(statement):
                return Definition(module, statement, ast.get_source_segment(text, statement) or "")
        for node in ast.walk(tree):
            origin = imported_from(node, name, module if is_package else module.rpartition(".")[0])
            if origin is not None and origin != dotted:
                return self.find(origin)
        return None

    def classes(self, dotted: str) -> Iterator[Definition]:
        """The class and those that it derives from, as far as they are in this library."""
        found = self.find(dotted)
        if found is None or not isinstance(found.node, ast.ClassDef):
            return
        yield found
        for base in found.node.bases:
            yield from self.classes(f"{found.module}.{ast.unparse(base).partition('[')[0]}")

    def member(self, dotted: str, name: str) -> ast.AST | None:
        found = (members(one.node).get(name) for one in self.classes(dotted))
        return next((node for node in found if node is not None), None)

    def words(self, dotted: str) -> set[str]:
        """The texts of a Literal, also of those that it is made of."""
        found = self.find(dotted)
        if found is None:
            return set()
        nodes = list(ast.walk(found.node.value))
        own = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
        others = {node.id for node in nodes if isinstance(node, ast.Name)} - {"Literal"}
        return own.union(*(self.words(f"{found.module}.{other}") for other in others))


def top_level(node: ast.AST) -> Iterator[ast.stmt]:
    """A module's statements, those under `if` and `try` too."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If | ast.Try | ast.ExceptHandler):
            yield from top_level(child)
        elif isinstance(child, ast.stmt):
            yield child


def defined_by(node: ast.AST) -> list[str]:
    match node:
        case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
            return [node.name]
        case ast.Assign():
            return [ast.unparse(target) for target in node.targets]
        case ast.AnnAssign():
            return [ast.unparse(node.target)]
    return []


def imported_from(node: ast.AST, name: str, package: str) -> str | None:
    """The full name of what this statement imports as `name`."""
    if not isinstance(node, ast.ImportFrom):
        return None
    above = ".".join(package.split(".")[: len(package.split(".")) - node.level + 1]) if node.level else ""
    origin = ".".join(filter(None, [above, node.module]))
    return next((f"{origin}.{one.name}" for one in node.names if (one.asname or one.name) == name), None)


def members(node: ast.ClassDef) -> dict[str, ast.AST]:
    """Fields, methods, and the attributes that methods give to self."""
    own = {name: statement for statement in node.body for name in defined_by(statement)}
    given_to_self = {
        name.removeprefix("self."): inner
        for method in node.body
        if isinstance(method, ast.FunctionDef)
        for inner in ast.walk(method)
        for name in defined_by(inner)
        if name.startswith("self.")
    }
    return {**given_to_self, **own}


# --- What speccli uses


def uses(root: Path) -> dict[str, list[str]]:
    """Per definition of vLLM the members that speccli uses; with parentheses: called with these arguments."""
    used: defaultdict[str, list[str]] = defaultdict(list)
    seam = (pair for file, types in SEAM.items() for pair in used_in(parsed(root / file), types))
    for dotted, names in [*CALLS.items(), *seam]:
        used[dotted] += names
    arguments, speculative = given(parsed(root / PLAN))
    profiles = [yaml.safe_load(file.read_bytes()) for file in sorted(root.glob("profiles/*/*.yaml"))]
    used[ENGINE_ARGS] += [*arguments, *PASSED, *BY_SPECCLI, *keys_under("engine", profiles)]
    used[SPECULATIVE_CONFIG] += [*speculative, *keys_under("config", profiles)]
    used[SAMPLING_PARAMS] += [f"from_optional({name}=)" for name in Sampling.__struct_fields__]
    for name in sorted(variables(root.glob("speccli/**/*.py"))):
        used[f"vllm.envs.{name}"] = []
    return {dotted: list(dict.fromkeys(names)) for dotted, names in used.items()}


def parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


def used_in(tree: ast.Module, types: dict[str, str]) -> list[tuple[str, list[str]]]:
    """What a file imports from vLLM and takes of its objects, with the arguments that it names."""
    own = imports(tree)
    modules = {name for name in own if name.islower() and attributes(tree, name)}
    found: list[tuple[str, list[str]]] = [
        (f"{own[name]}.{one}", []) for name in modules for one in attributes(tree, name)
    ]
    for expression, dotted in [*types.items(), *own.items()]:
        if expression not in modules:
            found.append((dotted, [*attributes(tree, expression), *named_arguments(tree, expression)]))
    return found


def imports(tree: ast.Module) -> dict[str, str]:
    """What a file takes from vLLM: its name there, and its full name."""
    return {
        one.asname or one.name: f"{node.module}.{one.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and f"{node.module}.".startswith("vllm.")
        for one in node.names
    }


def attributes(tree: ast.AST, of: str) -> list[str]:
    return [node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and ast.unparse(node.value) == of]


def named_arguments(tree: ast.AST, of: str) -> list[str]:
    """The arguments that calls of this give by name: as fields of a class, and as `method(argument=)`."""
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        names = [keyword.arg for keyword in node.keywords if keyword.arg]
        if isinstance(node.func, ast.Name) and node.func.id == of:
            found += names
        elif isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) == of:
            found += [f"{node.func.attr}({name}=)" for name in names]
    return found


def variables(files: Iterable[Path]) -> set[str]:
    """vLLM's environment variables that these files name, in their texts for the user too."""
    return {
        name
        for file in files
        for node in ast.walk(parsed(file))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        for name in re.findall(r"\bVLLM_[A-Z0-9_]+", node.value)
    }


def given(plan: ast.Module) -> tuple[list[str], list[str]]:
    """The keys that the plan gives to `EngineArgs`, and those of its speculative_config."""
    functions = {node.name: node for node in plan.body if isinstance(node, ast.FunctionDef)}
    arguments = functions["engine_arguments"]
    [first] = [node for node in arguments.body if isinstance(node, ast.AnnAssign)]
    assigned = re.findall(r"\barguments\['(\w+)'\] = ", ast.unparse(arguments))
    return [*texts(first), *assigned], texts(functions["_speculative"])


def texts(node: ast.AST) -> list[str]:
    """The keys of every dict in it."""
    dicts = [one for one in ast.walk(node) if isinstance(one, ast.Dict)]
    return [str(key.value) for one in dicts for key in one.keys if isinstance(key, ast.Constant)]


def keys_under(key: str, content: Any) -> list[str]:
    """The keys of every mapping that stands under `key`."""
    if isinstance(content, list):
        return [found for one in content for found in keys_under(key, one)]
    if not isinstance(content, dict):
        return []
    own = list(content[key]) if isinstance(content.get(key), dict) else []
    return own + [found for name, one in content.items() if name != "facts" for found in keys_under(key, one)]


# --- The answer


def verdicts(used: dict[str, list[str]], cuda: Library, installed: Library) -> list[str]:
    """A line for each definition, and one for each of its members."""
    lines = []
    for dotted, names in used.items():
        lines += compared(dotted, cuda, installed)
        lines += [
            line(is_there(dotted, name, cuda), f"{dotted}{'' if name[0] == '(' else '.'}{name}") for name in names
        ]
    return lines


def method_verdicts(cuda: Library) -> list[str]:
    known = cuda.words(SPECULATIVE_METHOD)
    return [line(name in known, f"{SPECULATIVE_METHOD} {name!r}") for name in METHODS if name != "none"]


def line(is_ok: bool, text: str) -> str:
    return f"{'ok' if is_ok else 'MISSING':8}{text}"


def is_there(dotted: str, name: str, library: Library) -> bool:
    member, parenthesis, rest = name.partition("(")
    found = library.find(dotted)
    node = library.member(dotted, member) if member else found and found.node
    return node is not None and (not parenthesis or takes(node, re.findall(r"\w+=?", rest)))


def takes(node: ast.AST, arguments: list[str]) -> bool:
    """Whether it is a function that begins with these arguments; those with `=` may stand anywhere."""
    if not isinstance(node, ast.FunctionDef):
        return False
    places = [one.arg for one in (*node.args.posonlyargs, *node.args.args) if one.arg not in ("self", "cls")]
    names = {f"{one}=" for one in (*places, *(one.arg for one in node.args.kwonlyargs))}
    by_place = [one for one in arguments if not one.endswith("=")]
    return places[: len(by_place)] == by_place and names.issuperset(set(arguments) - set(by_place))


def compared(dotted: str, cuda: Library, installed: Library) -> list[str]:
    """Whether the definition, with the classes that it derives from, is the same text in both."""
    if cuda.find(dotted) is None:
        return [line(False, dotted)]
    ours, theirs = whole(dotted, installed), whole(dotted, cuda)
    if ours == theirs:
        return [line(True, dotted)]
    changes = [one for one in difflib.ndiff(ours, theirs) if one[0] in "+-"]
    return [f"{'DIFFERS':8}{dotted}: {len(changes)} lines", *(f"{'':8}  {one}" for one in changes[:SHOWN_LINES])]


def whole(dotted: str, library: Library) -> list[str]:
    found = library.find(dotted)
    parts = list(library.classes(dotted)) or ([found] if found else [])
    return [text for one in parts for text in one.source.splitlines()]


def other_files(cuda: Library, installed: Library) -> list[str]:
    """What else is not the same: for a reader to judge."""
    ours, theirs = installed.files(), cuda.files()
    other = sorted(name for name in ours.keys() & theirs.keys() if ours[name] != theirs[name])
    listed = f": {', '.join(other)}" if other else ""
    return [
        f"note    of {len(theirs)} files {len(other)} have another text than the installed ones{listed}",
        f"note    {len(theirs.keys() - ours.keys())} files are not installed, {len(ours.keys() - theirs.keys())} are installed only",
    ]


# --- The wheel


def requirement(root: Path) -> str:
    extras = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    return next(str(one) for one in extras["cuda"] if re.match(r"vllm\b(?!-)", one))


def download(wanted: str, folder: Path) -> Path:
    """Its Python sources, unpacked; from the index that pip is configured for."""
    options = ["--no-deps", "--only-binary=:all:", "--disable-pip-version-check", "--progress-bar=off"]
    subprocess.run(
        [sys.executable, "-m", "pip", "download", *options, f"--dest={folder}", wanted], stdout=sys.stderr, check=True
    )
    wheel = next(folder.glob("*.whl"))
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "cuda", [name for name in archive.namelist() if name.endswith(".py")])
    return wheel


def main() -> int:
    installed = importlib.util.find_spec("vllm")
    if installed is None or installed.origin is None:
        sys.stderr.write("cuda_names: error: no vLLM is installed to compare with\nhint: make setup\n")
        return 1
    with tempfile.TemporaryDirectory() as folder:
        try:
            wheel = download(requirement(ROOT), Path(folder))
        except subprocess.CalledProcessError:
            sys.stderr.write("cuda_names: error: the wheel cannot be downloaded\nhint: see what pip says above\n")
            return 1
        cuda, ours = Library(Path(folder) / "cuda"), Library(Path(installed.origin).parent.parent)
        lines = [*verdicts(uses(ROOT), cuda, ours), *method_verdicts(cuda)]
        notes = other_files(cuda, ours)
    wrong = [one for one in lines if one.startswith(("MISSING", "DIFFERS"))]
    summary = f"{wheel.name}: {len(lines)} lines, {len(wrong)} not ok"
    sys.stdout.write("\n".join([*lines, *notes, summary]) + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
