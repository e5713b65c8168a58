"""A PyTorch SIREN, as its users write it: factorized in place, trained with AdamW, saved, folded."""

# pyright: reportMissingImports=false, reportAttributeAccessIssue=false

import copy
import math

import torch
from torch import nn

from rwf.interop.torch import check_optimizer, factorize, fold, parameter_groups


class Sine(nn.Module):
    """sin(omega (W x + b)), with the initialization of Sitzmann et al."""

    def __init__(self, inputs, outputs, omega=30.0, first=False):
        super().__init__()
        self.omega, self.linear = omega, nn.Linear(inputs, outputs)
        bound = 1 / inputs if first else math.sqrt(6 / inputs) / omega
        nn.init.uniform_(self.linear.weight, -bound, bound)

    def forward(self, x):
        return torch.sin(self.omega * self.linear(x))


if __name__ == "__main__":
    torch.manual_seed(0)
    model = nn.Sequential(Sine(2, 64, first=True), Sine(64, 64), nn.Linear(64, 1))
    x = 2 * torch.rand(256, 2) - 1
    y = torch.sin(9 * x[:, :1]) * torch.cos(5 * x[:, 1:])

    before = model(x)
    factorize(model, seed=1, mean=0.5, stddev=0.1)  # in place: the same function, s and V in the place of W
    assert torch.allclose(model(x), before, atol=1e-5)

    optimizer = torch.optim.AdamW(parameter_groups(model, weight_decay=1e-4), lr=1e-4)  # made afterwards
    check_optimizer(model, optimizer)  # an error if it were not
    losses = []
    for _ in range(200):
        optimizer.zero_grad()
        loss = torch.mean((model(x) - y) ** 2)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())

    resumed = copy.deepcopy(model)  # or a fresh model, factorized likewise, and load_state_dict
    resumed.load_state_dict(model.state_dict())
    after = model(x)
    fold(model)  # in place: nn.Linear with plain weights, as at the start
    print(f"loss {losses[-1]:.1e}; folded, the outputs differ by {(model(x) - after).abs().max().item():.1e}")
