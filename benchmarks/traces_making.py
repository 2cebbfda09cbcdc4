"""Write a trace of training steps of a small GPT-2: python traces_making.py FILE STEPS."""

from __future__ import annotations

import sys
from typing import Any


def main() -> None:
    """Profile the steps with shapes and memory; every module call is labelled."""
    import torch
    from torch.profiler import ProfilerActivity, profile, schedule
    from transformers import GPT2Config, GPT2LMHeadModel

    from assay.document.trace_labels import encode_path

    path, steps = sys.argv[1], int(sys.argv[2])
    torch.manual_seed(0)
    torch.set_num_threads(1)
    config = GPT2Config(n_layer=6, n_embd=128, n_head=4, vocab_size=1000, bos_token_id=0, eos_token_id=0)
    model = GPT2LMHeadModel(config)
    names = {module: name for name, module in model.named_modules()}
    ids = torch.randint(0, 1000, (1, 16))
    call = torch.nn.Module.__call__

    def labelled(self: Any, *args: Any, **kwargs: Any) -> Any:
        tensors = tuple(each for each in args if isinstance(each, torch.Tensor))
        with torch._C._profiler._RecordFunctionFast(encode_path(names[self]), tensors):
            return call(self, *args, **kwargs)

    torch.nn.Module.__call__ = labelled  # type: ignore[method-assign]
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    with profile(
        activities=[ProfilerActivity.CPU],
        record_shapes=True,
        profile_memory=True,
        schedule=schedule(wait=0, warmup=1, active=steps),
    ) as profiler:
        for done in range(steps + 1):
            optimizer.zero_grad()
            model(ids).logits.sum().backward()
            optimizer.step()
            if done < steps:
                profiler.step()
    profiler.export_chrome_trace(path)


if __name__ == "__main__":
    # The script's own directory comes first on the path, and its files shadow standard modules of the same name.
    del sys.path[0]
    main()
