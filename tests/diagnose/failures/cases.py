"""What people's logs said, case by case (the ids are those of the collection of bug reports), and what it is called here."""

from __future__ import annotations

import msgspec

from speccli.diagnose.failures.kind import Figures


class Case(msgspec.Struct, frozen=True):
    id: str
    says: str
    """The telling line, or lines."""
    found: str
    figures: Figures = {}
    fix: str = ""
    """Part of the fix."""
    frames: tuple[str, ...] = ()


OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {asked}. GPU 0 has a total capacity of {total} of which {free} is free. Including non-PyTorch memory, this process has 38.1 GiB memory in use."

CASES = (
    # Memory
    Case(
        "S01",
        "ValueError: To serve at least one request with the model's max seq len (262144), (1.93 GiB KV cache is needed, which is "
        "larger than the available KV cache memory (1.88 GiB). Based on the available memory, the estimated maximum model length is "
        "251136. Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine.",
        "crash.kv-cache-too-small",
        {"asked_tokens": 262144, "needed_gib": 1.93, "available_gib": 1.88, "limit_tokens": 251136},
        "--max-model-len 251136",
    ),
    Case(
        "S01",
        "ValueError: To serve at least one request with the models's max seq len (40960), (5.63 GiB KV cache is needed, which is larger "
        "than the available KV cache memory (4.00 GiB). Based on the available memory,  the estimated maximum model length is 29125.",
        "crash.kv-cache-too-small",
        {"limit_tokens": 29125},
        "--max-model-len 29120",
    ),
    Case(
        "S01",
        "ValueError: The model's max seq len (32768) is larger than the maximum number of tokens that can be stored in KV cache (7344). "
        "Try increasing `gpu_memory_utilization` or decreasing `max_model_len` when initializing the engine.",
        "crash.kv-cache-too-small",
        {"asked_tokens": 32768, "limit_tokens": 7344},
        "--max-model-len 7344",
    ),
    Case(
        "S01",
        "ValueError: To serve at least one request with the model's max seq len (10000), (2.00 GiB KV cache is needed, which is larger "
        "than the available KV cache memory (1.00 GiB). ",
        "crash.kv-cache-too-small",
        {"asked_tokens": 10000},
        "--max-model-len 4896 (estimated",
    ),
    Case(
        "S02",
        OOM.format(asked="72.00 MiB", total="39.56 GiB", free="60.81 MiB"),
        "crash.oom",
        {"asked_gib": 0.0703, "total_gib": 39.56, "free_gib": 0.0594},
        "a tenth of the target",
    ),
    Case(
        "S02",
        OOM.format(asked="224.00 MiB", total="79.25 GiB", free="10.00 MiB"),
        "crash.oom-weights",
        {"asked_gib": 0.2188},
        "a smaller speculator",
        (
            'File "/x/vllm/v1/worker/gpu_model_runner.py", line 5100, in load_model',
            "self.drafter.load_model(self.model)",
        ),
    ),
    Case(
        "S03",
        "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine.",
        "crash.no-kv-cache",
        fix="a smaller speculator",
    ),
    Case(
        "S04",
        "ValueError: Free memory on device cuda:0 (19.77/22.05 GiB) on startup is less than desired GPU memory utilization (0.9, 19.84 GiB). "
        "Decrease GPU memory utilization or reduce GPU memory used by other processes.",
        "crash.gpu-busy",
        {"free_gib": 19.77, "total_gib": 22.05, "utilization": 0.9, "asked_gib": 19.84},
        "--gpu-memory-utilization 0.87",
    ),
    Case(
        "S04",
        "ValueError: Free memory on device (0.22/30.3 GiB) on startup is less than desired GPU memory utilization (0.9, 27.27 GiB).",
        "crash.gpu-busy",
        {"free_gib": 0.22},
        "end what holds the GPU",
    ),
    Case(
        "S06",
        "ValueError: There is no module or parameter named 'd2t' in LlamaForCausalLM. The available parameters are: {}",
        "crash.head-as-model",
    ),
    Case(
        "S08",
        "RuntimeError: CUDA out of memory occurred when warming up sampler with 1024 dummy requests. Please try lowering `max_num_seqs` or "
        "`gpu_memory_utilization` when initializing the engine.",
        "crash.oom-sampler",
        {"sequences": 1024},
        "--max-num-seqs 16",
    ),
    Case(
        "S10",
        "ggml_backend_cuda_buffer_type_alloc_buffer: cudaMalloc failed: out of memory",
        "crash.oom",
        fix="a tenth of the target",
    ),
    Case(
        "S39", OOM.format(asked="1002.00 MiB", total="23.64 GiB", free="400.50 MiB"), "crash.oom", {"asked_gib": 0.9785}
    ),
    # Arguments
    Case(
        "S11",
        "vllm serve: error: unrecognized arguments: --speculative-model acme/tiny-1b --num-speculative-tokens 5",
        "crash.old-arguments",
        fix="--speculative-model → --spec-model NAME",
    ),
    Case(
        "S11",
        "api_server.py: error: unrecognized arguments: --use-v2-block-manager",
        "crash.old-arguments",
        fix="it is gone",
    ),
    Case(
        "S11", "TypeError: LLM.__init__() got an unexpected keyword argument 'speculative_model'", "crash.old-arguments"
    ),
    Case(
        "S12",
        "vllm serve: error: argument --speculative-config/-sc: Value {method: mtp} cannot be converted to <function loads at 0x7f>.",
        "crash.speculative-json",
        fix="--spec-method",
    ),
    Case(
        "S12",
        "error: argument --speculative-config/-sc: Value {'method':'ngram'} cannot be converted to <function loads at 0x7f>.",
        "crash.speculative-json",
        fix='\'{"method":"ngram"}\'',
    ),
    Case(
        "S12",
        'error: argument --speculative-config: invalid loads value: \'\\{\\"method\\":\\"mtp\\"\\}\'',
        "crash.speculative-json",
        fix="no JSON",
    ),
    Case(
        "S12",
        "error: argument --speculative-config/-sc: Value ngram cannot be converted to <function loads at 0x7f>.",
        "crash.speculative-json",
    ),
    Case(
        "S14",
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for SpeculativeConfig\nmethod\n  Input should be 'ngram', 'medusa', "
        "'mlp_speculator', 'draft_model', 'suffix', 'eagle' or 'eagle3' [type=literal_error, input_value='eagle2', input_type=str]",
        "crash.unknown-method",
        {"method_name": "eagle2"},
        "--method eagle",
    ),
    Case(
        "S14",
        "NotImplementedError: Unsupported speculative method: '[gram]'",
        "crash.unknown-method",
        fix="--method ngram",
    ),
    Case(
        "S15",
        "ValueError: A speculative model was provided, but `num_speculative_tokens` was not provided",
        "crash.tokens-missing",
        fix="-k 4",
    ),
    Case(
        "S15",
        "ValueError: num_speculative_tokens must be provided with speculative model unless the draft model config contains an n_predict parameter.",
        "crash.tokens-missing",
        fix="-k 4",
    ),
    Case(
        "S15",
        "1 validation error for SpeculativeConfig\nnum_speculative_tokens\n  Input should be greater than 0 [type=greater_than, input_value=0, input_type=int]",
        "crash.tokens-value",
        {"k": 0},
    ),
    Case(
        "S15",
        "1 validation error for SpeculativeConfig\nnum_speculative_tokens\n  Input should be a valid integer, got a number with a fractional part [type=int_from_float, input_value=2.5, input_type=float]",
        "crash.tokens-value",
        {"k": 2.5},
    ),
    Case(
        "S17",
        "ValueError: speculative_max_model_len=12288 cannot be larger than draft_max_model_len=2048",
        "crash.draft-length",
        {"limit_tokens": 2048},
    ),
    Case(
        "S18",
        "ValueError: max_num_scheduled_tokens is set to -1792 based on the speculative decoding settings, which does not allow any tokens to "
        "be scheduled. Increase max_num_batched_tokens to accommodate the additional draft token slots, or decrease num_speculative_tokens.",
        "crash.token-budget",
        {"left_tokens": -1792},
        "a smaller -k",
    ),
    Case(
        "S18",
        "ValueError: VllmConfig does not have enough slots to schedule a token and support the speculative decoding settings. Got "
        "max_num_batched_tokens=8 and scheduled_token_delta=16.",
        "crash.token-budget",
        {"budget_tokens": 8, "taken_tokens": 16},
    ),
    Case(
        "S19",
        "ValueError: speculative_draft_tensor_parallel_size=4 cannot be other value than 1",
        "crash.draft-parallel",
        {"draft_size": 4},
        "leave draft_tensor_parallel_size out",
    ),
    Case(
        "S19",
        "ValueError: speculative_draft_tensor_parallel_size=3 cannot be other value than 1 or target model tensor_parallel_size",
        "crash.draft-parallel",
    ),
    Case(
        "S19",
        "ValueError: Currently, 'draft_tensor_parallel_size' and 'tensor_parallel_size' must be the same. Got 1 and 2. Please pass "
        "'draft_tensor_parallel_size' in the speculative_config.",
        "crash.draft-parallel",
        {"draft_size": 1, "target_size": 2},
    ),
    Case(
        "S21",
        "NotImplementedError: Speculative decoding with draft model is not supported yet. Please consider using other speculative decoding "
        "methods such as ngram, medusa, eagle, or deepseek_mtp.",
        "crash.old-version",
        fix="pip install",
    ),
    Case(
        "S21",
        "NotImplementedError: Model Runner V2 does not yet support: speculative method 'medusa'",
        "crash.runner",
        fix="unset VLLM_USE_V2_MODEL_RUNNER",
    ),
    # Pairing
    Case(
        "S22",
        "ValueError: Target and draft model should have the same vocabulary size. Target model vocab_size=152064. Draft model "
        "vocab_size=151936. Using models with different tokenizers can cause out-of-bounds errors during speculative decoding.",
        "crash.vocabulary",
        {"target_vocabulary": 152064, "draft_vocabulary": 151936},
        "use_heterogeneous_vocab",
    ),
    Case(
        "S23",
        "ValueError: Target and draft model should have the same vocabulary size. Target model vocab_size=128256. Draft model vocab_size=32000. ",
        "crash.vocabulary",
        {"target_vocabulary": 128256, "draft_vocabulary": 32000},
        "the target's own family",
    ),
    Case(
        "S23",
        "draft model vocab must match target model to use speculation but token 0 content differs",
        "crash.vocabulary",
        {"first_different_token": 0},
    ),
    Case(
        "S29",
        "ValueError: Marlin does not support weight_bits = uint4b8. Only types = [] are supported (for group_size = 128).",
        "crash.quantization",
    ),
    # The hub
    Case(
        "S30",
        "huggingface_hub.errors.GatedRepoError: 403 Client Error. (Request ID: Root=1-66)\n\nCannot access gated repo for url "
        "https://hub.example/acme/llama-8b/resolve/main/config.json.\nAccess to model acme/llama-8b is restricted and you are not in the "
        "authorized list. Visit its page to ask for access.",
        "crash.hub-consent",
        {"repository_name": "acme/llama-8b"},
        "accept the licence",
    ),
    Case(
        "S30",
        "huggingface_hub.errors.GatedRepoError: 401 Client Error. (Request ID: Root=1-66)\n\nCannot access gated repo for url "
        "https://hub.example/acme/gemma-4b/resolve/main/config.json.\nAccess to model acme/gemma-4b is restricted. You must have access to "
        "it and be authenticated to access it. Please log in.",
        "crash.hub-login",
        {"repository_name": "acme/gemma-4b"},
        "hf auth login",
    ),
    Case(
        "S30",
        "OSError: You are trying to access a gated repo.\nMake sure to have access to it.",
        "crash.hub-gated",
        fix="hf auth login",
    ),
    Case(
        "S32",
        "/x/huggingface_hub/file_download.py:800: UserWarning: Not enough free disk space to download the file. The expected file size is: "
        "3945.44 MB. The target location /x only has 3421.60 MB free disk space.",
        "crash.disk-full",
        {"needed_gib": 3.853, "free_gib": 3.3414},
        "HF_HOME",
    ),
    Case("S32", "OSError: [Errno 28] No space left on device: '/x/hub/blobs/ab.incomplete'", "crash.disk-full"),
    Case(
        "S33",
        "huggingface_hub.errors.OfflineModeIsEnabled: Cannot reach https://hub.example/api/models/acme/draft-1b: offline mode is enabled. "
        "To disable it, please unset the `HF_HUB_OFFLINE` environment variable.",
        "crash.hub-offline",
        {"repository_name": "acme/draft-1b"},
        "speccli pull",
    ),
    Case(
        "S33",
        "ValueError: Invalid repository ID or local directory specified: 'acme/draft-1b'.\nPlease verify the following requirements:\n"
        "1. Provide a valid Hugging Face repository ID.",
        "crash.no-such-model",
        {"repository_name": "acme/draft-1b"},
        "speccli pull",
    ),
    Case(
        "S35",
        "ValueError: As of transformers v4.44, default chat template is no longer allowed, so you must provide a chat template if the "
        "tokenizer does not define one.",
        "crash.chat-template",
        fix="chat template",
    ),
    # Heads
    Case(
        "S36",
        "ValueError: Unrecognized model in acme/medusa-vicuna-7b. Should have a `model_type` key in its config.json.",
        "crash.no-model-type",
        {"model_name": "acme/medusa-vicuna-7b"},
        "--method medusa",
    ),
    Case(
        "S38",
        "AssertionError: Attempted to load weight (torch.Size([128, 128])) into parameter (torch.Size([4096, 4096]))",
        "crash.shapes",
        {"file_shape_text": "128, 128", "model_shape_text": "4096, 4096"},
        "hidden_size",
    ),
    Case(
        "S38",
        "RuntimeError: mat1 and mat2 shapes cannot be multiplied (1x128 and 96x96)",
        "crash.widths",
        {"left_text": "1x128", "right_text": "96x96"},
    ),
    Case(
        "S40",
        "AssertionError: Attempted to load weight (torch.Size([3584])) into parameter (torch.Size([3584, 7168]))",
        "crash.shapes",
        {"file_shape_text": "3584", "model_shape_text": "3584, 7168"},
    ),
    Case(
        "S41",
        "ValueError: Model architectures ['EagleQwen2ForCausalLM'] are not supported for now. Supported architectures: dict_keys(['A', 'B'])",
        "crash.architecture",
        {"architecture_name": "EagleQwen2ForCausalLM"},
        "EAGLE-3 head",
    ),
    Case(
        "S42",
        "ValueError: There is no module or parameter named 'embed_tokens' in LlamaForCausalLM. The available parameters belonging to  are: {}",
        "crash.head-as-model",
        {"tensor_name": "embed_tokens", "class_name": "LlamaForCausalLM"},
        "--method eagle",
    ),
    Case("S42", "KeyError: 'embed_tokens.weight'", "crash.head-as-model", fix="--method eagle"),
    Case(
        "S45",
        "ValueError: Eagle3 is only supported for ['llama', 'qwen', 'minicpm', 'gpt_oss'] models. Got "
        "self.target_model_config.hf_text_config.model_type='gemma3_text'",
        "crash.no-hidden-states",
        {"model_type_name": "gemma3_text"},
        "--method draft_model",
    ),
    Case(
        "S45",
        "RuntimeError: Model does not support EAGLE3 interface but aux_hidden_state_outputs was requested",
        "crash.no-hidden-states",
    ),
    Case("S45", "RuntimeError: Model does not support EAGLE3 interface", "crash.no-hidden-states"),
    Case(
        "S46",
        "RuntimeError: Error(s) in loading state_dict for Model:\n\tsize mismatch for lm_head.weight: copying a param with shape "
        "torch.Size([32000, 4096]) from checkpoint, the shape in current model is torch.Size([128256, 4096]).",
        "crash.draft-vocabulary",
        {"file_rows": 32000, "model_rows": 128256},
        '"draft_vocab_size": 32000',
    ),
    Case(
        "S47",
        "/x/torchinductor/ab.py:30: unknown: block: [0,0,0], thread: [12,0,0] Assertion `index out of bounds: 0 <= tmp5 < 2048` failed.",
        "crash.position-table",
        {"table_size": 2048},
    ),
    Case("S47", "RuntimeError: CUDA error: device-side assert triggered", "crash.position-table"),
    Case(
        "S49",
        "ValueError: There is no module or parameter named 't2d' in Eagle3LlamaForCausalLM. The available parameters are: {}",
        "crash.head-as-model",
    ),
    # MTP, DFlash, hybrids
    Case(
        "S50",
        "ValueError: MTP speculative decoding layer 78 weights missing from checkpoint. The checkpoint may have been quantized without "
        "including the MTP layers.",
        "crash.mtp-weights",
        {"layer": 78},
        "--speculator",
    ),
    Case("S52", "ValueError: num_speculative_tokens was provided without speculative model.", "crash.no-mtp"),
    Case("S52", "NotImplementedError: Unsupported speculative method: 'mtp'", "crash.no-mtp", fix="--method ngram"),
    Case(
        "S53",
        "ValueError: max_num_seqs (1024) exceeds available Mamba cache blocks (856). Each decode sequence requires one Mamba cache block, "
        "so CUDA graph capture cannot proceed. Please lower max_num_seqs to at most 856 or increase gpu_memory_utilization.",
        "crash.state-blocks",
        {"asked_sequences": 1024, "limit_sequences": 856},
        "--max-num-seqs 856",
    ),
    Case(
        "S55",
        "torch.AcceleratorError: CUDA error: an illegal memory access was encountered",
        "crash.illegal-access",
        fix="enable_prefix_caching false",
    ),
    Case(
        "S56",
        "ValueError: No valid attention backend found for cuda with AttentionSelectorConfig(head_size=256, dtype=torch.bfloat16, "
        "kv_cache_dtype='fp8'). Reasons: {FLASH_ATTN: [kv_cache_dtype not supported], FLASHINFER: [non-causal attention not supported]}.",
        "crash.attention-backend",
        {"head_size": 256, "kv_cache_dtype_name": "fp8"},
        "attention_backend",
    ),
    Case(
        "S58",
        "AssertionError: All drafting layers should belong to the same kv cache group",
        "crash.draft-layers",
        fix="full attention",
    ),
    # Features
    Case(
        "S59",
        "ValueError: The min_p and logit_bias sampling parameters are not yet supported with speculative decoding.",
        "crash.sampling",
        fix="min_p 0",
    ),
    Case(
        "S59",
        "ValueError: Custom logits processors are not supported when speculative decoding is enabled.",
        "crash.logits-processors",
    ),
    Case(
        "S60",
        "ValueError: Consider increasing max_num_batched_tokens or decreasing num_speculative_tokens: max_num_seqs=128, num_speculative_tokens=5, max_num_batched_tokens=256",
        "crash.lora-budget",
        {"sequences": 128},
        "max_num_batched_tokens 768",
    ),
    Case(
        "S61",
        "NotImplementedError: Pipeline parallelism is not supported for this model. Supported models implement the `SupportsPP` interface.",
        "crash.pipeline",
        fix="tensor_parallel_size",
    ),
    Case("S61", "ValueError: DeepseekV3ForCausalLM does not support mtp with pipeline parallelism", "crash.pipeline"),
    Case(
        "S62",
        "(EngineCore_DP0 pid=9) ERROR 11-29 18:50:00 [backend_xgrammar.py:202] Failed to advance FSM for request chatcmpl-1 for tokens 248069. Please file an issue.",
        "crash.grammar",
        {"tokens_text": "248069"},
        "-k",
    ),
    Case(
        "S62",
        "ERROR 11-29 18:50:00 [scheduler.py:2190] Unexpected: grammar rejected tokens [13] for request 7. Terminating request.",
        "crash.grammar",
    ),
    Case(
        "S64",
        "NotImplementedError: Speculative Decoding with draft models or parallel drafting does not support M-RoPE yet",
        "crash.mrope",
    ),
    Case(
        "S65",
        "ValueError: Currently, async scheduling is only supported with EAGLE/MTP/Draft Model/NGram GPU/DSpark/DFlash kind of speculative decoding",
        "crash.async-scheduling",
        fix="leave --async-scheduling out",
    ),
    Case(
        "S65",
        "WARNING 11-29 18:50:00 [vllm.py:2520] Truncating max_cudagraph_capture_size to 4",
        "crash.graph-size",
        {"capture_tokens": 4},
        "max_num_seqs x (k + 1)",
    ),
    Case(
        "S65",
        "AssertionError: expected size 7==9, stride 5120==5120 at dim=0",
        "crash.compile-cache",
        {"cached_size": 7, "asked_size": 9},
        "torch_compile_cache",
    ),
    Case(
        "S66",
        "ImportError: Arctic Inference is required for suffix decoding. Install via `pip install arctic-inference==0.1.1`.",
        "crash.suffix-package",
        fix="pip install arctic-inference==0.1.1",
    ),
    Case("S67", "AssertionError: Stat logging disabled", "crash.statistics-off", fix="disable_log_stats"),
    # Batch files
    Case(
        "S69",
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for BatchRequestInput\n  Invalid JSON: key must be a string at line 1 "
        "column 2 [type=json_invalid, input_value=\"{'custom_id': 'a'}\", input_type=str]",
        "crash.batch-line",
        {"column": 2},
        "speccli batch",
    ),
    Case(
        "S73",
        "json.decoder.JSONDecodeError: Unterminated string starting at: line 1 column 22 (char 21)",
        "crash.batch-line",
    ),
    Case(
        "S70",
        "openai.BadRequestError: This model's maximum context length is 16384 tokens. However, you requested 122946 tokens (122846 in the messages).",
        "crash.request-too-long",
        {"limit_tokens": 16384, "asked_tokens": 122946},
        "--max-model-len 122946",
    ),
    Case(
        "S70",
        "vllm.exceptions.VLLMValidationError: This model's maximum context length is 1024 tokens. However, your prompt contains at least 1025 "
        "input tokens, which exceeds this limit even without any output tokens.",
        "crash.request-too-long",
        {"limit_tokens": 1024, "asked_tokens": 1025},
    ),
    # The CPU
    Case(
        "S76",
        "ValueError: Available memory on node 0 (3.1/15.6 GiB) on startup is less than desired CPU memory utilization (0.9, 14.04 GiB). On the "
        "CPU backend, the `--gpu-memory-utilization` flag controls the share.",
        "crash.cpu-memory",
        {"free_gib": 3.1, "total_gib": 15.6, "utilization": 0.9},
        "VLLM_CPU_KVCACHE_SPACE=1",
    ),
    Case("S76", "ChildProcessError: worker died (-9)", "crash.killed", fix="kv_cache_gib"),
    Case(
        "S76",
        "ERROR 11-29 18:50:00 [multiproc_executor.py:315] Worker proc VllmWorker-0 died unexpectedly (exit code: -9), shutting down executor.",
        "crash.killed",
    ),
    Case(
        "S76",
        "ValueError: invalid literal for int() with base 10: '0.5'",
        "crash.kv-space",
        {"value_text": "0.5"},
        "VLLM_CPU_KVCACHE_SPACE=1",
        ('File "/x/vllm/envs.py", line 700, in <lambda>', 'int(os.environ.get("VLLM_CPU_KVCACHE_SPACE", "0"))'),
    ),
    Case(
        "S78",
        "(Worker pid=3) WARNING 11-29 18:42:23 [cpu_worker.py:120] Speculative decoding on CPU without Intel OpenMP in LD_PRELOAD will cause "
        "significant performance loss. Please follow the section `set LD_PRELOAD`.",
        "crash.no-openmp",
        fix="intel-openmp",
    ),
    # The GPU
    Case(
        "S80",
        "RuntimeError: The NVIDIA driver on your system is too old (found version 11040). Please update your GPU driver.",
        "crash.driver-old",
        {"driver_cuda_name": "11040"},
        "update the NVIDIA driver",
    ),
    Case("S80", "RuntimeError: CUDA error: device kernel image is invalid", "crash.driver-old"),
    Case(
        "S82",
        "ValueError: Bfloat16 is only supported on GPUs with compute capability of at least 8.0. Your Tesla T4 GPU has compute capability 7.5. "
        "You can use float16 instead by explicitly setting the `dtype` flag in CLI, for example: --dtype=half.",
        "crash.bfloat16",
        {"gpu_name": "Tesla T4", "capability_name": "7.5"},
        "--dtype float16",
    ),
    Case(
        "S83",
        "ValueError: invalid literal for int() with base 10: 'MIG-377e0049-0000'\n"
        "ValueError: Model architectures ['LlamaForCausalLM'] failed to be inspected. Please check the logs for more details.",
        "crash.mig",
        {"device_name": "MIG-377e0049-0000"},
        "CUDA_VISIBLE_DEVICES=0",
    ),
    # Silent faults that end in a message
    Case("X4", "RuntimeError: mat1 and mat2 shapes cannot be multiplied (4x128 and 96x96)", "crash.widths"),
    Case("X5", "RuntimeError: shape '[-1, 384]' is invalid for input of size 256", "crash.aux-layers", {"width": 384}),
    Case(
        "X6",
        "AssertionError",
        "crash.medusa-token-map",
        frames=(
            'File "/x/vllm/model_executor/models/medusa.py", line 250, in load_weights',
            "assert self.token_map is not None",
        ),
    ),
    Case(
        "X9",
        "ValueError: Following weights were not initialized from checkpoint: {'token_map'}",
        "crash.medusa-weights-track",
        fix="enable_weights_track",
        frames=('File "/x/vllm/model_executor/models/medusa.py", line 250, in load_weights',),
    ),
    Case(
        "X10",
        "RuntimeError: DeepSeekR1ReasoningParser reasoning parser could not locate think start/end tokens in the tokenizer!",
        "crash.reasoning-parser",
        fix="reasoning_parser: none",
        frames=('File "/x/vllm/reasoning/basic_parsers.py", line 64, in __init__',),
    ),
    Case(
        "X7",
        "ValueError: Following weights were not initialized from checkpoint: {'blocks.3.layers.0.weight', 'lm_heads.3.weight'}",
        "crash.medusa-heads",
        {"first_missing_head": 3},
        "-k",
    ),
)

SILENT = {
    "S24": "slower than without: told by run.does-not-pay and run.k-too-large, from the statistics",
    "S25": "no gain at many: told by run.large-batch, from the metrics",
    "S26": "greedy output that differs in its bits: no fault, and no line of a log tells of it",
    "S68": "two definitions of acceptance: told by run.acceptance, with the formulas",
    "S71": "duplicate ids in a batch: refused by speccli batch before a run",
    "S74": "errors inside a finished batch: told by run.failed-requests",
    "X1": "a dropped bias: seen by the pair check; afterwards run.low-acceptance",
    "X2": "dropped biases of Medusa: seen by the pair check; afterwards run.low-acceptance",
    "X3": "a missing map of the vocabulary: seen by the pair check; afterwards run.nothing-accepted",
    "X8": "a draft with fewer positions: seen by the pair check",
}
"""Cases that leave nothing in a log, and who tells of them."""
