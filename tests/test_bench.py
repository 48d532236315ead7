"""The benchmarks find what they measure: nothing else runs them in CI."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_every_benchmark_can_be_imported() -> None:
    """Also after what it uses was moved."""
    names = sorted(path.stem for path in (ROOT / "bench").glob("*.py") if not path.stem.startswith("__"))
    code = "; ".join(f"import bench.{name}" for name in names)
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert (0, "") == (done.returncode, done.stderr)
