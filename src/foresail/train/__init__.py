"""How learned planners are trained: environments, then one file a recipe. Knows experiments, JAX and gymnasium."""
