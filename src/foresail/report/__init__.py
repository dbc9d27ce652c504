"""Tables, plots and the HTML report, drawn from results folders. Knows results; no world."""
