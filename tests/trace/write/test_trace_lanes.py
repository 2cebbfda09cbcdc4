"""Numbers that the threads of one capture share."""

from __future__ import annotations

import threading

import torch

from assay.trace.write.lanes import ShapeNumbers


class SwitchesThreads(dict):
    """A dict that lets another thread run, once, between reading its size and using it."""

    def __init__(self, other: threading.Thread) -> None:
        super().__init__()
        self._other = other

    def __len__(self) -> int:
        size = super().__len__()
        if self._other.ident is None:
            self._other.start()
            self._other.join(0.2)  # ends here only if it does not have to wait for this thread
        return size


def test_two_threads_never_share_a_shape_number():
    numbers = ShapeNumbers()
    of_thread = {}

    def number(shape):
        of_thread[shape] = numbers.number_of((torch.empty(shape),), {})

    other = threading.Thread(target=number, args=((1, 4),))
    numbers._numbers = SwitchesThreads(other)
    number((1, 8))
    other.join()
    table = numbers.table()
    assert sorted(of_thread.values()) == [0, 1]
    assert {shape: table[index] for shape, index in of_thread.items()} == {(1, 8): ((1, 8),), (1, 4): ((1, 4),)}
