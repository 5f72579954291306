"""The facts about vLLM that the pair check, the conversions and the engine go by, against the installed vLLM's source."""

import ast
from typing import get_args

from speccli.checkpoint import heads, inspection, speculators
from speccli.checkpoint.repair import place
from speccli.paircheck import supported
from speccli.plan import GPU_MEMORY_UTILIZATION
from speccli.profile.kv_cache_dtypes import KvCacheDtype
from speccli.profile.reasoning_parsers import ReasoningParser
from tests import vllm_source

TARGETS = ("_TEXT_GENERATION_MODELS", "_MULTIMODAL_MODELS", "_TRANSFORMERS_SUPPORTED_MODELS")

NOT_SPECULATORS = {"ExtractHiddenStatesModel"}

SPECULATIVE = "config/speculative.py"
REJECTION_SAMPLER = "v1/sample/rejection_sampler.py"
DETOKENIZER = "v1/engine/detokenizer.py"
OUTPUT_PROCESSOR = "v1/engine/output_processor.py"
CHAT_SERVING = "entrypoints/openai/chat_completion/serving.py"


def _strings(node: ast.AST) -> set[str]:
    return {part.value for part in ast.walk(node) if isinstance(part, ast.Constant) and isinstance(part.value, str)}


def _class(path: str, name: str) -> ast.ClassDef:
    tree = vllm_source.tree(vllm_source.root() / path)
    return next(node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name)


def _methods(cls: ast.ClassDef) -> dict[str, ast.FunctionDef]:
    return {node.name: node for node in cls.body if isinstance(node, ast.FunctionDef)}


def _assigned(node: ast.AST, target: str) -> list[str]:
    """What is assigned to this."""
    assigns = [one for one in ast.walk(node) if isinstance(one, ast.Assign)]
    return [ast.unparse(one.value) for one in assigns if target in map(ast.unparse, one.targets)]


def _calls(node: ast.AST, of: str) -> list[ast.Call]:
    return [one for one in ast.walk(node) if isinstance(one, ast.Call) and ast.unparse(one.func) == of]


def _argument(call: ast.Call, name: str) -> str:
    return next(ast.unparse(keyword.value) for keyword in call.keywords if keyword.arg == name)


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


# --- What the engine goes by


def test_the_share_of_the_gpu_that_vllm_takes_unless_told_otherwise() -> None:
    field = next(
        node
        for node in _class("config/cache.py", "CacheConfig").body
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "gpu_memory_utilization"
    )
    assert isinstance(field.value, ast.Call)
    default = float(_argument(field.value, "default"))
    assert default == GPU_MEMORY_UTILIZATION


def test_the_cpu_backend_refuses_uni_only_where_the_engine_may_have_its_own_process() -> None:
    """So `engine/vllm.py: _config` says that it has none while the configuration is made."""
    checked = vllm_source.function("platforms/cpu.py", "check_and_update_config")
    backend = "parallel_config.distributed_executor_backend"
    branches = [node for node in ast.walk(checked) if isinstance(node, ast.If) and _assigned(node, backend)]
    assert [ast.unparse(branch.test) for branch in branches] == [
        f"os.environ.get('VLLM_ENABLE_V1_MULTIPROCESSING', '1') == '1' and {backend} == 'uni'"
    ]
    assert _assigned(checked, backend) == ["'mp'"]


def test_whether_the_engine_has_its_own_process_is_asked_after_the_configuration_is_made() -> None:
    made = _methods(_class("v1/engine/llm_engine.py", "LLMEngine"))["from_vllm_config"]
    [call] = _calls(made, "cls")
    assert _argument(call, "multiprocess_mode") == "envs.VLLM_ENABLE_V1_MULTIPROCESSING"


def test_the_worker_takes_its_extension_by_name() -> None:
    """Importing that module in the worker's process is what mends vLLM there."""
    init = _methods(_class("v1/worker/worker_base.py", "WorkerWrapperBase"))["init_worker"]
    assert _assigned(init, "worker_extension_cls") == ["resolve_obj_by_qualname(parallel_config.worker_extension_cls)"]


def test_the_function_that_is_mended_is_looked_up_by_name_where_it_is_called() -> None:
    """No module holds it under another name, so replacing it there is enough; and the calls fit the new one."""
    name = "expand_batch_to_tokens"
    sources = vllm_source.root().rglob("*.py")
    naming = {str(file.relative_to(vllm_source.root())) for file in sources if name.encode() in file.read_bytes()}
    assert naming == {REJECTION_SAMPLER}
    tree = vllm_source.tree(vllm_source.root() / REJECTION_SAMPLER)
    calls = _calls(tree, name)
    others = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id == name]
    assert len(calls) == len(others) == 3
    assert [len(call.args) for call in calls] == [3, 3, 3]
    assert [[keyword.arg for keyword in call.keywords] for call in calls] == [["replace_from", "replace_to"], [], []]


def test_the_engine_tells_a_requests_speculation_only_at_its_end() -> None:
    """That is why speccli's schedulers add it to each output, which the front end then keeps."""
    update = vllm_source.function("v1/core/sched/scheduler.py", "update_from_output")
    told = [
        _argument(call, "spec_decode_metrics") for call in _calls(update, "EngineCoreOutput") if len(call.keywords) > 5
    ]
    assert told == ["request.spec_decode_metrics if finish_reason is not None else None"]
    processed = vllm_source.function(OUTPUT_PROCESSOR, "process_outputs")
    assert _assigned(processed, "req_state.spec_decode_metrics") == ["engine_core_output.spec_decode_metrics"]
    [completion] = _calls(vllm_source.function(OUTPUT_PROCESSOR, "_new_completion_output"), "CompletionOutput")
    assert _argument(completion, "spec_decode_metrics") == "self.spec_decode_metrics if finished else None"


def test_requests_have_an_id_of_vllms_own_inside_and_the_given_one_outside() -> None:
    """`request_states` and `abort_request(internal=True)` take what `add_request` returns; outputs carry the given one."""
    added = _methods(_class("v1/engine/llm_engine.py", "LLMEngine"))["add_request"]
    assert _assigned(added, "req_id") == ["request.request_id"]
    returned = [node.value for node in ast.walk(added) if isinstance(node, ast.Return) and node.value]
    assert {ast.unparse(value) for value in returned} == {"req_id"}
    processed = vllm_source.function(OUTPUT_PROCESSOR, "process_outputs")
    assert _assigned(processed, "req_state") == ["self.request_states.get(req_id)"]
    [output] = _calls(vllm_source.function(OUTPUT_PROCESSOR, "_new_request_output"), "RequestOutput")
    assert _argument(output, "request_id") == "external_req_id"


def test_the_detokenizer_decodes_each_token_through_a_method_that_an_instance_may_replace() -> None:
    base = _class(DETOKENIZER, "BaseIncrementalDetokenizer")
    [call] = _calls(_methods(base)["update"], "self.decode_next")
    assert ast.unparse(call) == "self.decode_next(new_token_id)"
    for name in ("FastIncrementalDetokenizer", "SlowIncrementalDetokenizer"):
        methods = _methods(_class(DETOKENIZER, name))
        assert "decode_next" in methods
        assert "update" not in methods
    assert "__slots__" not in (vllm_source.root() / DETOKENIZER).read_text(encoding="utf-8")


def test_a_request_may_gather_more_tokens_than_the_engine_asks_for_and_never_fewer() -> None:
    made = _methods(_class(OUTPUT_PROCESSOR, "RequestState"))["from_new_request"]
    assert _assigned(made, "stream_interval") == ["max(sampling_params.stream_interval, stream_interval)"]


def test_a_prompt_is_cut_by_words_that_vllm_takes() -> None:
    """`with_kwargs` ignores a word that it does not know. Its result is a dataclass, of which a copy can be made."""
    params = _class("renderers/params.py", "TokenizeParams")
    taken = {_strings(call.args[0]).pop() for call in _calls(params, "tokenization_kwargs.pop")}
    assert {"truncate_prompt_tokens", "truncation_side"} <= taken
    assert [ast.unparse(one) for one in params.decorator_list] == ["dataclass(frozen=True)"]


def test_sampling_params_are_taken_over_without_a_deep_copy_where_asked() -> None:
    clone = _methods(_class("sampling_params.py", "SamplingParams"))["clone"]
    branches = [node for node in clone.body if isinstance(node, ast.If)]
    assert [ast.unparse(branch.test) for branch in branches] == ["self.skip_clone"]
    assert [ast.unparse(one) for one in branches[0].body] == ["return copy.copy(self)"]


# --- Settings


def test_the_types_of_a_kv_cache_are_those_of_vllm() -> None:
    tree = vllm_source.tree(vllm_source.root() / "config" / "cache.py")
    [literal] = _assigned(tree, "CacheDType")
    assert set(get_args(KvCacheDtype)) == _strings(ast.parse(literal))


# --- Reasoning


def test_the_reasoning_parsers_are_those_of_vllm() -> None:
    tree = vllm_source.tree(vllm_source.root() / "reasoning" / "__init__.py")
    [table] = _assigned(tree, "_REASONING_PARSERS_TO_REGISTER")
    assert set(get_args(ReasoningParser)) == {"none", *ast.literal_eval(table)}


def test_the_server_takes_another_parser_for_gpt_oss_and_its_reasoning_parser_is_set_by_itself() -> None:
    """`engine/vllm.py: parsers_of` does as the server does, and reads the name off the configuration."""
    [call] = _calls(vllm_source.tree(vllm_source.root() / CHAT_SERVING), "ParserManager.get_parser")
    assert _argument(call, "is_harmony") == "self.model_config.hf_config.model_type == 'gpt_oss'"
    verified = _methods(_class("model_executor/models/config.py", "GptOssForCausalLMConfig"))[
        "verify_and_update_config"
    ]
    assert _assigned(verified, "structured_outputs_config.reasoning_parser") == ["'openai_gptoss'"]


def test_the_server_feeds_a_parser_with_each_output_and_answers_in_these_fields() -> None:
    [call] = _calls(vllm_source.tree(vllm_source.root() / CHAT_SERVING), "parser.parse_delta")
    assert {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords} == {
        "delta_text": "delta_text",
        "delta_token_ids": "as_list(output.token_ids)",
        "request": "request",
        "prompt_token_ids": "res.prompt_token_ids",
        "finished": "output.finish_reason is not None",
    }
    message = _class("entrypoints/openai/chat_completion/protocol.py", "ChatMessage")
    fields = {ast.unparse(node.target) for node in message.body if isinstance(node, ast.AnnAssign)}
    assert "reasoning" in fields
    assert "reasoning_content" not in fields
