"""Results folders, tables, plots and the HTML report."""
