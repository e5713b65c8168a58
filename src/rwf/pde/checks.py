"""What is wrong with a problem as it is written, before one of its functions is called."""

import dataclasses
import keyword
import unicodedata
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from rwf.pde.domain import Box
from rwf.pde.source import source_of
from rwf.recipe import EncodingSpec, Periodic
from rwf.spec import Spec, flat

if TYPE_CHECKING:
    from rwf.pde.problem import Problem


def check_settings(problem: "Problem") -> None:
    """Refuses fields that cannot be written to a run folder, or given on the command line."""
    for field in dataclasses.fields(problem):
        value = getattr(problem, field.name)
        if not _is_plain(value):
            raise ValueError(
                f"{type(problem).__name__}.{field.name} is a {type(value).__name__}; a field is a number, a string, "
                f"True, False, None, or a tuple of these. {_cure(value)}"
            )


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, (int, float, str, Spec, Tracer))


def _cure(value: Any) -> str:
    if isinstance(value, list):
        return "Write a tuple, (1, 2), for a list."
    if getattr(value, "shape", None) == ():
        return "Write float(...) around it."
    if isinstance(value, Box):
        return "A domain is no field: write it without a type, domain = Box(...)."
    return (
        "Write numbers as fields, and compute what is made of them in a method; arrays, tables and functions stand "
        "above the class, and are no fields."
    )


def check_problem(problem: "Problem") -> None:
    """Refuses a problem without a domain, with unknowns that cannot be, or whose own code would not be hashed."""
    name, domain = type(problem).__name__, getattr(problem, "domain", None)
    if not isinstance(domain, Box):
        has = "no domain" if domain is None else f"the domain {domain!r}, which is no Box"
        raise ValueError(f"{name} has {has}. Write, for example: domain = Box(x=(0, 1), t=(0, 1)).")
    _check_unknowns(name, problem.unknowns, domain)
    if not problem.source and source_of(type(problem).__module__):
        raise ValueError(
            f"{name}.__post_init__ takes the place of Problem's, which notes what the equation is: begin it with "
            "super().__post_init__()."
        )


def _check_unknowns(owner: str, unknowns: Any, domain: Box) -> None:
    if not (isinstance(unknowns, (tuple, list)) and unknowns and all(isinstance(u, str) for u in unknowns)):
        raise ValueError(
            f'{owner}.unknowns is {unknowns!r}; expected names in a tuple: unknowns = ("u", "v"), or ("psi",) for one.'
        )
    for i, unknown in enumerate(unknowns):
        why = ""
        if not unknown.isidentifier() or keyword.iskeyword(unknown) or unknown == "self":
            why = "is no name that an argument can have"
        elif unknown != (as_read := unicodedata.normalize("NFKC", unknown)):
            why = f"is {as_read!r} where Python reads it as an argument"
        elif unknown in domain.names:
            why = "is a coordinate too"
        elif unknown in unknowns[:i]:
            why = "is there twice"
        if why:
            raise ValueError(f"{owner}.unknowns is {unknowns!r}, where {unknown!r} {why}. Give it another name.")


def check_periods(owner: str, domain: Box, encoding: EncodingSpec) -> None:
    """Refuses an encoding that tells the ends of a period apart: a net behind it is not periodic.

    One that is traced, a member of a program, is not looked at.
    """
    if not any(domain.periods) or encoding == Periodic(domain.periods):
        return
    if any(isinstance(value, Tracer) for value in flat(encoding).values()):
        return
    with jax.ensure_compile_time_eval():  # recipes are made inside of programs too
        _compare_ends(owner, domain, encoding)


def _compare_ends(owner: str, domain: Box, encoding: EncodingSpec) -> None:
    encode = encoding.build(len(domain.names), key=jax.random.key(0))
    for name, (low, high, periodic) in domain.axes:
        ends = [np.array([1.0, 0.4]) @ domain.face_bounds({name: end}) for end in (low, high)]
        one, other = np.asarray(encode(jnp.asarray(np.stack(ends), jnp.float32)))
        if periodic and np.abs(one - other).max() > 0.01 * np.abs(one).max():
            raise ValueError(
                f"{owner} is periodic in {name}, and with the encoding {type(encoding).__name__} a net is not. Leave "
                f"the encoding out, for Periodic({domain.periods}); or, if the ends need not meet, write "
                f"{name}=({low:g}, {high:g}) in the domain."
            )
