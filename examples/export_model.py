"""A trained net leaves the library: weights as safetensors, the function as NumPy and as ONNX."""

import importlib.util
import runpy
import tempfile
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import rwf
from rwf import encode, export, nets

if __name__ == "__main__":
    keys = jax.random.split(jax.random.key(0), 3)
    encoding = encode.Gaussian.create(2, frequencies=16, scale=3.0, key=keys[0])
    net = nets.MLP.create(encoding, 3, depth=2, width=32, activation=jnp.tanh, key=keys[1])
    net = rwf.factorize(net, key=keys[2])  # train it here
    x = jax.random.uniform(keys[0], (100, 2))
    expected = rwf.materialize(net)(x)
    folder = Path(tempfile.mkdtemp())

    export.save_weights(net, folder / "factors.safetensors")  # s and V: to go on training, here or in PyTorch
    export.save_weights(rwf.fold(net), folder / "plain.safetensors")  # W: to ship
    again = export.load_weights(net, folder / "factors.safetensors")
    print(f"from the file: the outputs differ by {jnp.abs(rwf.materialize(again)(x) - expected).max():.1e}")

    path = export.write_numpy(net, folder / "net.py", x)  # net.py and net.npz: NumPy is all that they need
    function = runpy.run_path(str(path))["net"]
    print(f"NumPy: the outputs differ by {np.abs(function(np.asarray(x)) - expected).max():.1e}")

    if all(importlib.util.find_spec(package) for package in ("onnx", "onnxruntime")):
        export.write_onnx(net, folder / "net.onnx", x)  # checked with onnxruntime, to 1e-5
        print("ONNX: written and checked")
