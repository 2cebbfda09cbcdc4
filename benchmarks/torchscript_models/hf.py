"""Models of transformers, small, as traces."""

from functools import partial

from torch import nn
from zoo_models import hf_inputs
from zoo_models.hf import small_model

from torchscript_models.registry import Entry, Inputs, traced

ROWS = {
    "text": "bert bert:BertForMaskedLM roberta electra distilbert albert deberta gpt2 gpt2:GPT2LMHeadModel llama "
    "qwen2 mistral opt gpt_neox mamba phi gemma squeezebert mpnet xlm-roberta fnet convbert xglm "
    "falcon mamba2 clip_text_model",
    "text-to-text": "t5 t5:T5EncoderModel pegasus marian",
    "image": "vit deit beit swinv2 pvt convnext resnet segformer dinov2 mobilevit poolformer clip_vision_model levit",
    "waveform": "wav2vec2 hubert",
    "features-to-text": "whisper",
}
"""Types by the recipe of their inputs; `type:Class` selects a class with a head."""
UNCOUNTED = ("fnet",)
"""Types with Fourier transforms, which torch's counter leaves out."""


def entries() -> list[Entry]:
    """One trace per type of the table."""
    return [
        Entry(
            f"hf-{item.replace(':', '-')}-traced",
            "transformers",
            partial(_build, item, recipe),
            traced,
            counted=item not in UNCOUNTED,
        )
        for recipe, items in ROWS.items()
        for item in items.split()
    ]


def _build(item: str, recipe: str) -> tuple[nn.Module, Inputs]:
    """A small model that returns no cache, which a trace cannot."""
    config, model = small_model(item)
    for part in model.modules():
        if hasattr(part, "config"):
            part.config.use_cache = False
    return model, hf_inputs.make("text" if item.endswith("EncoderModel") else recipe, config)
