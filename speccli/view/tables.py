"""What `/stats`, `/tokens`, `/compare`, `/set` and `/help` show. Imported only where one of them is typed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from speccli.chat.commands import COMMANDS
from speccli.chat.comparison import Comparison
from speccli.chat.settings import HELP, Row
from speccli.chat.totals import Totals, tokens_per_step
from speccli.chat.turn import Piece, Run, Token, Turn, pieces
from speccli.chat.words import counted
from speccli.view.grid import STACKED_BELOW, Grid

STYLES = {"draft": "green", "target": "none", "both": "yellow"}

MARKS = {"draft": ("⟦", "⟧"), "target": ("", ""), "both": ("⟦", "?⟧")}
"""Where there are no colours."""

SEVERITY_STYLES = {"ok": "green", "info": "", "warning": "yellow", "error": "red"}

BAR_COLUMNS = 20

WIDE = 80
"""Columns from which on there is room for what a setting means."""

KEYS = (
    ("Enter", 'send; inside """ … """ a new line'),
    ("Alt-Enter", "a new line; with vi keys: Esc o"),
    ("Ctrl-G", "write in $EDITOR"),
    ("Ctrl-R", "search what was typed before"),
    ("Tab", "complete commands, values, file names"),
    ("Ctrl-C", "stop an answer, or clear the line; twice: leave"),
    ("Ctrl-D", "leave"),
)


def help_table() -> RenderableType:
    table = Grid()
    for command in COMMANDS:
        table.add(Text(f"/{command.name} {command.usage}".rstrip(), style="bold"), command.help)
    table.add("", "")
    for key, meaning in KEYS:
        table.add(Text(key, style="bold"), meaning)
    return table


def settings_table(rows: Iterable[Row]) -> RenderableType:
    table = Grid("setting", "value", "from", "meaning", last_from=WIDE)
    for row in rows:
        table.add(Text(row.name, style="bold"), Text(row.value), Text(row.source, style="dim"), Text(HELP[row.name]))
    return table


def stats(last: Turn, session: Totals, plain_tokens_per_s: float | None) -> RenderableType:
    """The last answer beside all of them. Each figure is a count of the engine's, or follows from such counts."""
    one = Totals().and_turn(last)
    table = Grid("", "last answer", *([f"all {session.num_turns}"] if session.num_turns > 1 else []))
    for name, values in _figures(one, session).items():
        table.add(Text(name), *[Text(value, justify="right") for value in values[: 1 + (session.num_turns > 1)]])
    first_s = last.timing.time_to_first_token_s
    table.add("time to first token", Text("" if first_s is None else f"{first_s:.2f} s", justify="right"))
    parts: list[RenderableType] = [Text(str(last.run), style="bold"), table]
    if last.acceptance.num_drafts:
        parts += [Text(), _positions(last, session), Text(), _histogram(last)]
    parts.append(_against_plain(last.run, one.decode_tokens_per_s, plain_tokens_per_s))
    return Group(*parts)


def tokens(turn: Turn, is_coloured: bool) -> RenderableType:
    """The answer, each token in the colour of its origin."""
    text = Text()
    for piece in pieces(turn.tokens):
        text.append(_marked(piece) if not is_coloured else piece.text, STYLES[piece.origin] if is_coloured else "")
    return Group(text, Text(), _legend(turn, is_coloured))


def comparison(compared: Comparison, columns: int) -> RenderableType:
    """Both answers, their speed, and the first token that differs."""
    turns = (compared.first, compared.second)
    figures = Grid("", *[_how(turn.run) for turn in turns])
    for name, values in _compared_figures(turns).items():
        figures.add(name, *[Text(value, justify="right") for value in values])
    parts: list[RenderableType] = [figures]
    if compared.speedup is not None:
        one, other = (_how(turn.run) for turn in turns)
        parts.append(Text(f"{one} is {compared.speedup:.2f} times as fast as {other}", style="bold"))
    parts.append(Text(_difference(compared)))
    if compared.first_difference is not None:
        parts += [Text(), _side_by_side(compared, columns)]
    return Group(*parts)


def findings(found: Iterable[tuple[str, str, str, str, str]]) -> RenderableType:
    """Severity, what was looked at, what was seen, why, and what to do."""
    table = Grid()
    for severity, title, evidence, cause, fix in found:
        told = Text(evidence)
        if cause:
            told.append(f"\nwhy: {cause}")
        if fix:
            told.append(f"\ndo:  {fix}", "bold")
        table.add(Text(severity, style=SEVERITY_STYLES.get(severity, "")), Text(title), told)
    return table


def _figures(one: Totals, session: Totals) -> dict[str, list[str]]:
    both = (one, session)
    figures = {
        "prompt tokens": [f"{totals.num_prompt_tokens:,}" for totals in both],
        "tokens": [f"{totals.num_tokens:,}" for totals in both],
        "engine steps": [f"{totals.num_steps:,}" for totals in both],
        "tokens/s (decoding)": [_rate(totals.decode_tokens_per_s) for totals in both],
    }
    if session.acceptance.num_drafts:
        counts = [totals.acceptance for totals in both]
        figures |= {
            "drafts": [f"{count.num_drafts:,}" for count in counts],
            "drafted tokens": [f"{count.num_draft_tokens:,}" for count in counts],
            "accepted tokens": [f"{count.num_accepted_tokens:,}" for count in counts],
            "acceptance rate": [f"{count.draft_acceptance_rate:.1%}" if count.num_drafts else "-" for count in counts],
            "mean acceptance length": [
                f"{count.mean_acceptance_length:.2f}" if count.num_drafts else "-" for count in counts
            ],
        }
    return figures


def _positions(last: Turn, session: Totals) -> RenderableType:
    several = session.num_turns > 1
    table = Grid("accepted at position", "last", *(["all"] if several else []), "", last_from=STACKED_BELOW)
    rates = last.acceptance.acceptance_rate_per_pos
    overall = session.acceptance.acceptance_rate_per_pos
    for place, rate in enumerate(rates):
        table.add(
            Text(str(place + 1), justify="right"),
            Text(f"{rate:.1%}", justify="right"),
            *([Text(f"{overall[place]:.1%}", justify="right")] if several else []),
            _bar(rate),
        )
    return table


def _histogram(last: Turn) -> RenderableType:
    counts = tokens_per_step(last.acceptance, last.num_steps)
    table = Grid("tokens per step", "steps", "", last_from=STACKED_BELOW)
    for size, count in enumerate(counts, 1):
        table.add(Text(str(size), justify="right"), Text(f"{count:,}", justify="right"), _bar(count / max(counts)))
    idle = last.num_steps - last.acceptance.num_drafts
    return Group(table, Text(f"{counted(idle, 'step')} had nothing drafted", style="dim")) if idle else table


def _against_plain(run: Run, speed: float | None, plain: float | None) -> Text:
    if run.method == "none":
        return Text("plain decoding: nothing is drafted", style="dim")
    if plain is None or speed is None:
        return Text("against plain decoding: not measured; /compare measures it", style="dim")
    return Text(f"against plain decoding: {speed / plain:.2f} times as fast ({plain:.1f} tokens/s without speculation)")


def _legend(turn: Turn, is_coloured: bool) -> Text:
    drafted = sum(token.origin == "draft" for token in turn.tokens)
    count = turn.acceptance
    legend = Text()
    legend.append(
        "accepted draft tokens" if is_coloured else "⟦accepted draft tokens⟧", STYLES["draft"] if is_coloured else ""
    )
    legend.append(f": {drafted} · the target's own: {len(turn.tokens) - drafted}")
    if any(piece.origin == "both" for piece in pieces(turn.tokens)):
        legend.append(" · ")
        legend.append(
            "a character of both" if is_coloured else "⟦a character of both?⟧", STYLES["both"] if is_coloured else ""
        )
    if count.num_drafts:
        rejected = count.num_draft_tokens - count.num_accepted_tokens
        legend.append(f"\ndrafts: {count.num_drafts} · drafted tokens: {count.num_draft_tokens}, rejected: {rejected}")
    if count.num_accepted_tokens > drafted:
        legend.append(f" · {count.num_accepted_tokens - drafted} accepted behind the end of the answer")
    return legend


def _marked(piece: Piece) -> str:
    start, end = MARKS[piece.origin]
    return f"{start}{piece.text}{end}"


def _compared_figures(turns: Sequence[Turn]) -> dict[str, list[str]]:
    figures = {
        "tokens": [f"{turn.timing.num_tokens:,}" for turn in turns],
        "tokens/s (decoding)": [_rate(turn.timing.decode_tokens_per_s) for turn in turns],
        "engine steps": [f"{turn.num_steps:,}" for turn in turns],
        "mean acceptance length": [
            f"{turn.acceptance.mean_acceptance_length:.2f}" if turn.acceptance.num_drafts else "-" for turn in turns
        ],
    }
    if all(turn.timing.time_to_first_token_s is not None for turn in turns):
        figures["time to first token"] = [f"{turn.timing.time_to_first_token_s:.2f} s" for turn in turns]
    return figures


SAMPLED = "both were sampled, so chance alone makes them differ: /set temperature 0"
NEAR_TIE = "several tokens at once are rounded otherwise, so a near tie may fall the other way; with dtype float32 that is rare"


def _difference(compared: Comparison) -> str:
    place = compared.first_difference
    if place is None:
        ends = " and then one of them ends" if len(compared.first.tokens) != len(compared.second.tokens) else ""
        return f"the same {counted(compared.num_compared, 'token')}{ends}"
    one, other = (repr(turn.tokens[place].text) for turn in (compared.first, compared.second))
    why = SAMPLED if compared.is_sampled else NEAR_TIE
    return f"the first token that differs is number {place + 1}: {one} against {other}; {why}"


def _side_by_side(compared: Comparison, columns: int) -> RenderableType:
    place = compared.first_difference
    texts = [_underlined(turn.tokens, place) for turn in (compared.first, compared.second)]
    names = [_how(turn.run) for turn in (compared.first, compared.second)]
    if columns < 60:
        return Group(
            *[part for name, text in zip(names, texts, strict=True) for part in (Text(name, "bold"), text, Text())]
        )
    table = Table(box=None, padding=(0, 2, 0, 0), expand=True)
    for name in names:
        table.add_column(name, ratio=1, overflow="fold")
    table.add_row(*texts)
    return table


def _underlined(tokens: Sequence[Token], place: int | None) -> Text:
    text = Text()
    for number, token in enumerate(tokens):
        text.append(token.text, "bold underline" if number == place else "")
    return text


def _rate(rate: float | None) -> str:
    return "-" if rate is None else f"{rate:.1f}"


def _bar(share: float) -> Text:
    return Text("█" * round(share * BAR_COLUMNS), style="cyan", no_wrap=True, overflow="crop")


def _how(run: Run) -> str:
    return str(run).partition(" · ")[2]
