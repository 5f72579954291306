"""After a run: what acceptance statistics say to change. The numbers of case S68 are a public report's."""

from __future__ import annotations

import json

import pytest

from speccli.diagnose import Finding
from speccli.diagnose.observed import Observed, of_log, of_metrics, of_records
from speccli.diagnose.run import after_run, gains
from speccli.stats import Acceptance


def found(observed: Observed) -> dict[str, Finding]:
    return {finding.id: finding for finding in after_run(observed).findings}


def ran(*per_pos: int, drafts: int = 1000, method: str = "eagle3", **more: object) -> Observed:
    acceptance = Acceptance(drafts, drafts * len(per_pos), sum(per_pos), per_pos)
    given = {
        "acceptance": acceptance,
        "method": method,
        "num_speculative_tokens": len(per_pos),
        "num_generated_tokens": 5000,
        **more,
    }
    return Observed(**given)  # type: ignore[arg-type]


def metrics(
    drafts: int, drafted: int, accepted: int, per_pos: tuple[int, ...] = (), running: int = 1, generated: int = 9000
) -> str:
    lines = [
        "# HELP vllm:spec_decode_num_drafts_total Number of spec decoding drafts.",
        "# TYPE vllm:spec_decode_num_drafts_total counter",
        f'vllm:spec_decode_num_drafts_total{{engine="0",model_name="acme/8b"}} {drafts}.0',
        'vllm:spec_decode_num_drafts_created{engine="0",model_name="acme/8b"} 1.75e+09',
        f'vllm:spec_decode_num_draft_tokens_total{{engine="0",model_name="acme/8b"}} {drafted}.0',
        f'vllm:spec_decode_num_accepted_tokens_total{{engine="0",model_name="acme/8b"}} {accepted}.0',
        *(
            f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{engine="0",model_name="acme/8b",position="{index}"}} {count}.0'
            for index, count in enumerate(per_pos)
        ),
        f'vllm:num_requests_running{{engine="0",model_name="acme/8b"}} {running}.0',
        f'vllm:generation_tokens_total{{engine="0",model_name="acme/8b"}} {generated}.0',
    ]
    return "\n".join(lines) + "\n"


def test_s68_both_numbers_are_told_with_their_formulas() -> None:
    observed = of_metrics(metrics(352, 1056, 680, (290, 220, 170)))
    assert observed.acceptance == Acceptance(352, 1056, 680, (290, 220, 170))
    evidence = found(observed)["run.acceptance"].evidence
    assert "mean acceptance length 2.93 (1 + accepted / drafts)" in evidence
    assert "rate 0.644 (accepted / drafted)" in evidence


def test_a_late_position_that_is_seldom_accepted_is_left_out() -> None:
    """The example of the issue: position 4 at 6 %."""
    finding = found(ran(700, 400, 200, 60))["run.k-too-large"]
    assert finding.evidence == "position 4 is accepted 6% of the time, position 3 20%"
    assert finding.fix == "-k 3"
    assert "1,000 tokens" in finding.cause
    assert "assumed" in finding.cause


def test_the_best_k_is_where_tokens_over_cost_are_highest() -> None:
    acceptance = Acceptance(1000, 4000, 1360, (700, 400, 200, 60))
    speedups = [round(gain.speedup, 3) for gain in gains(acceptance, "eagle3", 4)]
    assert speedups == [1.0, 1.589, 1.842, 1.901, 1.844]


def test_a_good_run_has_nothing_wrong() -> None:
    told = found(ran(800, 650, 500))
    assert set(told) == {"run.acceptance"}
    assert told["run.acceptance"].severity == "ok"


def test_a_last_position_that_is_often_accepted_asks_for_one_more() -> None:
    assert found(ran(900, 850))["run.k-too-small"].fix == "try -k 3"


def test_s24_a_draft_that_costs_more_than_it_saves_is_told() -> None:
    told = found(ran(90, 20, 5, 1, method="draft_model"))
    assert told["run.does-not-pay"].fix.startswith("--no-spec")
    assert "run.low-acceptance" in told


def test_s25_many_requests_with_a_large_k_are_told() -> None:
    many = of_metrics(metrics(1000, 5000, 2500, (900, 700, 500, 300, 100), running=64))
    assert found(many)["run.large-batch"].fix.startswith("-k 1 or 2")
    very_many = of_metrics(metrics(1000, 5000, 2500, (900, 700, 500, 300, 100), running=200))
    assert found(very_many)["run.large-batch"].fix.startswith("--no-spec")
    assert "run.large-batch" not in found(of_metrics(metrics(1000, 5000, 2500, (900, 700, 500, 300, 100), running=2)))


@pytest.mark.parametrize("case", ["X3", "S46"])
def test_almost_nothing_accepted_means_that_the_head_does_not_belong_here(case: str) -> None:
    finding = found(ran(3, 1, 0))["run.nothing-accepted"]
    assert finding.severity == "error"
    assert "does not belong to this target" in finding.cause


@pytest.mark.parametrize("case", ["X1", "X2", "S17", "S40"])
def test_low_acceptance_is_told(case: str) -> None:
    """Dropped biases, and prompts beyond what the head was trained for, leave 5 to 8 per cent."""
    finding = found(ran(80, 40, 20))["run.low-acceptance"]
    assert finding.evidence == "the first drafted token is accepted 8% of the time"


def test_s67_no_draft_is_not_an_acceptance_of_nothing() -> None:
    told = found(ran(drafts=0))
    assert set(told) == {"run.no-drafts"}
    assert "not in force" in told["run.no-drafts"].cause


def test_no_drafts_of_n_grams_means_that_nothing_repeats() -> None:
    finding = found(ran(drafts=0, method="ngram"))["run.no-drafts"]
    assert finding.severity == "info"
    assert found(ran(drafts=0, method="none"))["run.no-drafts"].cause == "it ran with --no-spec"


def test_metrics_without_speculation_say_so() -> None:
    observed = of_metrics("vllm:generation_tokens_total 500.0\n")
    assert "the metrics do not know speculation" in found(observed)["run.no-drafts"].evidence


def test_s55_acceptance_that_falls_is_told_from_a_trace_of_metrics() -> None:
    drafts, accepted, scrapes = 0, 0, []
    for number in range(200):
        drafts += 100
        accepted += 180 if number < 120 else 12
        scrapes.append(metrics(drafts, drafts * 3, accepted))
    observed = of_metrics("".join(scrapes))
    assert len(observed.readings) == 199
    assert found(observed)["run.falling"].evidence == "60% at first, 4% in the last 5 of 199 readings"


def test_acceptance_that_only_varies_is_not_falling() -> None:
    readings = tuple(Acceptance(100, 300, 180 if number % 2 else 15, ()) for number in range(40))
    assert "run.falling" not in found(ran(600, 500, 400, readings=readings))


def test_engines_of_a_data_parallel_server_are_summed() -> None:
    text = metrics(100, 300, 150, (80, 50, 20))
    both = text + text.replace('engine="0"', 'engine="1"')
    assert of_metrics(both).acceptance == Acceptance(200, 600, 300, (160, 100, 40))


def test_metrics_of_older_versions_are_read() -> None:
    text = (
        'vllm:spec_decode_draft_acceptance_rate{model_name="acme/8b"} 0.642\n'
        'vllm:spec_decode_efficiency{model_name="acme/8b"} 0.598\n'
        'vllm:spec_decode_num_accepted_tokens_total{model_name="acme/8b"} 8547.0\n'
        'vllm:spec_decode_num_draft_tokens_total{model_name="acme/8b"} 13311.0\n'
        'vllm:spec_decode_num_emitted_tokens_total{model_name="acme/8b"} 10616.0\n'
    )
    acceptance = of_metrics(text).acceptance
    assert (acceptance.num_draft_tokens, acceptance.num_accepted_tokens, acceptance.num_drafts) == (13311, 8547, 2069)


def record(per_pos: list[int], drafts: int, **more: object) -> dict[str, object]:
    accepted = sum(per_pos)
    speculation = {
        "num_drafts": drafts, "num_draft_tokens": drafts * len(per_pos), "num_accepted_tokens": accepted,
        "num_accepted_tokens_per_pos": per_pos, "mean_acceptance_length": 1 + accepted / drafts, "draft_acceptance_rate": 0.5,
    }  # fmt: skip
    return {
        "id": 1,
        "text": "a",
        "usage": {"prompt_tokens": 3, "completion_tokens": 40},
        "speculation": speculation,
        **more,
    }


def test_a_chats_object_is_read() -> None:
    observed = of_records([record([20, 10], 25, method="eagle3", num_speculative_tokens=2)])
    assert observed.acceptance == Acceptance(25, 50, 30, (20, 10))
    assert (observed.method, observed.k, observed.num_generated_tokens) == ("eagle3", 2, 40)


def test_s74_records_of_a_batch_are_summed_and_failures_are_explained() -> None:
    refusal = (
        "This model's maximum context length is 1024 tokens. However, your prompt contains at least 1025 input tokens."
    )
    observed = of_records(
        [
            record([20, 10], 25),
            record([10, 5, 1], 15),
            {"id": 3, "line": 3, "error": refusal},
            {"id": 4, "line": 4, "error": {"kind": "too_long", "message": refusal}},
            {"id": "b", "custom_id": "x", "response": None, "error": {"code": "too_long", "message": refusal}},
            {"id": "b", "custom_id": "y", "response": {"status_code": 200, "body": record([4, 2], 5)}, "error": None},
        ]
    )
    assert observed.acceptance == Acceptance(45, 105, 52, (34, 17, 1))
    finding = found(observed)["run.failed-requests"]
    assert finding.evidence.startswith("3 of 6 failed; 3 with: This model's maximum context length")
    assert "--max-model-len 1025" in finding.fix


def test_a_log_tells_how_speculation_fared() -> None:
    lines = [
        "SpecDecoding metrics: Mean acceptance length: 2.29, Accepted throughput: 1.73 tokens/s, Drafted throughput: 5.37 tokens/s, Accepted: 18 tokens, "
        "Drafted: 56 tokens, Per-position acceptance rate: 0.571, 0.357, 0.286, 0.071, Avg Draft acceptance rate: 32.1%",
        "Speculative metrics: Draft acceptance rate: 0.200, System efficiency: 0.167, Number of speculative tokens: 5, Number of accepted tokens: 1, "
        "Number of draft tokens: 5, Number of emitted tokens: 2.",
        "something else",
    ]
    observed = of_log(lines)
    assert observed.readings == (Acceptance(14, 56, 18, (8, 5, 4, 1)), Acceptance(1, 5, 1, ()))


def test_little_data_is_said_to_be_little() -> None:
    told = found(ran(1, 0, drafts=3))
    assert set(told) == {"run.acceptance", "run.little-data"}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nonsense",
        "a b c",
        "vllm:spec_decode_num_drafts_total NaN",
        'x{position="99999999"} 1',
        "vllm:x 1e999",
        json.dumps({"a": 1}),
    ],
)
def test_metrics_that_are_none_give_nothing(text: str) -> None:
    assert after_run(of_metrics(text)).findings == ()


@pytest.mark.parametrize(
    "text",
    [
        metrics(0, 0, 0, (0, 0, 0), running=0, generated=0),
        'vllm:spec_decode_num_drafts_total 0.0\nvllm:spec_decode_num_accepted_tokens_per_pos_total{position="0"} 0.0\n',
        "vllm:generation_tokens_total 0.0\n",
    ],
)
def test_a_server_that_has_just_started_has_generated_nothing_yet(text: str) -> None:
    told = found(of_metrics(text))
    assert set(told) == {"run.nothing-yet"}
    assert told["run.nothing-yet"].severity == "info"
    assert told["run.nothing-yet"].evidence.startswith("nothing was generated yet")


def test_counts_of_positions_without_a_number_of_drafts_are_no_rates() -> None:
    text = metrics(100, 300, 150, (80, 50, 20)).replace("} 100.0", "} NaN")
    assert of_metrics(text).acceptance == Acceptance(0, 300, 150, (80, 50, 20))
    assert "run.nothing-yet" not in found(of_metrics(text))


def test_records_that_are_none_give_nothing() -> None:
    assert of_records([None, {}, {"text": "a"}]).num_answers == 1
    assert (
        after_run(of_records([3, None, "x", [], {"speculation": 4}, {"usage": {"completion_tokens": "x"}}])).findings
        == ()
    )


def test_a_large_batch_keeps_few_readings_and_all_counts() -> None:
    """Acceptance that falls half way shows also where many records make one reading."""
    good, bad = record([20, 10], 20), record([1, 0], 20)
    observed = of_records(good if number < 2500 else bad for number in range(5000))
    assert observed.acceptance.num_drafts == 100_000
    assert sum(reading.num_drafts for reading in observed.readings) == 100_000
    assert 200 <= len(observed.readings) <= 400
    assert "run.falling" in found(observed)


def test_of_very_many_failures_the_commonest_is_told() -> None:
    observed = of_records({"error": f"odd {number}" if number % 3 else "the same"} for number in range(900))
    assert observed.num_failed == 900
    assert "900 of 900 failed; 300 with: the same" in found(observed)["run.failed-requests"].evidence
