"""What runs inside pods: progress reports, checkpoints behind a fence, trainers. Knows the standard library and itself.

Its files stand in images without the rest of Foresail, so that they import nothing of it but each other; numpy is for
the trainers alone.
"""
