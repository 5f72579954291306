# ruff: noqa: SIM905 - a literal would take a line for each of the 350 names
"""What vLLM 0.32 has classes for, taken from its source; a test compares it with the installed vLLM."""

SPECULATORS = {
    "eagle": frozenset(
        """
        EagleCohereForCausalLM EagleDeepSeekMTPModel EagleLlama4ForCausalLM EagleLlamaForCausalLM
        EagleMiniCPMForCausalLM EagleMistralForCausalLM EagleMistralLarge3ForCausalLM
        """.split()
    ),
    "eagle3": frozenset(
        """
        Eagle3DeepseekV2ForCausalLM Eagle3DeepseekV3ForCausalLM Eagle3LlamaForCausalLM
        Eagle3MiniMaxM2ForCausalLM Eagle3Qwen2_5vlForCausalLM Eagle3Qwen3ForCausalLM Eagle3Qwen3vlForCausalLM
        LlamaForCausalLMEagle3 PEagleDraftModel PeagleLlamaForCausalLM PeagleQwen3ForCausalLM
        """.split()
    ),
    "dflash": frozenset(
        """
        DFlash2DraftModel DFlashDraftModel DFlashLagunaForCausalLM DFlashMuseGlimmerAssistantModel
        LiLiCorrDraftModel MuseGlimmerAssistantModel
        """.split()
    ),
    "dspark": frozenset(
        """
        DSparkDraftModel DSparkV41DraftModel Gemma4DSparkModel K3DSparkModel Qwen3DSparkModel
        Qwen3OmniDSparkModel
        """.split()
    ),
    "medusa": frozenset(
        """
        MedusaModel
        """.split()
    ),
    "mtp": frozenset(
        """
        BailingMoeV25MTPModel BailingMoeV3MTPModel DeepSeekMTPModel DeepSeekV4MTPModel DeepseekV32MTPModel
        Dots3NoteMTPModel ErnieMTPModel Exaone4_5_MTP ExaoneMoeMTP Gemma4MTPModel Glm4MoeLiteMTPModel
        Glm4MoeMTPModel Glm5NextMTPModel GlmOcrMTPModel HYV3MTPModel HYV4MTPModel InklingMTPModel
        InternS2MobiusMTP KimiK3MTPModel LongCatFlashMTPModel MiMoMTPModel MiMoV2MTPModel MiMoV2OmniMTPModel
        MiniMaxM3MTP NemotronHMTPModel OpenPanguMTPModel Qwen3NextMTP Qwen3_5MTP Qwen3_5MoeMTP Qwen4ExpMTP
        Step3p5MTP
        """.split()
    ),
}
"""The architectures of `_SPECULATIVE_DECODING_MODELS`, by the method that uses them."""

WITH_HIDDEN_STATES = frozenset(
    """
    AfmoeForCausalLM ApertusForCausalLM ArceeForCausalLM Cohere2MoeForCausalLM
    CohereCompassForConditionalGeneration Cosmos3ForConditionalGeneration CwmForCausalLM DeepseekForCausalLM
    DeepseekV2ForCausalLM DeepseekV32ForCausalLM DeepseekV3ForCausalLM DeepseekV41ForCausalLM
    DeepseekV4ForCausalLM DeepseekV4ForConditionalGeneration Emu3ForConditionalGeneration Ernie4_5ForCausalLM
    Exaone4_5_ForConditionalGeneration FlexOlmoForCausalLM GPTBigCodeForCausalLM GPTNeoXForCausalLM
    Gemma4ForCausalLM Gemma4ForConditionalGeneration Gemma4UnifiedForConditionalGeneration Glm5NextForCausalLM
    Glm5NextForConditionalGeneration GlmForCausalLM GlmMoeDsaForCausalLM GptOssForCausalLM GraniteForCausalLM
    GraniteSWAForCausalLM HunYuanDenseV1ForCausalLM HunYuanMoEV1ForCausalLM HunYuanVLForConditionalGeneration
    IQuestCoderForCausalLM InternLM3ForCausalLM InternS1ProForConditionalGeneration
    InternS2MobiusForConditionalGeneration InternS2PreviewForConditionalGeneration Jais2ForCausalLM
    K2HorizonForCausalLM KimiK25ForConditionalGeneration KimiK3ForConditionalGeneration KimiLinearForCausalLM
    LLaMAForCausalLM LagunaForCausalLM LightOnOCRForConditionalGeneration Llama4ForCausalLM
    Llama4ForConditionalGeneration LlamaForCausalLM LlavaForConditionalGeneration MellumForCausalLM
    MiMoForCausalLM MiMoV2FlashForCausalLM MiMoV2ForCausalLM MiMoV2OmniForCausalLM MiniCPM3ForCausalLM
    MiniCPMForCausalLM MiniCPMV4_6ForConditionalGeneration MiniCPMV4_7ForConditionalGeneration
    MiniMaxM2ForCausalLM MiniMaxM3SparseForCausalLM MiniMaxM3SparseForConditionalGeneration Ministral3ForCausalLM
    Mistral3ForConditionalGeneration MistralForCausalLM MistralLarge3ForCausalLM MuseGlimmerForCausalLM
    MuseGlimmerForConditionalGeneration NanbeigeForCausalLM NemotronHForCausalLM NemotronHPuzzleForCausalLM
    NemotronH_Nano_Omni_Reasoning_V3 NemotronH_Nano_VL_V2 NemotronH_Omni_Reasoning_V3
    NemotronH_Super_Omni_Reasoning_V3 Olmo2ForCausalLM Olmo3ForCausalLM OlmoForCausalLM
    OpenCUAForConditionalGeneration Phi3ForCausalLM PhiForCausalLM PixtralForConditionalGeneration
    Plamo3ForCausalLM Qwen2ForCausalLM Qwen2_5_VLForConditionalGeneration Qwen3ASRForConditionalGeneration
    Qwen3ASRRealtimeGeneration Qwen3ForCausalLM Qwen3MoeForCausalLM Qwen3NextForCausalLM
    Qwen3OmniMoeForConditionalGeneration Qwen3VLForConditionalGeneration Qwen3VLMoeForConditionalGeneration
    Qwen3_5ForCausalLM Qwen3_5ForConditionalGeneration Qwen3_5MoeForCausalLM Qwen3_5MoeForConditionalGeneration
    Qwen4ExpForConditionalGeneration SarvamMLAForCausalLM SeedOssForCausalLM SmolLM3ForCausalLM
    Starcoder2ForCausalLM Step1ForCausalLM TeleChat2ForCausalLM TeleChat3ForCausalLM TeleFLMForCausalLM
    VaultGemmaForCausalLM VibeVoiceAsrForConditionalGeneration
    """.split()
)
"""Targets whose class implements SupportsEagle3: they hand their hidden states to EAGLE-3, DFlash and DSpark."""

WITHOUT_HIDDEN_STATES = frozenset(
    """
    AXK1ForCausalLM AriaForConditionalGeneration AudioFlamingo3ForConditionalGeneration
    BagelForConditionalGeneration BailingMoeForCausalLM BailingMoeV2ForCausalLM BailingMoeV2_5ForCausalLM
    BailingMoeV3ForCausalLM BailingMoeV3VLForConditionalGeneration BeeForConditionalGeneration
    Blip2ForConditionalGeneration BloomForCausalLM ChatGLMForConditionalGeneration ChatGLMModel Cohere2ForCausalLM
    Cohere2VisionForConditionalGeneration CohereAsrForConditionalGeneration CohereForCausalLM
    Cosmos3EdgeForConditionalGeneration DbrxForCausalLM DeciLMForCausalLM DeepseekOCR2ForCausalLM
    DeepseekOCRForCausalLM DeepseekVLV2ForCausalLM DiffusionGemmaForBlockDiffusion Dots3NoteForCausalLM
    DotsOCRForCausalLM Eagle2_5_VLForConditionalGeneration Ernie4_5_MoeForCausalLM
    Ernie4_5_VLMoeForConditionalGeneration Exaone4ForCausalLM ExaoneForCausalLM ExaoneMoEForCausalLM
    ExaoneMoeForCausalLM FalconForCausalLM FalconH1ForCausalLM FalconMambaForCausalLM
    FireRedASR2ForConditionalGeneration FunASRForConditionalGeneration FunAudioChatForConditionalGeneration
    GLM4VForCausalLM GPT2LMHeadModel GPTJForCausalLM Gemma2ForCausalLM Gemma3ForCausalLM
    Gemma3ForConditionalGeneration Gemma3nForCausalLM Gemma3nForConditionalGeneration GemmaForCausalLM
    Glm4ForCausalLM Glm4MoeForCausalLM Glm4MoeLiteForCausalLM Glm4vForConditionalGeneration
    Glm4vMoeForConditionalGeneration GlmAsrForConditionalGeneration GlmOcrForConditionalGeneration
    Granite4VisionForConditionalGeneration GraniteMoeForCausalLM GraniteMoeHybridForCausalLM
    GraniteMoeSWAForCausalLM GraniteMoeSharedForCausalLM GraniteSpeechForConditionalGeneration
    GraniteSpeechPlusForConditionalGeneration H2OVLChatModel HCXVisionV2ForCausalLM HYV3ForCausalLM
    HYV4ForCausalLM HfMoondream HrmTextForCausalLM HyperCLOVAXForCausalLM IQuestLoopCoderForCausalLM
    Idefics3ForConditionalGeneration InklingForCausalLM InklingForConditionalGeneration InternLM2ForCausalLM
    InternS1ForConditionalGeneration InternVLChatModel InternVLForConditionalGeneration
    IsaacForConditionalGeneration JambaForCausalLM KananaVForConditionalGeneration KeyeForConditionalGeneration
    KeyeVL1_5ForConditionalGeneration KimiVLForConditionalGeneration Lfm2ForCausalLM Lfm2MoeForCausalLM
    Lfm2VlForConditionalGeneration Llama_Nemotron_Nano_VL LlavaNextForConditionalGeneration
    LlavaNextVideoForConditionalGeneration LlavaOnevision2ForConditionalGeneration
    LlavaOnevisionForConditionalGeneration LongcatFlashForCausalLM LongcatFlashNgramForCausalLM Mamba2ForCausalLM
    MambaForCausalLM MiDashengLMModel MiniCPMO MiniCPMV MixtralForCausalLM Molmo2ForConditionalGeneration
    MolmoForCausalLM Moondream3ForCausalLM MoonshotKimiaForCausalLM MossAudioModel
    MossTranscribeDiarizeForConditionalGeneration NVLM_D NemotronForCausalLM NemotronParseForConditionalGeneration
    OPTForCausalLM OlmoHybridForCausalLM OlmoeForCausalLM OpenPanguVLForConditionalGeneration
    OpenVLAForActionPrediction OrionForCausalLM Ovis Ovis2_5 Ovis2_6ForCausalLM Ovis2_6_MoeForCausalLM
    PaddleOCRVLForConditionalGeneration PaliGemmaForConditionalGeneration PanguEmbeddedForCausalLM
    PanguProMoEV2ForCausalLM PanguUltraMoEForCausalLM Param2MoEForCausalLM Phi3VForCausalLM Phi4ForCausalLMV
    Phi4MMForCausalLM PhiMoEForCausalLM QianfanOCRForConditionalGeneration Qwen2AudioForConditionalGeneration
    Qwen2MoeForCausalLM Qwen2VLForConditionalGeneration Qwen2_5OmniForConditionalGeneration Qwen2_5OmniModel
    Qwen4ExpForCausalLM RForConditionalGeneration Rnj1ForCausalLM SarvamMoEForCausalLM SkyworkR1VChatModel
    SmolVLMForConditionalGeneration SolarForCausalLM StableLmForCausalLM Step3TextForCausalLM
    Step3VLForConditionalGeneration Step3p5ForCausalLM Step3p7ForConditionalGeneration
    StepVLForConditionalGeneration UltravoxModel UnlimitedOCRForCausalLM VoxtralForConditionalGeneration
    VoxtralRealtimeGeneration WhisperForConditionalGeneration Zamba2ForCausalLM
    """.split()
)
"""Targets whose class does not."""

MTP_MODEL_TYPES = frozenset(
    """
    bailing_hybrid deepseek_v3 deepseek_v32 deepseek_v4 dots3_note ernie4_5_moe exaone4_5 exaone_moe
    gemma4_assistant gemma4_unified_assistant glm5_next glm_moe_dsa hy_v3 hy_v4 inkling_mm_model inkling_model
    intern_s2_preview interns2_mobius kimi_k3 longcat_flash minimax_m3_vl nemotron_h nemotron_h_puzzle
    pangu_ultra_moe qwen3_5 qwen3_5_moe qwen3_5_moe_text qwen3_5_text qwen3_next qwen4_exp qwen4_exp_text step3p5
    step3p7
    """.split()
)
"""Model types of which vLLM can make an MTP speculator (`SpeculativeConfig.hf_config_override`)."""

MTP_ARCHITECTURES = frozenset(
    """
    BailingMoeV2_5ForCausalLM BailingMoeV3ForCausalLM BailingMoeV3VLForConditionalGeneration Glm4MoeForCausalLM
    Glm4MoeLiteForCausalLM GlmOcrForConditionalGeneration MiMoForCausalLM MiMoV2FlashForCausalLM MiMoV2ForCausalLM
    MiMoV2OmniForCausalLM MiniMaxM3SparseForConditionalGeneration NemotronH_Omni_Reasoning_V3
    NemotronH_Super_Omni_Reasoning_V3 Step3p5ForCausalLM Step3p7ForConditionalGeneration
    """.split()
)
"""Architectures of which it can, whatever their model type."""
