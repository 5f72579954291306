"""Pages of what is found after a run."""

from speccli.diagnose.pages.page import Page

PAGES = (
    Page(
        "run.acceptance",
        "acceptance",
        "Mean acceptance length = 1 + accepted / drafts: tokens of one step, the target's own one included. Acceptance rate = accepted / drafted. "
        "The rate of a position counts all drafts, also those that failed before it. Other tools count differently.",
    ),
    Page(
        "run.no-drafts",
        "nothing was drafted",
        "That is not an acceptance of 0 %. Speculation was off, vLLM left it out, or an n-gram method found nothing that repeats.",
        "Look for a warning in the engine's log: speccli doctor --last.",
    ),
    Page(
        "run.nothing-yet",
        "nothing was generated yet",
        "A server's counters of tokens and drafts start at 0, and all of them still are: there is nothing to judge.",
        "Ask again after some requests.",
    ),
    Page(
        "run.nothing-accepted",
        "almost nothing is accepted",
        "The speculator does not belong to this target, or its files are not whole: another model, another tokenizer, a missing map d2t, dropped biases, overflow in float16.",
        "speccli doctor with the same options; then a speculator made for exactly this target.",
    ),
    Page(
        "run.low-acceptance",
        "little is accepted",
        "Below 30 % for the first token speculation seldom pays. Creative text, a high temperature, prompts beyond what the speculator was trained for, and "
        "adapters (LoRA) lower it.",
        "A lower --temperature, -k 1, another speculator, or --no-spec.",
    ),
    Page(
        "run.k-too-large",
        "k is too large",
        "Expected tokens of a step are 1 + the sum of the positions' rates; its cost is 1 + k x (drafting + verifying a token). The k with the best ratio is "
        "named. What a token costs is assumed, by method, and said in the finding.",
        "-k as the finding says; speccli bench measures it.",
    ),
    Page(
        "run.k-too-small",
        "k is too small",
        "The last position is accepted so often that one more would pay.",
        "A larger -k, if the head can: Medusa, MTP and DFlash have limits of their own.",
    ),
    Page(
        "run.does-not-pay",
        "speculation does not pay",
        "At this acceptance every k is expected to be slower than plain decoding.",
        "--no-spec, another speculator, or --method ngram.",
    ),
    Page(
        "run.falling",
        "acceptance falls",
        "It was good and is gone: the text changed, contexts grew beyond what the speculator was trained for, or the engine's state is broken.",
        "Start the engine again; if it falls again on the same text, --no-spec and a newer vLLM.",
    ),
    Page(
        "run.large-batch",
        "many requests at once",
        "The target is bound by arithmetic then, and every rejected token costs.",
        "-k 1 or 2, or --no-spec, for such loads.",
    ),
    Page(
        "run.failed-requests",
        "requests failed",
        "Some records hold an error instead of an answer. speccli batch ends with code 1 then.",
        "The commonest error is explained; speccli batch --retry-failed answers those lines again.",
    ),
    Page(
        "run.little-data",
        "too little data",
        "Fewer than 20 drafts say little about a pairing.",
        "A longer answer, or a batch of your own prompts.",
    ),
)
