"""The pages of docs/interop show scripts of examples/: they agree, and the scripts run."""

import runpy
from pathlib import Path

ROOT = Path(__file__).parents[1]


def check_page(name, capsys):
    """The page shows the script as it is, and the script does what the page says."""
    script = ROOT / "examples" / f"{name}_model.py"
    page = (ROOT / "docs" / "interop" / f"{name}.md").read_text()
    assert f"```python\n{script.read_text()}```" in page, f"copy {script.name} into the page"
    runpy.run_path(str(script), run_name="__main__")
    out = capsys.readouterr().out
    loss, difference = float(out.split()[1].rstrip(";")), float(out.split("differ by ")[1].split()[0])
    assert loss < 0.3  # it began at 0.7
    assert difference < 1e-5
