"""Inputs: reading, checking, making and labelling traces. Knows core and kube; no policy and no world."""
