"""Files and their content: atomic writes, scratch folders, rows, YAML, HTML, SVG, progress."""
