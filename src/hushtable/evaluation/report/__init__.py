"""HTML pages and plots of evaluations, comparisons and ledgers."""
