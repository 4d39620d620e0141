"""What scripts/quality_table.py consists of."""
