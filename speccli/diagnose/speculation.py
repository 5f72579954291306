"""Whether speculation makes sense here: what it costs, what it may gain, and what vLLM leaves out with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from speccli.diagnose import Finding, Group
from speccli.plan import Plan, roofline
from speccli.plan.estimate import Estimate
from speccli.plan.roofline import Cost, SpeedUp
from speccli.plan.sizes import sizes_of

LARGE_SHARE = 0.1
"""Of the target's weights: a speculator beyond it costs more than most acceptance pays."""

PASS_BY_PASS = ("draft_model", "eagle", "eagle3", "mtp")

CONTEXT = 2048
"""Of the estimate: a usual conversation."""

WORTH_SAYING = 1.05

WITHOUT_ASYNC = ("suffix", "ngram", "medusa")
"""`vllm/config/vllm.py`: no asynchronous scheduling with these."""


class Sense(msgspec.Struct, frozen=True, kw_only=True):
    """The estimated speed-up, and what it rests on."""

    single: SpeedUp
    full: SpeedUp
    """With as many requests at once as are allowed and the KV cache holds."""
    free_tokens: int
    """Tokens that one pass verifies as quickly as one."""
    best_num_speculative_tokens: int
    assumptions: tuple[str, ...]


def sense(plan: Plan) -> Sense | None:
    """None without speculation, and where a figure of the machine is not known."""
    cost = _cost(plan)
    if cost is None:
        return None
    k, context = plan.pairing.num_speculative_tokens, min(CONTEXT, plan.max_model_len)
    count = max(1, min(cost.sizes.load.max_num_seqs, cost.estimate.kv_tokens.low // context))
    return Sense(
        single=roofline.speedup(cost, k, 1, context),
        full=roofline.speedup(cost, k, count, context),
        free_tokens=roofline.free_tokens(cost),
        best_num_speculative_tokens=roofline.best_k(cost, k, 1, context),
        assumptions=(
            f"acceptance: {cost.origin}",
            f"{context:,} tokens of context",
            f"{roofline.EFFICIENCY:.0%} of the data sheet's bandwidth and FLOP/s",
            f"{roofline.PASS_OVERHEAD_S * 1000:.1f} ms for a pass's launches",
        ),
    )


def speculation(plan: Plan, found: Sense | None) -> Group:
    findings = tuple(finding for rule in RULES for finding in rule(plan)) if plan.pairing.is_speculative else ()
    return Group(title="Speculation", findings=(*(_of_sense(plan, found) if found else ()), *findings))


def _cost(plan: Plan) -> Cost | None:
    if plan.estimate is None:
        return None
    settings = plan.profile.settings
    checkpoints = plan.checkpoints
    return roofline.cost_of(
        plan.hardware, plan.pairing, sizes_of(settings, plan.hardware, plan.pairing, checkpoints), plan.estimate
    )


def _of_sense(plan: Plan, found: Sense) -> Iterator[Finding]:
    single, full = found.single, found.full
    evidence = (
        f"about {single.speedup:.1f} times as fast for one request"
        + (f", {full.speedup:.1f} times with {full.batch} at once" if full.batch > 1 else "")
        + f" (an estimate; {single.acceptance_length:.1f} tokens a step)"
    )
    if single.speedup < WORTH_SAYING:
        yield Finding(
            id="speculation.gain",
            severity="warning",
            title="gain",
            evidence=evidence,
            cause="drafting and verifying cost about what accepted tokens save",
            fix="--no-spec, or a smaller speculator",
        )
    else:
        yield Finding(
            id="speculation.gain", severity="ok", title="gain", evidence=evidence, cause="; ".join(found.assumptions)
        )
    yield from _k(plan, found)
    yield from _batch(plan, found)


def _k(plan: Plan, found: Sense) -> Iterator[Finding]:
    k, best = plan.pairing.num_speculative_tokens, found.best_num_speculative_tokens
    cost = _cost(plan)
    if cost is None or best >= k:
        return
    better = roofline.speedup(cost, best, 1, found.single.context).speedup
    if better < found.single.speedup * WORTH_SAYING:
        return
    yield Finding(
        id="speculation.k",
        severity="info",
        title="k",
        evidence=f"k={k} is estimated at {found.single.speedup:.2f} times, k={best} at {better:.2f} times",
        cause="a late token is seldom accepted, since all before it must be, and costs as much as the first",
        fix=f"-k {best}",
    )


def _batch(plan: Plan, found: Sense) -> Iterator[Finding]:
    k, full = plan.pairing.num_speculative_tokens, found.full
    tokens = full.batch * (k + 1)
    if tokens <= found.free_tokens:
        return
    free = max(1, found.free_tokens // (k + 1))
    slower = full.speedup < 1 and "max_num_seqs" in plan.profile.sources
    yield Finding(
        id="speculation.batch",
        severity="warning" if slower else "info",
        title="batch",
        evidence=f"{full.batch} requests verify {tokens:,} tokens at once, and up to {found.free_tokens:,} come free",
        cause="beyond that a pass is bound by arithmetic, and every drafted token costs like one that is kept",
        fix=f"--max-num-seqs {free} keeps verification free" + (", --no-spec suits such batches" if slower else ""),
    )


def _share(plan: Plan) -> Iterator[Finding]:
    made = plan.estimate
    if made is None or plan.pairing.method not in PASS_BY_PASS:
        return
    share = _draft_share(made)
    if share > LARGE_SHARE:
        yield Finding(
            id="speculation.draft-size",
            severity="warning",
            title="draft size",
            evidence=f"the speculator's weights are {share:.0%} of the target's",
            cause="it runs once for each drafted token, so it reads that much each time",
            fix="a head (eagle3, mtp), or a draft 10 to 50 times smaller than the target",
        )


def _draft_share(made: Estimate) -> float:
    target = made.bytes["target_weights"].low
    return made.bytes["draft_weights"].low / target if target else 0.0


def _runner(plan: Plan) -> Iterator[Finding]:
    if plan.estimate is None or plan.hardware.kind == "cpu" or plan.estimate.runner == "V2":
        return
    yield Finding(
        id="speculation.runner",
        severity="info",
        title="runner",
        evidence=f"vLLM runs {plan.pairing.method} on its older V1 model runner",
        cause="V2 has no "
        + ("parallel drafting" if plan.pairing.config.get("parallel_drafting") else f"{plan.pairing.method} yet"),
    )


def _scheduling(plan: Plan) -> Iterator[Finding]:
    if plan.pairing.method in WITHOUT_ASYNC and plan.hardware.kind == "cuda":
        yield Finding(
            id="speculation.scheduling",
            severity="info",
            title="scheduling",
            evidence=f"{plan.pairing.method} switches asynchronous scheduling off",
            cause="its drafts are made on the processor, between two steps",
        )


def _sampling(_: Plan) -> Iterator[Finding]:
    yield Finding(
        id="speculation.sampling",
        severity="info",
        title="sampling",
        evidence="requests with min_p or logit_bias are refused",
        cause="vLLM does not have them with speculation yet",
        fix="--no-spec for such requests",
    )


def _refused(plan: Plan) -> Iterator[Finding]:
    """Engine settings that do not go with speculation."""
    engine = plan.profile.settings.engine or {}
    if engine.get("logits_processors"):
        yield Finding(
            id="speculation.logits-processors",
            severity="error",
            title="processors",
            evidence="engine.logits_processors is set",
            cause="vLLM stops: custom logits processors do not go with speculation",
            fix="leave it out, or --no-spec",
        )


RULES: tuple[Callable[[Plan], Iterator[Finding]], ...] = (_share, _runner, _scheduling, _sampling, _refused)
