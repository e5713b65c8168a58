"""ONNX graphs are run for the tests of exports, where onnxruntime is installed."""

import importlib.util

import numpy as np
import pytest

HAS_ONNX = all(importlib.util.find_spec(name) for name in ("onnx", "onnxruntime"))
has_onnx = pytest.mark.skipif(not HAS_ONNX, reason="onnx or onnxruntime is not installed (the extra rwf[onnx])")


def run_onnx(path, *inputs):
    import onnxruntime

    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    names = [value.name for value in session.get_inputs()]
    return session.run(None, dict(zip(names, map(np.asarray, inputs), strict=True)))[0]
