"""Questions to tables and releases: WHERE clauses, and answers with intervals."""
