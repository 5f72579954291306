"""The facts about vLLM that the pair check and the conversions go by, against the installed vLLM's source."""

import ast

from speccli.checkpoint import heads, inspection, speculators
from speccli.checkpoint.repair import place
from speccli.paircheck import supported
from tests import vllm_source

TARGETS = ("_TEXT_GENERATION_MODELS", "_MULTIMODAL_MODELS", "_TRANSFORMERS_SUPPORTED_MODELS")

NOT_SPECULATORS = {"ExtractHiddenStatesModel"}

SPECULATIVE = "config/speculative.py"


def _strings(node: ast.AST) -> set[str]:
    return {part.value for part in ast.walk(node) if isinstance(part, ast.Constant) and isinstance(part.value, str)}


def test_every_speculator_of_vllm_is_known_under_its_method() -> None:
    known = [name for names in supported.SPECULATORS.values() for name in names]
    assert len(known) == len(set(known))
    assert set(known) == vllm_source.registry("_SPECULATIVE_DECODING_MODELS").keys() - NOT_SPECULATORS


def test_the_mlp_speculator_is_still_switched_off() -> None:
    assert "MLPSpeculatorPreTrainedModel" not in vllm_source.registry("_SPECULATIVE_DECODING_MODELS")


def test_every_target_is_known_to_hand_out_its_hidden_states_or_not_to() -> None:
    targets = {name: place for table in TARGETS for name, place in vllm_source.registry(table).items()}
    with_them = {
        name for name, (module, cls) in targets.items() if vllm_source.implements(module, cls, "SupportsEagle3")
    }
    assert with_them == supported.WITH_HIDDEN_STATES
    assert targets.keys() - with_them == supported.WITHOUT_HIDDEN_STATES


def test_every_family_with_mtp_layers_is_known() -> None:
    """What `hf_config_override` compares with: model types, architectures, and the names that it gives itself."""
    override = vllm_source.function(SPECULATIVE, "hf_config_override")
    compared = set().union(*(_strings(node) for node in ast.walk(override) if isinstance(node, ast.Compare)))
    own = {name for name in compared if name.endswith("_mtp") or name in supported.SPECULATORS["mtp"]}
    other = {
        "deepseek_v41",
        "MistralLarge3ForCausalLM",
        "model_type",
        "quantization_config",
    }  # of other methods; attributes
    assert compared - own - other == supported.MTP_MODEL_TYPES | supported.MTP_ARCHITECTURES


def test_the_words_in_a_path_from_which_vllm_concludes_the_method() -> None:
    post_init = vllm_source.function(SPECULATIVE, "__post_init__")
    words = [
        node.left.value
        for node in ast.walk(post_init)
        if isinstance(node, ast.Compare)
        and isinstance(node.left, ast.Constant)
        and isinstance(node.ops[0], ast.In)
        and ast.unparse(node.comparators[0]) == "self.draft_model_config.model.lower()"
    ]
    assert words == list(place.TRAPS)


def test_the_speculators_types() -> None:
    algos = vllm_source.tree(vllm_source.root() / "transformers_utils/configs/speculators/algos.py")
    types = {
        name
        for node in algos.body
        if isinstance(node, ast.FunctionDef)
        for decorator in node.decorator_list
        for name in _strings(decorator)
    }
    assert types == speculators.METHODS.keys()


def test_the_architectures_whose_tensors_are_written_down_share_those_classes() -> None:
    registered = vllm_source.registry("_SPECULATIVE_DECODING_MODELS")
    llama = {name for name, (_, cls) in registered.items() if cls == "Eagle3LlamaForCausalLM"}
    qwen3 = {name for name, (_, cls) in registered.items() if cls == "Eagle3Qwen3ForCausalLM"}
    assert llama == heads.LLAMA_EAGLE3 - {"LlamaForCausalLM"}
    assert qwen3 == heads.QWEN3_EAGLE3 - {"Qwen3ForCausalLM"}


def test_the_files_that_are_no_weights() -> None:
    loader = vllm_source.function(
        "model_executor/model_loader/weight_utils.py", "filter_files_not_needed_for_inference"
    )
    assert set(inspection.NOT_WEIGHTS) <= _strings(loader)
