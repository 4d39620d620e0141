"""The modules of scripts/reproduce_paper.py."""
