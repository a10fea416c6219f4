from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "use",
    [
        "import pandas; print(pandas.DataFrame.__name__)",
        "from pandas import DataFrame; print(DataFrame.__name__)",
        "import pandas.core.frame; print(pandas.core.frame.DataFrame.__name__)",
        "from pandas.core.frame import DataFrame as D; assert D is pandas.DataFrame; print(D.__name__)",
        "import pyarrow as pa; print(type(pa.table({'a': [1]}).to_pandas()).__name__)",
    ],
)
def test_a_module_is_loaded_when_it_is_used(use: str) -> None:
    script = f"""
import sys
from penstock.engine.later import load_later
import importlib
load_later("pandas")
load_later("no_such_module")
importlib.invalidate_caches()
import pandas
assert pandas.__version__[0] in "23" and "pandas.core" not in sys.modules
{use}
assert "pandas.core" in sys.modules and pandas is sys.modules["pandas"]
load_later("pandas")
assert pandas is sys.modules["pandas"] and "no_such_module" not in sys.modules
"""
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert (done.stdout, done.stderr) == ("DataFrame\n", "")
