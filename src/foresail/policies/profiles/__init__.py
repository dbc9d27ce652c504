"""Profiles from files and names: TOML and kube-scheduler's own YAML. Knows the registry."""
