"""Go's `math/rand` generator, so that a published run can be drawn again pod by pod.

The openb experiments shuffle, clone and rank with Go's generator. Their arrival order, and so every figure, comes out
only if every draw is the same draw; numpy's generators cannot stand in.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt

from foresail.errors import InputError

if TYPE_CHECKING:
    _Kernel = TypeVar("_Kernel", bound=Callable[..., object])

    def njit(*, cache: bool) -> Callable[[_Kernel], _Kernel]:
        """Keep the types of a kernel, which numba's own annotations lose."""
else:
    from numba import njit

_WORDS = 607
_LAG = 273
_FEED_START = _WORDS - _LAG
_SEED_MODULUS = 2**31 - 1
_SEED_FACTOR = 48271
_SEED_FOR_ZERO = 89482311
_WARM_UP_STEPS = 20
_STATE_STEPS = 7_800_000_000_000
"""How far the generator had run from seed 1 when its authors wrote down the words that are mixed into every seed."""

Words = npt.NDArray[np.uint64]
Ints = npt.NDArray[np.int64]


@njit(cache=True)
def _seed_words(seed: int, shift: int, mixed_in: Words) -> Words:
    words = np.empty(_WORDS, dtype=np.uint64)
    y = seed
    for _ in range(_WARM_UP_STEPS):
        y = (_SEED_FACTOR * y) % _SEED_MODULUS
    for slot in range(_WORDS):
        word = np.uint64(0)
        for part in range(3):
            y = (_SEED_FACTOR * y) % _SEED_MODULUS
            word ^= np.uint64(y) << np.uint64(shift * (2 - part))
        words[slot] = word ^ mixed_in[slot]
    return words


@njit(cache=True)
def _int63(words: Words, at: Ints) -> np.int64:
    """Draw 63 bits. `at` holds tap and feed; both walk down the ring, the sum overwrites the word at the feed."""
    tap = at[0] - 1
    if tap < 0:
        tap += _WORDS
    feed = at[1] - 1
    if feed < 0:
        feed += _WORDS
    at[0] = tap
    at[1] = feed
    word = words[feed] + words[tap]
    words[feed] = word
    return np.int64(word & np.uint64(0x7FFF_FFFF_FFFF_FFFF))


@njit(cache=True)
def _intn(words: Words, at: Ints, n: int) -> np.int64:
    if n & (n - 1) == 0:
        return (_int63(words, at) >> 32) & (n - 1)
    # The top of the range is redrawn: it would make small remainders likelier.
    most = 2**31 - 1 - 2**31 % n
    draw = _int63(words, at) >> 32
    while draw > most:
        draw = _int63(words, at) >> 32
    return draw % n


@njit(cache=True)
def _shuffle(words: Words, at: Ints, count: int) -> Ints:
    items = np.arange(count)
    low_bits = np.uint64(0xFFFF_FFFF)
    for i in range(count - 1, 0, -1):
        n = np.uint64(i + 1)
        product = np.uint64(_int63(words, at) >> 31) * n
        low = product & low_bits
        if low < n:
            threshold = (np.uint64(2**32) - n) % n
            while low < threshold:
                product = np.uint64(_int63(words, at) >> 31) * n
                low = product & low_bits
        j = np.int64(product >> np.uint64(32))
        held = items[i]
        items[i] = items[j]
        items[j] = held
    return items


@njit(cache=True)
def _perm(words: Words, at: Ints, count: int) -> Ints:
    items = np.zeros(count, dtype=np.int64)
    for i in range(count):  # Go spends a draw on i = 0 too
        j = _intn(words, at, i + 1)
        items[i] = items[j]
        items[j] = i
    return items


@njit(cache=True)
def _grow(words: Words, at: Ints, order: Ints, gpu_milli: Ints, num_gpu: Ints, target_milli: float) -> Ints:
    """Append clones of drawn pods until the next one would pass the target."""
    demand = (gpu_milli * num_gpu).sum()
    count = order.size
    while True:
        i = _intn(words, at, gpu_milli.size)
        # Per GPU, not times num_gpu: the published experiments stop by this sum, and the draw is spent.
        if demand + gpu_milli[i] > target_milli:
            return order[:count]
        if count == order.size:
            longer = np.empty(2 * count, dtype=np.int64)
            longer[:count] = order
            order = longer
        order[count] = i
        count += 1
        demand += gpu_milli[i] * num_gpu[i]


@njit(cache=True)
def _shrink(words: Words, at: Ints, order: Ints, gpu_milli: Ints, num_gpu: Ints, target_milli: float) -> Ints:
    """Delete drawn pods, keeping the order of the rest, until the demand is no more than the target."""
    demand = (gpu_milli * num_gpu).sum()
    count = order.size
    while demand > target_milli:
        i = _intn(words, at, count)
        demand -= gpu_milli[order[i]] * num_gpu[order[i]]
        order[i : count - 1] = order[i + 1 : count].copy()
        count -= 1
    return order[:count]


def _reduced(polynomial: Words) -> Words:
    """The remainder by X^607 - X^334 - 1, folding 273 powers at a time: a fold never lands inside its own block."""
    end = len(polynomial)
    while end > _WORDS:
        start = max(_WORDS, end - _LAG)
        block = polynomial[start:end].copy()
        polynomial[start - _WORDS : end - _WORDS] += block
        polynomial[start - _LAG : end - _LAG] += block
        end = start
    return polynomial[:_WORDS]


@functools.cache
def state_words() -> Words:
    """The 607 words that Go mixes into every seed, computed (some 20 ms, once a process) instead of copied.

    They are the state after 7.8e12 steps from seed 1. A step multiplies by X modulo X^607 - X^334 - 1 over the
    integers modulo 2^64, so 43 squarings get there.
    """
    power = np.zeros(_WORDS, dtype=np.uint64)
    power[0] = 1
    for bit in f"{_STATE_STEPS:b}":
        power = _reduced(np.convolve(power, power))
        if bit == "1":
            power = _reduced(np.concatenate([np.zeros(1, dtype=np.uint64), power]))

    start = _seed_words(1, 10, np.zeros(_WORDS, dtype=np.uint64))
    # Step t writes slot (334 - t) mod 607, so the words of the start were "written" at steps -606 to 0.
    sequence = np.empty(2 * _WORDS - 1, dtype=np.uint64)
    sequence[:_WORDS] = start[(_FEED_START - np.arange(1 - _WORDS, 1)) % _WORDS]
    for k in range(_WORDS, len(sequence)):
        sequence[k] = sequence[k - _WORDS] + sequence[k - _LAG]
    last_steps = np.arange(_STATE_STEPS + 1 - _WORDS, _STATE_STEPS + 1)
    words = np.empty(_WORDS, dtype=np.uint64)
    words[(_FEED_START - last_steps) % _WORDS] = np.convolve(sequence, power[::-1], mode="valid")
    words.flags.writeable = False
    return words


class GoRandom:
    """The numbers of `rand.New(rand.NewSource(seed))` in Go, draw for draw."""

    def __init__(self, seed: int) -> None:
        # Go's remainder keeps the sign of the seed and then lifts negatives: the same as Python's.
        self._words: Words = _seed_words(seed % _SEED_MODULUS or _SEED_FOR_ZERO, 20, state_words())
        self._at: Ints = np.array([0, _FEED_START], dtype=np.int64)

    def int63(self) -> int:
        return int(_int63(self._words, self._at))

    def intn(self, n: int) -> int:
        """Draw from 0 to n - 1, with n at most 2^31 - 1 (Go draws differently above)."""
        _require(n, 1)
        return int(_intn(self._words, self._at, n))

    def shuffle(self, n: int) -> Ints:
        """Shuffle 0 to n - 1: entry i is the index of the item that Go's `Shuffle` leaves at place i."""
        _require(n, 0)
        return _shuffle(self._words, self._at, n)

    def perm(self, n: int) -> Ints:
        _require(n, 0)
        return _perm(self._words, self._at, n)

    def tuned_order(self, gpu_milli: Ints, num_gpu: Ints, target_milli: float) -> Ints:
        """Shuffle all pods, then clone or delete drawn ones until they ask for the target."""
        order = self.shuffle(len(gpu_milli))
        demand = int((gpu_milli * num_gpu).sum())
        if demand == target_milli:
            return order
        tune = _grow if demand < target_milli else _shrink
        tuned: Ints = tune(self._words, self._at, order, gpu_milli, num_gpu, float(target_milli))
        return tuned


@dataclass(frozen=True, slots=True)
class OpenbDraw:
    """What chance decides in one openb run.

    `order`: the arriving pods as indices into the pods sorted by name. `is_clone`: the arrivals that were added to
    reach the load. `rank`: entry i is the rank of node i in name order; the lowest rank wins every tie.
    """

    order: Ints
    is_clone: npt.NDArray[np.bool_]
    rank: Ints


def draw_openb_run(gpu_milli: Ints, num_gpu: Ints, load_milli_target: float, seed: int, node_count: int) -> OpenbDraw:
    """Draw arrivals and node ranks of one published run from the pods sorted by name.

    `gpu_milli` is per GPU. The target is the load times the milli-GPU of all nodes.
    """
    gpu_milli = np.ascontiguousarray(gpu_milli, dtype=np.int64)
    num_gpu = np.ascontiguousarray(num_gpu, dtype=np.int64)
    if not (gpu_milli * num_gpu).any() and load_milli_target > 0:
        raise InputError(
            f"none of the {len(gpu_milli)} pods asks for a GPU, so no number of clones reaches a load; "
            "give a trace with GPU pods or simulate with --protocol clock"
        )
    random = GoRandom(seed)
    random.int63()  # the published program spends one draw before the shuffle
    order = random.tuned_order(gpu_milli, num_gpu, load_milli_target)
    is_clone = np.arange(len(order)) >= len(gpu_milli)
    for _ in range(10):  # and ten before it ranks the nodes
        random.int63()
    return OpenbDraw(order, is_clone, random.perm(node_count))


def _require(n: int, least: int) -> None:
    if not least <= n <= _SEED_MODULUS:
        raise ValueError(f"n is {n}; Go's generator draws from {least} to {_SEED_MODULUS} items here")
