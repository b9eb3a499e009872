"""How results are shown: terminal tables, progress, rows for JSON."""
