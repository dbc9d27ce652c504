"""Small models that really train, checkpoint and resume exactly. Knows numpy and its own room alone.

`python -m foresail.workloads.trainers NAME` trains one. numpy is not loaded here: how many threads it may use has to be
said before.
"""
