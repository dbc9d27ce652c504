"""How plug-ins of any kind are named, found, given options and traced to their files. Knows none of them."""
