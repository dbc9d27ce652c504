"""Controllers on a real cluster: what they see, and what becomes of their answers. Knows cache and actions."""
