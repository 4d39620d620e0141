"""What scripts/reproduce_paper.py consists of."""
