"""Recurrent and convolutional models of sequences."""

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from torchscript_models.registry import Inputs, Shelf

shelf = Shelf()
entries = shelf.entries
BOTH = ("scripted", "traced")


def _features(width: int = 16, length: int = 12, batch: int = 2) -> Inputs:
    return (torch.randn(batch, length, width),)


def _tokens(length: int = 12, batch: int = 2) -> Inputs:
    return (torch.randint(0, 50, (batch, length)),)


class Tagger(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(50, 16)
        self.lstm = nn.LSTM(16, 24, 2, batch_first=True, bidirectional=True, dropout=0.1)
        self.fc = nn.Linear(48, 9)

    def forward(self, tokens: Tensor) -> Tensor:
        output, _ = self.lstm(self.embedding(tokens))
        return self.fc(output)


@shelf("sequence", *BOTH)
def lstm_tagger() -> tuple[nn.Module, Inputs]:
    return Tagger(), _tokens()


class Gated(nn.Module):
    def __init__(self, kind: type) -> None:
        super().__init__()
        self.rnn = kind(16, 24, batch_first=True)
        self.fc = nn.Linear(24, 4)

    def forward(self, x: Tensor) -> Tensor:
        _, state = self.rnn(x)
        return self.fc(state[-1])


@shelf("sequence", *BOTH)
def gru() -> tuple[nn.Module, Inputs]:
    return Gated(nn.GRU), _features()


@shelf("sequence", *BOTH)
def rnn() -> tuple[nn.Module, Inputs]:
    return Gated(nn.RNN), _features()


class Projected(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(16, 32, proj_size=8)

    def forward(self, x: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        return self.lstm(x, state)


@shelf("sequence", "scripted")
def lstm_with_state() -> tuple[nn.Module, Inputs]:
    return Projected(), (torch.randn(6, 2, 16), (torch.zeros(1, 2, 8), torch.zeros(1, 2, 32)))


class Packed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(16, 20, batch_first=True, bidirectional=True)
        self.fc = nn.Linear(40, 3)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        output, _ = self.lstm(packed)
        padded, _ = pad_packed_sequence(output, batch_first=True)
        return self.fc(padded)


@shelf("sequence", *BOTH, counted=False)
def lstm_packed() -> tuple[nn.Module, Inputs]:
    return Packed(), (torch.randn(3, 10, 16), torch.tensor([10, 7, 4]))


class CellLoop(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(16, 24)
        self.gru = nn.GRUCell(24, 12)

    def forward(self, x: Tensor) -> Tensor:
        h, c = torch.zeros(x.size(0), 24), torch.zeros(x.size(0), 24)
        g = torch.zeros(x.size(0), 12)
        outputs: list[Tensor] = []
        for step in x.unbind(1):
            h, c = self.cell(step, (h, c))
            g = self.gru(h, g)
            outputs.append(g)
        return torch.stack(outputs, 1)


@shelf("sequence", *BOTH)
def cells_in_a_loop() -> tuple[nn.Module, Inputs]:
    return CellLoop(), _features()


class TemporalBlock(nn.Module):
    def __init__(self, inside: int, outside: int, dilation: int) -> None:
        super().__init__()
        self.padding = 2 * dilation
        self.conv1 = nn.Conv1d(inside, outside, 3, padding=self.padding, dilation=dilation)
        self.conv2 = nn.Conv1d(outside, outside, 3, padding=self.padding, dilation=dilation)
        self.downsample = nn.Conv1d(inside, outside, 1) if inside != outside else None

    def forward(self, x: Tensor) -> Tensor:
        out = torch.relu(self.conv1(x)[:, :, : -self.padding].contiguous())
        out = torch.relu(self.conv2(out)[:, :, : -self.padding].contiguous())
        residual = x if self.downsample is None else self.downsample(x)
        return torch.relu(out + residual)


@shelf("sequence", *BOTH)
def tcn() -> tuple[nn.Module, Inputs]:
    blocks = (TemporalBlock(8, 16, 1), TemporalBlock(16, 16, 2), TemporalBlock(16, 16, 4))
    return nn.Sequential(*blocks, nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(16, 5)), (torch.randn(2, 8, 40),)


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(50, 16)
        self.gru = nn.GRU(16, 16)

    def forward(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        return self.gru(self.embedding(tokens))


class AttentionDecoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(50, 16)
        self.attention = nn.Linear(16, 16)
        self.gru = nn.GRU(32, 16)
        self.out = nn.Linear(16, 50)

    def forward(self, token: Tensor, hidden: Tensor, memory: Tensor) -> tuple[Tensor, Tensor]:
        embedded = self.embedding(token)
        energy = torch.sum(self.attention(memory) * hidden, dim=2).t()
        weights = torch.softmax(energy, dim=1).unsqueeze(1)
        context = weights.bmm(memory.transpose(0, 1)).transpose(0, 1)
        output, hidden = self.gru(torch.cat((embedded, context), 2), hidden)
        return self.out(output.squeeze(0)), hidden


class GreedySearch(nn.Module):
    def __init__(self, steps: int) -> None:
        super().__init__()
        self.encoder, self.decoder = Encoder(), AttentionDecoder()
        self.steps = steps

    def forward(self, tokens: Tensor) -> tuple[Tensor, Tensor]:
        memory, hidden = self.encoder(tokens)
        token = torch.ones(1, tokens.size(1), dtype=torch.long)
        decoded = torch.zeros([0, tokens.size(1)], dtype=torch.long)
        scores = torch.zeros([0, tokens.size(1)])
        step = 0
        while step < self.steps:
            logits, hidden = self.decoder(token, hidden, memory)
            score, best = torch.max(logits, dim=1)
            decoded = torch.cat((decoded, best.unsqueeze(0)), dim=0)
            scores = torch.cat((scores, score.unsqueeze(0)), dim=0)
            token = best.unsqueeze(0)
            step += 1
        return decoded, scores


@shelf("sequence", *BOTH)
def seq2seq_greedy() -> tuple[nn.Module, Inputs]:
    return GreedySearch(6), (torch.randint(0, 50, (7, 2)),)


class AcousticModel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv2d(1, 8, (11, 11), (2, 2), (5, 5)), nn.BatchNorm2d(8), nn.Hardtanh(0.0, 20.0, True)
        )
        self.rnns = nn.ModuleList([nn.GRU(8 * 20, 32, bidirectional=True), nn.GRU(32, 32, bidirectional=True)])
        self.fc = nn.Linear(32, 29)

    def forward(self, features: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        x = self.conv(features)
        x = x.flatten(1, 2).permute(2, 0, 1).contiguous()
        for rnn in self.rnns:
            x, _ = rnn(x)
            x = x.view(x.size(0), x.size(1), 2, -1).sum(2).view(x.size(0), x.size(1), -1)
        return self.fc(x).log_softmax(dim=-1), torch.div(lengths + 1, 2, rounding_mode="floor")


@shelf("sequence", *BOTH)
def ctc_acoustic_model() -> tuple[nn.Module, Inputs]:
    return AcousticModel(), (torch.randn(2, 1, 40, 60), torch.tensor([60, 44]))


class CtcTraining(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(16, 10)
        self.loss = nn.CTCLoss()

    def forward(self, x: Tensor, targets: Tensor, lengths: Tensor, sizes: Tensor) -> Tensor:
        return self.loss(self.fc(x).log_softmax(-1), targets, lengths, sizes)


@shelf("sequence", "scripted")
def ctc_loss() -> tuple[nn.Module, Inputs]:
    sizes = (torch.full((2,), 12), torch.full((2,), 4))
    return CtcTraining(), (torch.randn(12, 2, 16), torch.randint(1, 10, (2, 4)), *sizes)


class CustomLstm(nn.Module):
    """A layer written by hand, as the TorchScript tutorial of torch does."""

    def __init__(self) -> None:
        super().__init__()
        self.weight_ih = nn.Parameter(torch.randn(4 * 12, 8))
        self.weight_hh = nn.Parameter(torch.randn(4 * 12, 12))

    def forward(self, x: Tensor, state: tuple[Tensor, Tensor]) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        inputs = x.unbind(0)
        outputs = torch.jit.annotate(list[Tensor], [])
        for i in range(len(inputs)):
            hx, cx = state
            gates = torch.mm(inputs[i], self.weight_ih.t()) + torch.mm(hx, self.weight_hh.t())
            ingate, forgetgate, cellgate, outgate = gates.chunk(4, 1)
            cy = torch.sigmoid(forgetgate) * cx + torch.sigmoid(ingate) * torch.tanh(cellgate)
            hy = torch.sigmoid(outgate) * torch.tanh(cy)
            outputs += [hy]
            state = (hy, cy)
        return torch.stack(outputs), state


@shelf("sequence", "scripted")
def custom_lstm() -> tuple[nn.Module, Inputs]:
    return CustomLstm(), (torch.randn(5, 2, 8), (torch.zeros(2, 12), torch.zeros(2, 12)))
