"""The modules of scripts/quality_table.py."""
