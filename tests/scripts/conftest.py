import os
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
os.environ["OMP_NUM_THREADS"] = "1"  # the models are tiny: more threads would only wait for each other
