"""Sources of rows: files, URLs and databases, opened without reading a row."""
