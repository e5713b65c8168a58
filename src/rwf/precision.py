"""The precision of matrix products, resolved by platform in this one place."""

from contextlib import AbstractContextManager

from rwf.errors import choose

# On a GPU, float32 operands by default go through TF32, which changes PINN results: so none is ever implied.
# "tf32x3" is three TF32 passes, near float32 at twice the speed of "float32" (the CPU has float32 alone); "bf16x3"
# three of bfloat16, 16 bits. "float16" trains an MLP or a SIREN on a GPU with TF32's 11 bits at twice its speed: see
# nets/half.py.
PRECISIONS = {
    "float32": {"cpu": "highest", "gpu": "highest", "tpu": "highest"},
    "tf32x3": {"cpu": "highest", "gpu": "TF32_TF32_F32_X3", "tpu": "highest"},
    "bf16x3": {"cpu": "highest", "gpu": "BF16_BF16_F32_X3", "tpu": "high"},
    "tf32": {"cpu": "highest", "gpu": "TF32_TF32_F32", "tpu": "highest"},
    "float16": {"cpu": "highest", "gpu": "TF32_TF32_F32", "tpu": "highest"},
    "bfloat16": {"cpu": "highest", "gpu": "BF16_BF16_F32", "tpu": "default"},
}


def is_half(name: str, platform: str) -> bool:
    """Whether nets are trained in float16: only where that is fast, on a GPU."""
    return name == "float16" and platform in ("gpu", "cuda", "rocm")


def resolve(name: str, platform: str) -> str:
    """What JAX calls a precision on a platform, for `jax.default_matmul_precision`.

    >>> resolve("tf32x3", "cpu")
    'highest'
    """
    platform = "gpu" if platform in ("cuda", "rocm") else platform
    return PRECISIONS[choose(name, PRECISIONS, "precision")].get(platform, "highest")


def computing(name: str) -> AbstractContextManager[None]:
    """A context whose matrix products have this precision, on the device at hand: of a training, and of all that is
    computed later from what was trained.

    >>> with computing("tf32x3"):
    ...     pass
    """
    import jax

    return jax.default_matmul_precision(resolve(name, jax.default_backend()))
