"""The transformers model types in the zoo: family, input recipe, types (`type:Class` selects a class with a head)."""

from __future__ import annotations

ROWS: tuple[tuple[str, str, str], ...] = (
    (
        "audio",
        "features",
        "lasr_ctc lasr_encoder moss_transcribe_diarize_audio nemotron3_5_transcribe_asr_audio "
        "nemotron3_5_transcribe_audio nemotron3_diarization nemotron3_diarization_audio "
        "nemotron_asr_streaming_encoder parakeet_ctc parakeet_encoder qwen2_audio_encoder univnet "
        "voxtral_encoder wav2vec2-bert",
    ),
    (
        "audio",
        "features-to-text",
        "canary cohere_asr nemotron3_5_asr nemotron_asr_streaming parakeet_rnnt parakeet_tdt whisper",
    ),
    (
        "audio",
        "waveform",
        "audio-spectrogram-transformer dac data2vec-audio encodec hubert mimi mimi_encoder "
        "pocket_tts_audio_tokenizer sew sew-d unispeech unispeech-sat wav2vec2 wav2vec2-conformer wavlm "
        "xcodec",
    ),
    (
        "audio",
        "waveform-to-text",
        "moonshine",
    ),
    (
        "decoder",
        "text",
        "apertus arcee bert-generation biogpt bitnet bloom codegen cohere cohere2 cpmant ctrl cwm "
        "diffllama ernie4_5 exaone4 falcon fuyu gemma gemma2 gemma3_text gemma3n_text gemma4 gemma4_text "
        "gemma4_unified gemma4_unified_text git glm glm4 gpt-sw3 gpt2 gpt_bigcode gpt_neo gpt_neox "
        "gpt_neox_japanese gptj granite granite_swa helium hrm_text hunyuan_v1_dense hyperclovax jais2 "
        "llama minicpm3 ministral ministral3 mistral modernbert-decoder mpt nanochat olmo olmo2 olmo3 "
        "opt persimmon phi phi3 qwen2 qwen3 seed_oss smollm3 stablelm starcoder2 vaultgemma "
        "xglm xlnet youtu",
    ),
    (
        "detection",
        "image",
        "conditional_detr dab-detr deformable_detr detr rf_detr table-transformer yolos",
    ),
    (
        "detection",
        "image-text",
        "owlv2 owlvit",
    ),
    (
        "encoder",
        "text",
        "albert bert big_bird camembert convbert data2vec-text deberta deberta-v2 distilbert electra "
        "ernie esm esmc eurobert flaubert fnet funnel gte ibert jina_embeddings_v3 layoutlm longformer "
        "luke megatron-bert mobilebert modernbert mpnet mra neomme nomic_bert nystromformer reformer "
        "rembert roberta roberta-prelayernorm roc_bert roformer squeezebert tapas ultrabert xlm "
        "xlm-roberta xlm-roberta-xl xmod yoso",
    ),
    (
        "encoder-decoder",
        "text",
        "bart bigbird_pegasus fastspeech2_conformer fsmt led mbart mvp plbart",
    ),
    (
        "encoder-decoder",
        "text-to-text",
        "blenderbot blenderbot-small longt5 m2m_100 marian mt5 pegasus pegasus_x prophetnet t5 umt5",
    ),
    (
        "language",
        "boxes",
        "bros",
    ),
    (
        "language",
        "embeds",
        "canine kyutai_speech_to_text nemotron3_5_transcribe_word_timestamp voxtral_realtime_encoder",
    ),
    (
        "language",
        "text",
        "clip_text_model cosmos3_edge_text dpr embedding_gemma2 embedding_gemma2_text evolla "
        "gradium_phonon_tts higgs_audio_v2 imagegpt layoutlmv3 lilt markuplm molmo2_text "
        "muse_glimmer_text pocket_tts qwen2_5_vl_text qwen2_vl_text qwen3_vl_text "
        "sam3_lite_text_text_model splinter tipsv2_text_model visual_bert vits",
    ),
    (
        "mixture of experts",
        "text",
        "afmoe aria_text axk1 axk2 cohere2_moe deepseek_v3 deepseek_v32 deepseek_v4 doge ernie4_5_moe "
        "exaone_moe flex_olmo flint glm4_moe glm4_moe_lite glm5_next_text glm_moe_dsa gpt_oss granitemoe "
        "granitemoe_swa granitemoeshared hunyuan_v1_moe hy_v3 hy_v4 inkling_text jetmoe kolibri1 laguna "
        "llama4_text longcat_flash mellum mimo_v2_flash minimax_m2 minimax_m3_vl_text mistral_large4_text "
        "mixtral muse_spark_text olmoe phimoe qwen2_moe qwen3_moe qwen3_vl_moe_text "
        "solar_open zaya",
    ),
    (
        "mixture of experts",
        "text-to-text",
        "nllb-moe switch_transformers",
    ),
    (
        "multimodal",
        "clip-text",
        "xclip",
    ),
    (
        "multimodal",
        "image-text",
        "aimv2 altclip blip bridgetower chinese_clip clip clipseg groupvit metaclip_2 siglip vilt "
        "vision-text-dual-encoder",
    ),
    (
        "multimodal",
        "regions",
        "lxmert",
    ),
    (
        "multimodal",
        "text",
        "aria audioflamingo3 aya_vision cohere2_vision cosmos3_edge cosmos3_omni csm deepseek_vl "
        "deepseek_vl_hybrid exaone4_5 fastspeech2_conformer_with_hifigan flava florence2 gemma3 glm5_next "
        "glmasr got_ocr2 granite_speech granite_speech_plus hyperclovax_vision_v2 idefics2 idefics3 "
        "internvl kimi_k25 kosmos-2.5 lfm2_vl lighton_ocr llama4 llava llava_next llava_next_video "
        "llava_onevision minicpm_ocr minicpmv4_6 minicpmv4_7 minimax_m3_vl mistral3 mistral_large4 mllama "
        "modernvbert moshi moss_transcribe_diarize muse_glimmer musicflamingo nemo_speechlm ovis2 "
        "paddleocr_vl paligemma phi4_multimodal qianfan_ocr qwen2_5_omni_thinker qwen2_5_vl qwen2_audio "
        "qwen2_vl qwen3_5 qwen3_5_moe qwen3_asr qwen3_omni_moe_thinker qwen3_vl qwen3_vl_moe smolvlm "
        "step3p7 tipsv2 ultravbert unlimited_ocr video_llama_3 video_llava vipllava voxtral",
    ),
    (
        "multimodal",
        "text-to-text",
        "t5gemma t5gemma2",
    ),
    (
        "multimodal",
        "video-text",
        "videoprism",
    ),
    (
        "state space",
        "text",
        "bailing_hybrid beam falcon_h1 falcon_mamba kimi_linear lfm2 mamba mamba2 minimax nemotron_h "
        "olmo_hybrid qwen3_5_moe_text qwen3_5_text qwen3_next recurrent_gemma rwkv xlstm",
    ),
    (
        "time series",
        "series",
        "informer time_series_transformer",
    ),
    (
        "time series",
        "series-plain",
        "patchtsmixer patchtst timesfm2_5",
    ),
    (
        "vision",
        "clip",
        "timesformer videomae vivit",
    ),
    (
        "vision",
        "flat-patches",
        "siglip2_vision_model",
    ),
    (
        "vision",
        "image",
        "aimv2_vision_model beit bit chinese_clip_vision_model clip_vision_model convnext convnextv2 cvt "
        "data2vec-vision deit dinov2 dinov2_with_registers dinov3_convnext dinov3_vit dpt focalnet glpn "
        "hgnet_v2 hiera idefics3_vision ijepa internvl_vision levit maskformer-swin mgp-str mlcd "
        "mlcd_vision_model mobilenet_v1 mobilenet_v2 mobilevit mobilevitv2 pixio pixtral poolformer "
        "pp_ocrv6_small_rec pp_ocrv6_tiny_rec pvt pvt_v2 qianfan_ocr_vision radio regnet resnet sam "
        "sam3_vision_model sam3_vit_model sam_hq sam_hq_vision_model sam_vision_model sapiens2 segformer "
        "siglip_vision_model smolvlm_vision swiftformer swin2sr swinv2 textnet tipsv2_vision_model vit "
        "vit_mae vit_msn vitdet",
    ),
    (
        "vision",
        "pairs",
        "lightglue",
    ),
    (
        "vision",
        "patches",
        "cohere_compass_vision exaone4_5_vision glm4v_moe_vision glm4v_vision glm5_next_vision "
        "glm_ocr_vision qwen2_5_vl_vision qwen3_5_moe_vision qwen3_5_vision qwen3_vl_moe_vision "
        "qwen3_vl_vision qwen4_exp_vision",
    ),
    (
        "vision",
        "patches-2d",
        "glm_image_vision",
    ),
    (
        "vision",
        "video",
        "videoprism_vision_model",
    ),
    (
        "vision",
        "vision-patches",
        "cosmos3_edge_vision hunyuan_vl_vision",
    ),
)
