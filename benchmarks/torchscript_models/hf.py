"""Models of transformers, small, as traces."""

from functools import partial

from torch import nn
from zoo_models import hf_inputs
from zoo_models.hf import small_model

from torchscript_models.registry import Entry, Inputs, traced

ROWS = {
    "text": "bert bert:BertForMaskedLM roberta electra distilbert albert deberta gpt2 gpt2:GPT2LMHeadModel llama "
    "qwen2 mistral opt gpt_neox mamba phi gemma squeezebert mpnet xlm-roberta fnet convbert bloom falcon",
    "text-to-text": "t5 t5:T5EncoderModel pegasus marian",
    "image": "vit deit beit swin convnext resnet segformer dinov2 mobilevit poolformer",
    "waveform": "wav2vec2 hubert",
    "features-to-text": "whisper",
    "image-text": "clip",
}
"""Types by the recipe of their inputs; `type:Class` selects a class with a head."""


def entries() -> list[Entry]:
    """One trace per type of the table."""
    return [
        Entry(f"hf-{item.replace(':', '-')}-traced", "transformers", partial(_build, item, recipe), traced)
        for recipe, items in ROWS.items()
        for item in items.split()
    ]


def _build(item: str, recipe: str) -> tuple[nn.Module, Inputs]:
    """A small model that returns tuples without a cache, as traces need it."""
    config, model = small_model(item)
    config.return_dict = False
    config.use_cache = False
    return model, hf_inputs.make("text" if item.endswith("EncoderModel") else recipe, config)
