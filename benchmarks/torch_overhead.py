"""What a factorized PyTorch model costs, as ratios to the plain one: training steps and folded inference.

    python benchmarks/torch_overhead.py [--device cuda] [--steps 20] [--quick] [--only eager combined] [--json FILE]

A 256-wide MLP, batch 65,536. Both sides of a ratio take turns in one run; the ratio is the median over rounds of
ours / other with its 95 % bootstrap interval, and that of two identical plain models beside it says what the
machine can resolve. The exit status is 1 if a target is missed by more than that. Needs `pip install 'rwf[torch]'`.
"""

# PyTorch is optional.
# pyright: reportMissingImports=false, reportAttributeAccessIssue=false

import argparse
import copy
import itertools
import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from rwf.interop.torch import factorize, fold, reparametrize

Side = Callable[[], float]  # does a piece of work, and returns the seconds that it took
PROCESSOR_TIME = False  # --processor-time
# How `torch.compile` is called: as it is, with small kernels combined, with CUDA graphs, with both. `captured` and
# `captured-combined` are the first two with the whole step, the optimizer's update included, in one CUDA graph.
COMPILED: dict[str, dict[str, Any]] = {
    "compile": {},
    "combined": {"options": {"combo_kernels": True}},
    "graphs": {"mode": "reduce-overhead"},
    "both": {"options": {"combo_kernels": True, "triton.cudagraphs": True}},
    "captured": {},
    "captured-combined": {"options": {"combo_kernels": True}},
}
TARGETS = {"eager": 1.03} | dict.fromkeys(COMPILED, 1.01)


@dataclass(frozen=True)
class Setting:
    """What is measured, and on what."""

    device: str
    width: int = 256
    depth: int = 4
    batch: int = 65_536
    steps: int = 1
    rounds: int = 20


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    what: str
    ours: float  # milliseconds
    other: float
    ratio: float
    interval: tuple[float, float]
    target: float | None

    @property
    def missed(self) -> bool:
        """Whether even the lower end of the interval is above the target."""
        return self.target is not None and self.interval[0] > self.target


def network(setting: Setting) -> nn.Module:
    """An MLP with tanh, the same for every call."""
    torch.manual_seed(0)
    sizes = [2, *[setting.width] * setting.depth]
    layers = [m for i, o in itertools.pairwise(sizes) for m in (nn.Linear(i, o), nn.Tanh())]
    return nn.Sequential(*layers, nn.Linear(setting.width, 1)).to(setting.device)


def now() -> float:
    """Seconds of the clock, or of the processor: one thread's work, whatever else runs on the machine."""
    return time.process_time() if PROCESSOR_TIME else time.perf_counter()


def wait(setting: Setting) -> None:
    if setting.device.startswith("cuda"):
        torch.cuda.synchronize()


def training(setting: Setting, model: nn.Module, mode: str) -> Side:
    """Steps of Adam on a full batch."""
    generator = torch.Generator().manual_seed(1)
    x = torch.rand(setting.batch, 2, generator=generator).to(setting.device)
    y = torch.sin(9 * x[:, :1])
    captured = mode.startswith("captured")
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True, capturable=captured)

    def loss() -> torch.Tensor:
        return torch.mean((model(x) - y) ** 2)

    fast = torch.compile(loss, **COMPILED[mode]) if mode in COMPILED else loss

    def step() -> None:
        optimizer.zero_grad(set_to_none=True)
        fast().backward()
        optimizer.step()

    steps = capture(step) if captured else step
    with torch.no_grad():
        before = loss().item()

    def side() -> float:
        wait(setting)
        clock = now()
        for _ in range(setting.steps):
            steps()
        wait(setting)
        return (now() - clock) / setting.steps

    for _ in range(3):
        side()
    with torch.no_grad():
        if loss().item() == before:
            raise AssertionError(f"{mode}: what is timed does not train, the loss stays at {before:g}.")
    return side


def capture(step: Callable[[], None]) -> Callable[[], None]:
    """A training step as one CUDA graph: the host launches once, whatever the step consists of."""
    side_stream = torch.cuda.Stream()
    side_stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side_stream):  # compiled and warm before it is captured, as PyTorch asks
        for _ in range(5):
            step()
    torch.cuda.current_stream().wait_stream(side_stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()

    def replay(_kept: Callable[[], None] = step) -> None:  # a graph does not keep the tensors of its step alive
        graph.replay()

    return replay


def inference(setting: Setting, model: nn.Module) -> Side:
    """Forward passes without gradients."""
    x = torch.rand(setting.batch, 2, generator=torch.Generator().manual_seed(1)).to(setting.device)

    @torch.no_grad()
    def side() -> float:
        wait(setting)
        clock = now()
        for _ in range(setting.steps):
            model(x)
        wait(setting)
        return (now() - clock) / setting.steps

    side()
    return side


def compare(setting: Setting, what: str, ours: Side, other: Side, target: float | None = None) -> Row:
    """In turns, forwards and backwards."""
    times: dict[str, list[float]] = {"ours": [], "other": []}
    for turn in range(setting.rounds):
        for name in ("ours", "other")[:: 1 if turn % 2 else -1]:
            times[name].append({"ours": ours, "other": other}[name]())
    a, b = (np.array(times[name]) for name in ("ours", "other"))
    ratios = a / b
    draws = np.random.default_rng(0).integers(0, len(ratios), (2000, len(ratios)))
    low, high = np.quantile(np.median(ratios[draws], axis=1), (0.025, 0.975))
    return Row(
        what, 1e3 * np.median(a).item(), 1e3 * np.median(b).item(), float(np.median(ratios)), (low, high), target
    )


def training_rows(setting: Setting, mode: str) -> list[Row]:
    rows = []
    for name in ("plain", "rwf", "wn", "aa"):
        other, ours = network(setting), reparametrize(network(setting), name, seed=0)
        sides = [training(setting, model, mode) for model in (ours, other)]
        target = TARGETS[mode] if name == "rwf" else None
        rows.append(compare(setting, f"training step, {mode}: {name} / plain", sides[0], sides[1], target))
    return rows


def inference_rows(setting: Setting) -> list[Row]:
    plain = network(setting)
    folded = fold(factorize(copy.deepcopy(plain), seed=0))
    if [type(a) for a in plain.modules()] != [type(b) for b in folded.modules()]:
        raise AssertionError("The folded model is not of the plain model's classes.")
    return [
        compare(setting, "inference: plain / plain", inference(setting, plain), inference(setting, plain)),
        compare(setting, "inference: folded / plain", inference(setting, folded), inference(setting, plain), 1.0),
    ]


def conversion(setting: Setting, parameters: float) -> dict[str, Any]:
    """Seconds to factorize and to fold a model of this many parameters, and the memory that it takes beside it."""
    width = 4096
    layers = max(1, round(parameters / width**2))
    model = nn.Sequential(*[nn.Linear(width, width, bias=False, device=setting.device) for _ in range(layers)])
    seconds, work, peaks = {}, {}, {}
    for name, verb in (("factorize", lambda: factorize(model, seed=0)), ("fold", lambda: fold(model))):
        wait(setting)
        before = _start_peak(setting)
        clock, busy = time.perf_counter(), time.process_time()
        verb()
        wait(setting)
        seconds[name], peaks[name] = time.perf_counter() - clock, _peak(setting) - before
        work[name] = time.process_time() - busy
    size = layers * width**2
    return {
        "parameters": size,
        "seconds": seconds,
        "processor seconds": work,
        "extra bytes": peaks,
        "bytes of a layer": 4 * width**2,
    }


def _start_peak(setting: Setting) -> int:
    if setting.device.startswith("cuda"):
        torch.cuda.reset_peak_memory_stats()
        return torch.cuda.memory_allocated()
    if not Path("/proc/self/clear_refs").exists():
        return 0
    Path("/proc/self/clear_refs").write_text("5")
    return _status("VmRSS")


def _peak(setting: Setting) -> int:
    if setting.device.startswith("cuda"):
        return torch.cuda.max_memory_allocated()
    return _status("VmHWM") if Path("/proc/self/clear_refs").exists() else 0


def _status(field: str) -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))


def main() -> int:
    parser = argparse.ArgumentParser(description="What a factorized PyTorch model costs, as ratios to the plain one.")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--quick", action="store_true", help="a batch of 8,192 and fewer rounds")
    parser.add_argument("--only", nargs="+", choices=["eager", *COMPILED, "inference", "conversion"])
    parser.add_argument("--parameters", type=float, default=0.25e9, help="of the model that is factorized and folded")
    parser.add_argument("--processor-time", action="store_true", help="on a busy machine: one thread's processor time")
    parser.add_argument("--steps", type=int, help="between two waits for a device (100 there, 1 on a CPU)")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    if not options.device.startswith("cuda") and any(part.startswith("captured") for part in options.only or ()):
        parser.error("captured needs --device cuda: a CUDA graph holds the step")
    global PROCESSOR_TIME
    PROCESSOR_TIME = options.processor_time
    if PROCESSOR_TIME:
        torch.set_num_threads(1)
    cuda = options.device.startswith("cuda")
    # Many steps between two waits for a device, as in training. With 20 RWF's compiled step was 1.016.
    setting = Setting(options.device, steps=100 if cuda else 1, rounds=12 if cuda else 20)
    if options.quick:
        setting = Setting(options.device, batch=8_192, steps=20 if cuda else 2, rounds=10)
    if options.steps:
        setting = replace(setting, steps=options.steps)
    parts = options.only or ["eager", *(COMPILED if cuda else ["compile"]), "inference", "conversion"]
    print(f"torch {torch.__version__}, {setting}, {torch.get_num_threads()} threads")
    rows: list[Row] = []
    for part in parts:
        if part == "conversion":
            continue
        rows += inference_rows(setting) if part == "inference" else training_rows(setting, part)
        for row in rows[-4 if part != "inference" else -2 :]:
            target = f"  target {row.target:g}" if row.target else ""
            low, high = row.interval
            print(
                f"{row.what:40} {row.ours:8.3f} ms {row.other:8.3f} ms  {row.ratio:.3f} ({low:.3f}–{high:.3f}){target}"
            )
    converted = conversion(setting, options.parameters) if "conversion" in parts else None
    if converted:
        print(converted)
    if options.json:
        content = {"setting": asdict(setting), "torch": torch.__version__, "rows": [asdict(row) for row in rows]}
        options.json.write_text(json.dumps(content | {"conversion": converted}, indent=1))
    return int(any(row.missed for row in rows))


if __name__ == "__main__":
    sys.exit(main())
