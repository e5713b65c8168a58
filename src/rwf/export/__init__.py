"""Trained models, to ship: weights as safetensors, the function as ONNX or as plain NumPy.

rwf.export.save_weights(model, "weights.safetensors")    # parametrized or folded; any framework reads it
rwf.export.write_onnx(model, "net.onnx", x)              # folded, and checked with onnxruntime
rwf.export.write_numpy(model, "net.py", x)               # folded; a readable file that needs NumPy alone
function = rwf.export.numpy_function(model, x)           # the same as a function, here and now
"""

from rwf.export.numpy_code import numpy_function, write_numpy
from rwf.export.onnx_graph import write_onnx
from rwf.export.weights import load_weights, named_weights, save_weights

__all__ = ["load_weights", "named_weights", "numpy_function", "save_weights", "write_numpy", "write_onnx"]
