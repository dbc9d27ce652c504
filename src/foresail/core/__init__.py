"""The one decision path: model, contract, queue and `decide`. Depends on numpy alone."""
