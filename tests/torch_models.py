"""PyTorch models as their users write them, for the tests of interop and export. Imported only where torch is."""

import math

import torch
from torch import nn

from rwf.interop import torch as interop

torch.set_num_threads(1)  # the models are tiny, and test workers share the cores


def noise(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(7))


class Sine(nn.Module):
    """A layer of SIREN, as in the code that goes around."""

    def __init__(self, inputs, outputs, omega=30.0, first=False):
        super().__init__()
        self.omega = omega
        self.linear = nn.Linear(inputs, outputs)
        bound = 1 / inputs if first else math.sqrt(6 / inputs) / omega
        with torch.no_grad():
            self.linear.weight.uniform_(-bound, bound)

    def forward(self, x):
        return torch.sin(self.omega * self.linear(x))


def siren():
    return nn.Sequential(Sine(2, 16, first=True), Sine(16, 16), nn.Linear(16, 3))


class Block(nn.Module):
    """A residual block."""

    def __init__(self, channels):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, groups=2)
        self.norm2 = nn.GroupNorm(2, channels)

    def forward(self, x):
        h = torch.relu(self.norm1(self.conv1(x)))
        return torch.relu(x + self.norm2(self.conv2(h)))


def resnet():
    return nn.Sequential(nn.Conv2d(1, 4, 3, 2), Block(4), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(16, 3))


class Encoder(nn.Module):
    """Tokens, a transformer encoder, a linear head."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(7, 8)
        layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(8, 3)

    def forward(self, tokens):
        return self.head(self.encoder(self.embed(tokens)).mean(dim=1))


class CrossAttention(nn.Module):
    """Attention whose keys and values have sizes of their own: three projections instead of a packed one."""

    def __init__(self):
        super().__init__()
        self.query = nn.Linear(2, 8)
        self.attention = nn.MultiheadAttention(8, 2, kdim=5, vdim=3, batch_first=True)
        self.head = nn.Linear(8, 2)

    def forward(self, x):
        keys, values = x.repeat(1, 1, 3)[..., :5], x.repeat(1, 1, 2)[..., :3]
        return self.head(self.attention(self.query(x), keys, values, need_weights=False)[0])


class Product(nn.Module):
    """A bilinear layer."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(2, 4)
        self.product = nn.Bilinear(4, 2, 3)

    def forward(self, x):
        return self.product(torch.tanh(self.first(x)), x)


class Fourier(nn.Module):
    """Random Fourier features, and layers of many kinds."""

    def __init__(self):
        super().__init__()
        self.register_buffer("frequencies", noise(2, 4))
        kinds = [
            nn.GELU(),
            nn.GELU("tanh"),
            nn.SiLU(),
            nn.Softplus(),
            nn.LayerNorm(8),
            nn.ELU(),
            nn.LeakyReLU(),
            nn.Mish(),
        ]
        self.net = nn.Sequential(*[layer for kind in kinds for layer in (nn.Linear(8, 8), kind)], nn.Linear(8, 3))

    def forward(self, x):
        phases = 2 * math.pi * x @ self.frequencies
        return torch.sigmoid(self.net(torch.cat([phases.cos(), phases.sin()], dim=-1)))


def convolutional(conv, transposed, axes):
    """Convolutions down and up again, in one, two or three dimensions."""
    return nn.Sequential(
        conv(2, 6, 2, groups=2),
        nn.Tanh(),
        transposed(6, 4, 2, groups=2),
        nn.Tanh(),
        transposed(4, 3, 1, bias=False),
        nn.Flatten(),
        nn.Linear(3 * 4**axes, 2),
    )


# Models with an input each.
MODELS = {
    "mlp": (lambda: nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 3)), (5, 2)),
    "siren": (siren, (5, 2)),
    "fourier": (Fourier, (5, 2)),
    "resnet": (resnet, (4, 1, 9, 9)),
    "transformer": (Encoder, "tokens"),
    "attention": (CrossAttention, (3, 4, 2)),
    "bilinear": (Product, (5, 2)),
    "conv1d": (lambda: convolutional(nn.Conv1d, nn.ConvTranspose1d, 1), (3, 2, 4)),
    "conv2d": (lambda: convolutional(nn.Conv2d, nn.ConvTranspose2d, 2), (3, 2, 4, 4)),
    "conv3d": (lambda: convolutional(nn.Conv3d, nn.ConvTranspose3d, 3), (2, 2, 4, 4, 4)),
}


def make(name, seed=0, dtype=torch.float32):
    """A model and an input of it."""
    torch.manual_seed(seed)
    build, shape = MODELS[name]
    x = torch.arange(12).view(3, 4) % 7 if shape == "tokens" else noise(*shape).to(dtype)
    return build().to(dtype), x


def perturb(model, size=0.1, seed=3):
    """The model as training would leave it: each parameter moved at random."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += size * torch.randn(parameter.shape, generator=generator).to(parameter.dtype)
    return model


def fit(model, x, steps=10, lr=1e-3):
    """Some steps of Adam towards fixed targets; the losses."""
    targets = torch.sin(torch.arange(model(x).numel(), dtype=torch.float32)).view(model(x).shape)
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = torch.mean((model(x) - targets) ** 2)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def distance(a, b):
    """The largest difference, relative to the largest value of the second."""
    a, b = a.detach().double(), b.detach().double()
    return float((a - b).abs().max() / b.abs().max().clamp(min=1e-30))


# Every parametrization, the variants of the factorization included.
KINDS = {
    "aa": lambda model: interop.adapt(model),
    "wn": lambda model: interop.normalize(model),
    "rwf": lambda model: interop.factorize(model, seed=0),
    "rwf-log": lambda model: interop.factorize(model, seed=0, trains="log"),
    "rwf-frozen": lambda model: interop.factorize(model, seed=0, trains="nothing"),
}


def mlp(seed=0):
    """The smallest of the models alone."""
    return make("mlp", seed)[0]


def state(model):
    """A copy of all that a model holds."""
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


def same_state(model, before):
    """Whether a model holds what it held, to the bit and in the same order."""
    after = model.state_dict()
    return list(after) == list(before) and all(torch.equal(after[name], before[name]) for name in before)
