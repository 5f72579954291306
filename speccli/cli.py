"""What can be typed: every option once, every command. The only file that imports typer."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
import typer

from speccli import __version__, streams
from speccli.errors import EngineFailed, ExitCode, SpeccliError, UsageError
from speccli.profile import METHODS, Settings, method_named

if TYPE_CHECKING:
    from speccli.commands import OpenEngine
    from speccli.engine import Engine
    from speccli.plan import Plan
    from speccli.view import View

app = typer.Typer(
    name="speccli",
    help="Speculative decoding on vLLM: chat, batch generation and diagnosis.",
    no_args_is_help=True,
    rich_markup_mode=None,  # plain help: the same on every terminal, and no 100 ms for Rich
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


OFF = ("", "0", "false", "no", "off")
"""Values of SPECCLI_DEBUG."""

NOTHING = Settings()
ONE_AT_A_TIME = Settings(max_num_seqs=1)
"""What suits a chat: a KV cache for one conversation."""

Target = Annotated[
    str | None,
    typer.Option(
        "--target",
        "--model",
        "-m",
        metavar="NAME",
        help="A shipped target, a folder, or ORG/NAME[@REVISION] on the hub.",
    ),
]
MethodOption = Annotated[
    str | None,
    typer.Option(
        "--method",
        metavar="METHOD",
        help=f"How to speculate: {', '.join(METHODS)}.",
        autocompletion=lambda: list(METHODS),
    ),
]
Speculator = Annotated[
    str | None,
    typer.Option(
        "--speculator",
        metavar="NAME",
        help="A speculator that `profiles show` lists, a folder, or ORG/NAME on the hub.",
    ),
]
K = Annotated[
    int | None,
    typer.Option(
        "-k",
        "--num-speculative-tokens",
        metavar="N",
        help="How many tokens to propose at a time.",
    ),
]
NoSpec = Annotated[bool, typer.Option("--no-spec", help="Plain decoding; the same as --method none.")]
HardwareOption = Annotated[
    str | None,
    typer.Option("--hardware", metavar="NAME", help="Plan for this hardware instead of what is found."),
]
ProfileFile = Annotated[Path | None, typer.Option("--profile", metavar="FILE", help="Settings from this YAML file.")]

System = Annotated[str | None, typer.Option("--system", metavar="TEXT", help="The system prompt.")]
Temperature = Annotated[
    float | None,
    typer.Option("--temperature", metavar="T", help="0 always takes the likeliest token."),
]
TopP = Annotated[
    float | None,
    typer.Option(
        "--top-p",
        metavar="P",
        help="Sample from the likeliest tokens that make up this probability.",
    ),
]
TopK = Annotated[
    int | None,
    typer.Option("--top-k", metavar="N", help="Sample from this many likeliest tokens."),
]
MaxTokens = Annotated[
    int | None,
    typer.Option("--max-tokens", metavar="N", help="End an answer after this many tokens."),
]
Seed = Annotated[int | None, typer.Option("--seed", metavar="N", help="Sample the same way each time.")]

MaxModelLen = Annotated[int | None, typer.Option("--max-model-len", metavar="N", help="Context length in tokens.")]
MaxNumSeqs = Annotated[int | None, typer.Option("--max-num-seqs", metavar="N", help="Requests in flight at once.")]
GpuMemoryUtilization = Annotated[
    float | None,
    typer.Option("--gpu-memory-utilization", metavar="SHARE", help="Of each GPU's memory, what vLLM may take."),
]
TensorParallelSize = Annotated[
    int | None,
    typer.Option("--tensor-parallel-size", metavar="N", help="Split the target over this many GPUs."),
]
Dtype = Annotated[
    Literal["auto", "bfloat16", "float16", "float32"] | None,
    typer.Option("--dtype", help="Arithmetic of weights and activations."),
]
Eager = Annotated[
    bool | None,
    typer.Option("--eager/--compile", help="Start quickly, or compile first and run faster."),
]

Quiet = Annotated[bool, typer.Option("--quiet", "-q", "--no-stats", help="No statistics and no narration on stderr.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Also show the engine's log on stderr.")]


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"speccli {__version__}")
        raise typer.Exit()


@app.callback()
def speccli(
    context: typer.Context,
    version: Annotated[  # noqa: ARG001 - its callback answers it
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Speculative decoding on vLLM: chat, batch generation and diagnosis."""
    if context.invoked_subcommand != "batch":  # whose records may go to a file
        streams.require_stdout()


@app.command()
def chat(
    prompt: Annotated[
        str | None,
        typer.Argument(
            metavar="[PROMPT]",
            help="What to answer. Without one, on a terminal: a conversation. What is piped in follows it.",
        ),
    ] = None,
    target: Target = None,
    method: MethodOption = None,
    speculator: Speculator = None,
    num_speculative_tokens: K = None,
    no_spec: NoSpec = False,
    hardware: HardwareOption = None,
    profile: ProfileFile = None,
    system: System = None,
    temperature: Temperature = None,
    top_p: TopP = None,
    top_k: TopK = None,
    max_tokens: MaxTokens = None,
    seed: Seed = None,
    max_model_len: MaxModelLen = None,
    gpu_memory_utilization: GpuMemoryUtilization = None,
    tensor_parallel_size: TensorParallelSize = None,
    dtype: Dtype = None,
    eager: Eager = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of the text.")] = False,
    raw: Annotated[bool, typer.Option("--raw", help="Show answers as plain text, as they come.")] = False,
    save: Annotated[
        Path | None, typer.Option("--save", metavar="FILE", help="Write the conversation: .json, or .md to read.")
    ] = None,
    load: Annotated[
        Path | None, typer.Option("--load", metavar="FILE", help="Go on with a conversation that was saved as JSON.")
    ] = None,
    no_history: Annotated[bool, typer.Option("--no-history", help="Do not keep what is typed.")] = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Answer one prompt, or hold a conversation, and show what speculation did."""
    from speccli.commands.chat import Options
    from speccli.commands.chat import chat as run

    typed = _settings(locals())
    view = _view(quiet, verbose)
    view.raw = raw
    options = Options(as_json=as_json, save=save, load=load, keeps_history=not no_history)

    def replan(changes: dict[str, Any]) -> Plan:
        return _plan(msgspec.structs.replace(typed, **changes), profile, view, ONE_AT_A_TIME)

    plan = replan({})
    raise typer.Exit(run(plan, prompt, options, view, _open_engine(view), replan))


def _batch_schema(wanted: bool) -> None:
    if wanted:
        from speccli.jsonl import json_schema

        typer.echo(json_schema().decode())
        raise typer.Exit()


@app.command()
def batch(
    source: Annotated[
        list[str],
        typer.Argument(
            metavar="INPUT",
            help='JSONL, plain, .gz or .zst: {"prompt": …} or {"messages": […]} a line, or lines of OpenAI\'s Batch API; - reads stdin.',
        ),
    ],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Where the records go; stdout without it.")
    ] = None,
    errors: Annotated[
        Path | None,
        typer.Option("--errors", metavar="FILE", help="Where the records of failed lines go; --output without it."),
    ] = None,
    summary: Annotated[
        Path | None, typer.Option("--summary", metavar="FILE", help="Write the closing summary there, as JSON.")
    ] = None,
    form: Annotated[
        Literal["auto", "speccli", "openai"],
        typer.Option("--format", help="The form of the records; auto: that of each input line."),
    ] = "auto",
    ordered: Annotated[bool, typer.Option("--ordered", help="Write the records in the order of the input.")] = False,
    strict: Annotated[bool, typer.Option("--strict", help="Refuse to start if any line is bad.")] = False,
    truncate: Annotated[
        bool,
        typer.Option(
            "--truncate", help="Cut prompts longer than the context from the left, instead of failing the line."
        ),
    ] = False,
    resume: Annotated[
        bool | None,
        typer.Option(
            "--resume/--no-resume",
            help="Go on with an output that is there. Without either: if it is seen to be of the same run.",
        ),
    ] = None,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="When going on, answer the failed lines again.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Go on although the input or the settings are not those of the output.")
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Begin anew: empty the output file first.")] = False,
    max_in_flight: Annotated[
        int | None,
        typer.Option(
            "--max-in-flight",
            metavar="N",
            min=1,
            help="Requests in the engine at once; twice --max-num-seqs without it.",
        ),
    ] = None,
    schema: Annotated[
        bool,
        typer.Option("--schema", callback=_batch_schema, is_eager=True, help="Show the JSON Schema of a record."),
    ] = False,
    target: Target = None,
    method: MethodOption = None,
    speculator: Speculator = None,
    num_speculative_tokens: K = None,
    no_spec: NoSpec = False,
    hardware: HardwareOption = None,
    profile: ProfileFile = None,
    system: System = None,
    temperature: Temperature = None,
    top_p: TopP = None,
    top_k: TopK = None,
    max_tokens: MaxTokens = None,
    seed: Seed = None,
    max_model_len: MaxModelLen = None,
    max_num_seqs: MaxNumSeqs = None,
    dtype: Dtype = None,
    eager: Eager = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Answer every line of JSONL files, one record a line as each finishes; the same command again does what is missing."""
    from speccli.commands.batch import Options, check
    from speccli.commands.batch import batch as run
    from speccli.jsonl import Policy

    typed = _settings(locals())
    options = Options(
        sources=tuple(source),
        output=output,
        errors=errors,
        summary=summary,
        format=form,
        ordered=ordered,
        strict=strict,
        truncate=truncate,
        max_in_flight=max_in_flight,
        policy=Policy(overwrite=overwrite, resume=resume, force=force, retry_failed=retry_failed),
    )
    check(options)
    view = _view(quiet, verbose)
    plan = _plan(typed, profile, view, in_flight=max_in_flight or sys.maxsize)
    raise typer.Exit(run(plan, options, view, _open_engine(view)))


@app.command()
def pull(
    target: Target = None,
    method: MethodOption = None,
    speculator: Speculator = None,
    num_speculative_tokens: K = None,
    no_spec: NoSpec = False,
    hardware: HardwareOption = None,
    profile: ProfileFile = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what would be downloaded, and whether the disk has room.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of lines.")] = False,
    quiet: Quiet = False,
) -> None:
    """Download the checkpoints that these settings need, and say where they lie."""
    from speccli.commands.pull import pull as run
    from speccli.prepare import choose

    typed = _settings({**locals(), "eager": None})
    raise typer.Exit(run(choose(typed, profile), dry_run, as_json, _view(quiet, verbose=False)))


examination = typer.Typer(rich_markup_mode=None)
app.add_typer(examination, name="doctor")


@examination.callback(invoke_without_command=True)
def doctor(
    context: typer.Context,
    target: Target = None,
    method: MethodOption = None,
    speculator: Speculator = None,
    num_speculative_tokens: K = None,
    no_spec: NoSpec = False,
    hardware: HardwareOption = None,
    profile: ProfileFile = None,
    max_model_len: MaxModelLen = None,
    max_num_seqs: MaxNumSeqs = None,
    gpu_memory_utilization: GpuMemoryUtilization = None,
    tensor_parallel_size: TensorParallelSize = None,
    dtype: Dtype = None,
    eager: Eager = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of lines.")] = False,
    offline: Annotated[bool, typer.Option("--offline", help="Do not ask the hub anything.")] = False,
    fix: Annotated[
        bool,
        typer.Option("--fix", help="Where it does not fit: write the cheapest change that helps to your own settings."),
    ] = False,
    log: Annotated[
        str | None,
        typer.Option("--log", metavar="FILE", help="After a crash: explain this log of an engine; - reads stdin."),
    ] = None,
    last: Annotated[
        bool, typer.Option("--last", help="After a crash: explain the last engine log of speccli itself.")
    ] = False,
    stats: Annotated[
        str | None,
        typer.Option(
            "--stats", metavar="FILE", help="After a run: judge what `chat --json` printed, or a batch's output."
        ),
    ] = None,
    metrics: Annotated[
        str | None,
        typer.Option("--metrics", metavar="URL|FILE", help="After a run: judge a vLLM server by its metrics."),
    ] = None,
) -> None:
    """Say what is installed, whether it fits together, this machine and the pairing, and what to do where it does not."""
    given = [name for name in _given(context) if name != "as_json"]
    if context.invoked_subcommand is not None:
        _refuse(context, given, f"doctor {context.invoked_subcommand}")
        context.obj = as_json
        return
    if last or any(name is not None for name in (log, stats, metrics)):
        questions = [name for name in given if name in AFTER_THE_FACT]
        _refuse(context, [name for name in given if name not in questions], _spelled(context, questions[0]))
        from speccli.commands.explain import after_the_fact

        raise typer.Exit(after_the_fact(log, last, stats, metrics, as_json))
    from speccli.commands.doctor import doctor as run

    raise typer.Exit(run(_settings(locals()), profile, as_json, offline, fix))


@examination.command("explain")
def explain_finding(
    context: typer.Context,
    identity: Annotated[
        str | None, typer.Argument(metavar="[ID]", help="Such as env.device; without one, what there is.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Say what a finding means: a page for each id that doctor prints."""
    from speccli.commands.explain import explain_id

    raise typer.Exit(explain_id(identity, as_json or bool(context.obj)))


AFTER_THE_FACT = ("log", "last", "stats", "metrics")


def _given(context: typer.Context) -> list[str]:
    """The options that were typed, by the names of their parameters."""
    sources = {name: context.get_parameter_source(name) for name in context.params}
    return [name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE"]


def _spelled(context: typer.Context, name: str) -> str:
    return next(parameter.opts[0] for parameter in context.command.params if parameter.name == name)


def _refuse(context: typer.Context, given: list[str], what: str) -> None:
    """Options that would change nothing."""
    if given:
        told = " and ".join(_spelled(context, name) for name in given)
        raise UsageError(f"{told} cannot be given with {what}", "leave one of them out")


@app.command()
def demo(
    target: Target = None,
    method: MethodOption = None,
    speculator: Speculator = None,
    num_speculative_tokens: K = None,
    no_spec: NoSpec = False,
    hardware: HardwareOption = None,
    profile: ProfileFile = None,
    eager: Eager = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """See the main job at a glance: a chat turn, a batch of sample prompts, and the turn again without speculation."""
    from speccli.commands.demo import demo as run

    typed = _settings(locals())
    view = _view(quiet, verbose)
    plan = _plan(typed, profile, view)
    plain = _without_speculation(typed, profile) if plan.pairing.is_speculative else None
    raise typer.Exit(run(plan, plain, view, _open_engine(view)))


@app.command()
def bench(
    prompts: Annotated[
        Path | None,
        typer.Argument(
            metavar="[PROMPTS]",
            help='JSONL: {"prompt": …} or {"messages": […]} a line, with "id", "category" and sampling if you like; without it, prompts that come with speccli.',
        ),
    ] = None,
    methods: Annotated[
        str | None,
        typer.Option(
            "--methods",
            metavar="LIST",
            help="What to compare with plain decoding, with commas, each [METHOD=]NAME[:K]: ngram,eagle3:3,medusa=./my-heads:2. "
            "Without it: each that the target's pairing lists.",
        ),
    ] = None,
    batch_sizes: Annotated[
        str, typer.Option("--batch-sizes", metavar="LIST", help="How many requests are in flight: 1,4,16.")
    ] = "1",
    repeats: Annotated[
        int, typer.Option("--repeats", metavar="N", help="How often to measure each; fewer than 3 tell no noise.")
    ] = 3,
    limit: Annotated[
        int | None, typer.Option("--limit", metavar="N", help="Only the first N prompts of each category.")
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="FILE",
            help="Keep each result in this JSON file; without it, in the state folder.",
        ),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Go on with that file, or with the latest bench, and measure what is missing."),
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the output file if it exists.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of the table.")] = False,
    csv: Annotated[Path | None, typer.Option("--csv", metavar="FILE", help="Also write the table as CSV.")] = None,
    plot: Annotated[Path | None, typer.Option("--plot", metavar="FILE", help="Also draw tokens/s as SVG.")] = None,
    target: Target = None,
    hardware: HardwareOption = None,
    profile: ProfileFile = None,
    system: System = None,
    temperature: Temperature = None,
    max_tokens: MaxTokens = None,
    seed: Seed = None,
    max_model_len: MaxModelLen = None,
    dtype: Dtype = None,
    eager: Eager = None,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Measure plain decoding against ways to speculate: speed, latency and acceptance, on the same prompts."""
    from speccli.commands.bench import COMMAND, Asked
    from speccli.commands.bench import bench as run
    from speccli.prepare import prepare

    typed = _settings({**locals(), "method": None, "no_spec": False})
    asked = Asked(**{key: value for key, value in locals().items() if key in Asked.__struct_fields__})
    view = _view(quiet, verbose)
    raise typer.Exit(run(asked, typed, lambda one: prepare(one, profile, view.narrate, command=COMMAND), view))


profiles = typer.Typer(
    help="The pairings of targets and speculators: list them, explain one, check a file.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
app.add_typer(profiles, name="profiles")

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of lines.")]


@profiles.command("list")
def list_pairings(hardware: HardwareOption = None, as_json: AsJson = False) -> None:
    """List the targets with their speculators, and the machines that each is meant for."""
    from speccli.commands.profiles import list_pairings as run

    raise typer.Exit(run(hardware, as_json))


@profiles.command()
def show(
    target: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="A target, as for --target; without it this machine's default."),
    ] = None,
    method: MethodOption = None,
    speculator: Speculator = None,
    num_speculative_tokens: K = None,
    no_spec: NoSpec = False,
    hardware: HardwareOption = None,
    profile: ProfileFile = None,
    as_json: AsJson = False,
) -> None:
    """Explain a pairing: what is chosen and why, where each setting comes from, and vLLM's own command for it."""
    from speccli.commands.profiles import show as run

    raise typer.Exit(run(_settings({**locals(), "eager": None}), profile, as_json))


@profiles.command()
def check(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A profile, or a pairing, in YAML.")],
) -> None:
    """Check a file of your own, and name the line that is wrong."""
    from speccli.commands.profiles import check as run

    raise typer.Exit(run(file))


@profiles.command()
def path() -> None:
    """Say where profiles and pairings are looked for."""
    from speccli.commands.profiles import path as run

    raise typer.Exit(run())


def _settings(options: dict[str, Any]) -> Settings:
    """The options that are settings, under their keys."""
    method = None if options["method"] is None else method_named(options["method"])
    eager = options["eager"]
    if options["no_spec"]:
        if method not in (None, "none"):
            raise UsageError(f"--no-spec and --method {method} contradict each other", "leave one of them out")
        method = "none"
    if method == "none":
        _require_nothing_to_speculate_with(options)
    given = {key: value for key, value in options.items() if key in Settings.__struct_fields__}
    return Settings(**{**given, "method": method, "enforce_eager": eager})


def _require_nothing_to_speculate_with(options: dict[str, Any]) -> None:
    plain = "--no-spec" if options["no_spec"] else "--method none"
    for key, option in (("speculator", "--speculator"), ("num_speculative_tokens", "-k")):
        if options.get(key) is not None:
            raise UsageError(f"{plain} and {option} contradict each other", "leave one of them out")


def _view(quiet: bool, verbose: bool) -> View:
    from speccli.view import View

    return View(quiet, verbose)


def _plan(typed: Settings, profile: Path | None, view: View, command: Settings = NOTHING, in_flight: int = 1) -> Plan:
    from speccli.prepare import prepare

    plan = prepare(typed, profile, view.narrate, command=command, in_flight=in_flight)
    view.chosen(plan)
    return plan


def _without_speculation(typed: Settings, profile: Path | None) -> Plan:
    from speccli.prepare import prepare

    changes = {"method": "none", "speculator": None, "num_speculative_tokens": None}
    return prepare(msgspec.structs.replace(typed, **changes), profile, lambda _: None)


def _open_engine(view: View) -> OpenEngine:
    from speccli.engine import open_engine

    def opened(plan: Plan) -> Engine:
        try:
            return open_engine(plan, follow_log=view.verbose)
        except EngineFailed as failure:
            raise _explained(failure) from failure.__cause__

    return opened


def _explained(error: SpeccliError) -> SpeccliError:
    """What an engine's log tells takes the place of what could be said without reading it."""
    if not isinstance(error, EngineFailed):
        return error
    from speccli.diagnose.failures.failed import explained

    return explained(error)


def _say(error: SpeccliError) -> None:
    from speccli.view.visible import visible  # an error quotes what was given, whatever that holds

    hint = f"hint: {error.hint}\n" if error.hint else ""
    try:
        sys.stderr.write(visible(f"speccli: error: {error.message}\n{hint}"))
        sys.stderr.flush()
    except OSError:  # nobody reads it; the exit code tells it too
        streams.let_go(2)


def main() -> None:
    """The one boundary: every expected error becomes one message, one hint and an exit code."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:  # under nohup it is ignored, and stays so
            signal.signal(number, lambda got, _: sys.exit(128 + got))  # so that an engine is closed first
    streams.prepare()
    try:
        _run()
    except SpeccliError as failed:
        error = _explained(failed)
        if os.environ.get("SPECCLI_DEBUG", "").lower() not in OFF:
            traceback.print_exc()
        _say(error)
        streams.finish()
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        streams.finish()
        sys.exit(ExitCode.INTERRUPTED)
    except BrokenPipeError:  # the reader of stdout has left, as `head` does; nobody is there to be told
        streams.let_go()
        sys.exit(ExitCode.FINDINGS)


def _run() -> None:
    try:
        app()
    except SystemExit:
        streams.flush()
        raise
