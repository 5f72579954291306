"""What can be typed: every option once, every command. The only file that imports typer."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from speccli import __version__
from speccli.errors import ExitCode, SpeccliError, UsageError
from speccli.profile import METHODS, Settings, method_named

if TYPE_CHECKING:
    from speccli.commands import OpenEngine
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
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Speculative decoding on vLLM: chat, batch generation and diagnosis."""


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
    dtype: Dtype = None,
    eager: Eager = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of the text.")] = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Answer one prompt, or hold a conversation, and show what speculation did."""
    from speccli.commands.chat import chat as run

    typed = _settings(locals())
    view = _view(quiet, verbose)
    raise typer.Exit(run(_plan(typed, profile, view, ONE_AT_A_TIME), prompt, as_json, view, _open_engine(view)))


@app.command()
def batch(
    source: Annotated[
        str,
        typer.Argument(
            metavar="INPUT",
            help='JSONL: {"prompt": …} or {"messages": […]} a line, and an optional "id"; - reads stdin.',
        ),
    ],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Where the records go; stdout without it.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the output file if it exists.")] = False,
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
    """Answer every line of a JSONL file, and write one record a line as each finishes."""
    from speccli.commands.batch import batch as run

    typed = _settings(locals())
    view = _view(quiet, verbose)
    raise typer.Exit(run(_plan(typed, profile, view), source, output, overwrite, view, _open_engine(view)))


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
    from speccli.commands.pull import resolve

    typed = _settings({**locals(), "eager": None})
    raise typer.Exit(run(resolve(typed, profile), dry_run, as_json, _view(quiet, verbose=False)))


@app.command()
def doctor(
    target: Target = None,
    method: MethodOption = None,
    speculator: Speculator = None,
    num_speculative_tokens: K = None,
    no_spec: NoSpec = False,
    hardware: HardwareOption = None,
    profile: ProfileFile = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of lines.")] = False,
    offline: Annotated[bool, typer.Option("--offline", help="Do not ask the hub anything.")] = False,
) -> None:
    """Say what is installed, whether it fits together, this machine and the pairing, and what to do where it does not."""
    from speccli.commands.doctor import doctor as run

    raise typer.Exit(run(_settings({**locals(), "eager": None}), profile, as_json, offline))


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
    """See the main job at a glance: a chat turn, and a batch of sample prompts."""
    from speccli.commands.demo import demo as run

    typed = _settings(locals())
    view = _view(quiet, verbose)
    raise typer.Exit(run(_plan(typed, profile, view), view, _open_engine(view)))


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
    given = {key: value for key, value in options.items() if key in Settings.__struct_fields__}
    return Settings(**{**given, "method": method, "enforce_eager": eager})


def _view(quiet: bool, verbose: bool) -> View:
    from speccli.view import View

    return View(quiet, verbose)


def _plan(typed: Settings, profile: Path | None, view: View, command: Settings = NOTHING) -> Plan:
    from speccli.prepare import prepare

    plan = prepare(typed, profile, view.narrate, command=command)
    view.chosen(plan)
    return plan


def _open_engine(view: View) -> OpenEngine:
    from speccli.engine import open_engine

    return lambda plan: open_engine(plan, follow_log=view.verbose)


def main() -> None:
    """The one boundary: every expected error becomes one message, one hint and an exit code."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:  # under nohup it is ignored, and stays so
            signal.signal(number, lambda got, _: sys.exit(128 + got))  # so that an engine is closed first
    try:
        app()
    except SpeccliError as error:
        if os.environ.get("SPECCLI_DEBUG"):
            traceback.print_exc()
        print(f"speccli: error: {error.message}", file=sys.stderr)  # noqa: T201
        if error.hint:
            print(f"hint: {error.hint}", file=sys.stderr)  # noqa: T201
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(ExitCode.INTERRUPTED)
    except BrokenPipeError:  # the reader of stdout has left, as `head` does; nobody is there to be told
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        sys.exit(ExitCode.FINDINGS)
