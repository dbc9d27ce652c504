"""Goes through a loop that asks, outside of a scheduler."""

from foresail.core.decide import decide as decide_alone


def answered(questions, table, profile, decide=decide_alone):
    """What the loop returns, once `decide` has answered for every pod; what `decide` raises is raised in the loop."""
    step = questions.send, None
    while True:
        try:
            pod = step[0](step[1])
        except StopIteration as end:
            return end.value
        try:
            step = questions.send, decide(pod, table, profile)
        except Exception as error:  # noqa: BLE001 - handed on
            step = questions.throw, error
