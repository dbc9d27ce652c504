"""Forecasters of workloads, fitted and judged. Knows traces, forecasts and the report; no world."""
