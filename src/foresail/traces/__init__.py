"""Inputs: reading, checking, making and labelling traces."""
