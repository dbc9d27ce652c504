"""Fragmentation as the results page defines it, worked out slowly and with no code of ours."""

from fractions import Fraction


def fragments(cpu_free, devices, model, typical):
    """F of one node in milli. `typical`: (share, cpu_milli, gpu_count, gpu_milli, models) each, shares sum to 1."""
    idle = sum(devices)
    total = Fraction(0)
    for share, cpu, count, milli, models in typical:
        if (
            count == 0
            or (models and model not in models)
            or cpu_free < cpu
            or sum(free >= milli for free in devices) < count
        ):
            total += share * idle
        else:
            total += share * sum(free for free in devices if free < milli)
    return total


def mix(specs):
    """The typical pods among these requests, in equal parts; all of them, so for at most 20 kinds."""
    counts = {}
    for spec in specs:
        key = (spec.cpu_milli, spec.gpu_count, spec.gpu_milli, spec.gpu_models)
        counts[key] = counts.get(key, 0) + 1
    ranked = sorted(counts.items(), key=lambda one: (one[1], one[0][0], one[0][2], one[0][1], "|".join(one[0][3])))
    taken, covered = [], 0
    for (cpu, count, milli, models), often in reversed(ranked):
        if 100 * covered >= 95 * len(specs):
            break
        taken.append((often, cpu, count, milli, models))
        covered += often
    return [(Fraction(often, covered), *rest) for often, *rest in taken]


def of_table(table, typical):
    """F of all nodes."""
    return sum(
        fragments(
            int(table.free[row, 0]),
            table.gpu_free[row, : int(table.gpu_count[row])].tolist(),
            table.models[table.gpu_model[row]],
            typical,
        )
        for row in range(table.count)
    )
