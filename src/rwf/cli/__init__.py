"""The command line: verbs that read words and leave the work to the library.

Two stages. The verb and the recipe are found by hand, so that a misspelling gets the nearest name and help does
not wait for JAX; then tyro reads the rest into a dataclass whose defaults are the recipe's own values.
"""

import os
import sys
import warnings
from collections.abc import Sequence

from rwf.cli.verbs import VERBS
from rwf.errors import nearest

USAGE = """\
rwf: random weight factorization for coordinate networks

  rwf list                       the recipes
  rwf show RECIPE                one recipe, whole
  rwf run RECIPE [options]       train it: Plain, AA, WN and RWF side by side; then a table and a report
  rwf reproduce CASE [options]   every run behind the paper's tables and figures of one case
  rwf report RUNS... [options]   tables, comparisons and figures of run folders and of results/
  rwf save RUNS... [options]     write results/ from complete runs of full recipes
  rwf turntable RUN [options]    a film around a scene that a run has learnt
  rwf surface RUN [options]      the surface of a shape that a run has learnt, as a mesh file
  rwf picture RUN [options]      the picture that a run has learnt, at any size, as an image file
  rwf solution RUN [FILE.py]     what a run has found of a PDE, on a grid or at points of yours, as NPZ or CSV
  rwf predict RUN DATA [FILE.py] what an operator that a run has learnt makes of new functions, as NPZ

RECIPE is a name that `rwf list` prints, a .py file of your own (its first recipe, or FILE.py:NAME), a picture, or an
NPZ or HDF5 file of an operator's data.
`rwf VERB --help` tells the options of a verb. Start with: rwf run regression-1d --quick
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command line and returns its exit status."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    if not words or words[0] in ("-h", "--help", "help"):
        print(USAGE, end="")
        return 0
    if words[0] == "--version":
        from rwf import __version__

        print(__version__)
        return 0
    if words[0] not in VERBS:
        print(f"rwf: there is no verb {words[0]!r}.{nearest(words[0], VERBS)}\n\n{USAGE}", file=sys.stderr, end="")
        return 2
    written = warnings.formatwarning
    if not os.environ.get("RWF_DEBUG"):  # where a warning came from says nothing to who gave the file
        warnings.formatwarning = lambda message, *_, **__: f"rwf: {message}\n"
    try:
        return VERBS[words[0]](words[1:])
    except KeyboardInterrupt:
        print("rwf: stopped.", file=sys.stderr)
        return 130
    except BrokenPipeError:  # `rwf report --json | head`
        sys.stdout = None
        return 0
    except (ValueError, TypeError, OSError, ImportError, RuntimeError) as error:
        if os.environ.get("RWF_DEBUG"):
            raise
        print(f"rwf: {error}\n(RWF_DEBUG=1 shows where this came from.)", file=sys.stderr)
        return 2
    finally:
        warnings.formatwarning = written
